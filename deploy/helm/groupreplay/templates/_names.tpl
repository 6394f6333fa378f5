{{- define "groupreplay.name" -}}
{{- if contains "groupreplay" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-groupreplay" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* The labels of a component's pods, which select them: (list . "job"). */}}
{{- define "groupreplay.labels" -}}
app.kubernetes.io/name: groupreplay
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* (list . .Values.image) */}}
{{- define "groupreplay.image" -}}
{{- $image := index . 1 -}}
{{ $image.repository }}{{ if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "groupreplay.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "groupreplay.name" .) }}{{ else }}{{ .Values.serviceAccount.name }}{{ end }}
{{- end }}
