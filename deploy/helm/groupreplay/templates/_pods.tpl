{{/* What all pods have: (list . .Values.job). */}}
{{- define "groupreplay.pod" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
automountServiceAccountToken: false
{{- with include "groupreplay.account" $root }}
serviceAccountName: {{ . }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with get $part $name }}
{{ $name }}: {{- if kindIs "string" . }} {{ . }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* What all containers have: (list . .Values.job). */}}
{{- define "groupreplay.container" -}}
imagePullPolicy: {{ (index . 0).Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
resources: {{- toYaml (index . 1).resources | nindent 2 }}
{{- end }}

{{/* A new start when the rules change, and the annotations of the values: (list . .Values.job true). */}}
{{- define "groupreplay.annotations" -}}
{{- $annotations := deepCopy (index . 1).podAnnotations -}}
{{- if and (index . 2) (index . 0).Values.rules }}
{{- $_ := set $annotations "groupreplay/rules" ((index . 0).Values.rules | sha256sum | trunc 16) }}
{{- end }}
{{- with $annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The flags that name the clusters and the topics. */}}
{{- define "groupreplay.clusters" -}}
- --bootstrap-server
- {{ .Values.bootstrapServers | quote }}
{{- if .Values.login.secretName }}
- --command-config
- /etc/groupreplay/{{ .Values.login.key }}
{{- end }}
{{- if .Values.sink.bootstrapServers }}
- --sink-bootstrap-server
- {{ .Values.sink.bootstrapServers | quote }}
{{- if .Values.sink.login.secretName }}
- --sink-command-config
- /etc/groupreplay-sink/{{ .Values.sink.login.key }}
{{- end }}
{{- end }}
{{- with .Values.topicPrefix }}
- --topic-prefix
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The flags of pages that other machines reach. */}}
{{- define "groupreplay.pages" -}}
- --auth-token-file
- /etc/groupreplay-pages/{{ .Values.pages.key }}
{{- range .Values.pages.allowedHosts }}
- --allowed-host
- {{ . | quote }}
{{- end }}
{{- with .Values.pages.publicUrl }}
- --public-url
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The Secrets and rules that are files in a pod: (dict "root" . "pages" true "rules" false). */}}
{{- define "groupreplay.mounts" -}}
{{- $values := .root.Values -}}
{{- if $values.login.secretName }}
- {name: login, mountPath: /etc/groupreplay, readOnly: true}
{{- end }}
{{- if and $values.sink.bootstrapServers $values.sink.login.secretName }}
- {name: sink-login, mountPath: /etc/groupreplay-sink, readOnly: true}
{{- end }}
{{- if .pages }}
- {name: pages, mountPath: /etc/groupreplay-pages, readOnly: true}
{{- end }}
{{- if and .rules $values.rules }}
- {name: rules, mountPath: /etc/groupreplay-rules, readOnly: true}
{{- end }}
{{- end }}

{{- define "groupreplay.volumes" -}}
{{- $values := .root.Values -}}
{{- if $values.login.secretName }}
- name: login
  secret: {secretName: {{ $values.login.secretName }}, defaultMode: 0440}
{{- end }}
{{- if and $values.sink.bootstrapServers $values.sink.login.secretName }}
- name: sink-login
  secret: {secretName: {{ $values.sink.login.secretName }}, defaultMode: 0440}
{{- end }}
{{- if .pages }}
- name: pages
  secret: {secretName: {{ $values.pages.secretName }}, defaultMode: 0440}
{{- end }}
{{- if and .rules $values.rules }}
- name: rules
  configMap: {name: {{ include "groupreplay.name" .root }}-rules}
{{- end }}
{{- end }}

{{/* The port of metrics and pages, and its probes. */}}
{{- define "groupreplay.port" -}}
ports:
  - {name: metrics, containerPort: 9408}
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 10
{{- end }}

{{/* (dict "size" 10Gi "storageClassName" "") */}}
{{- define "groupreplay.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests:
    storage: {{ .size }}
{{- end }}

{{/* A Service for the port of a component: (list . "serve"). */}}
{{- define "groupreplay.service" -}}
{{- $labels := include "groupreplay.labels" . -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "groupreplay.name" (index . 0) }}-{{ index . 1 }}
  labels: {{- $labels | nindent 4 }}
spec:
  selector: {{- $labels | nindent 4 }}
  ports:
    - {name: metrics, port: 9408, targetPort: metrics}
{{- end }}
