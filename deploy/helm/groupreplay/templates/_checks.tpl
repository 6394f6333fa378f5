{{/* What the schema cannot say, each in a sentence. */}}
{{- define "groupreplay.checks" -}}
{{- $checkpoint := .Values.job.checkpoint -}}
{{- if not .Values.bootstrapServers }}
{{- fail "no cluster is named: set bootstrapServers to the brokers, for example --set bootstrapServers=broker:9092" }}
{{- end }}
{{- if not (or .Values.job.enabled .Values.serve.enabled .Values.watch.enabled) }}
{{- fail "nothing is enabled: set job.enabled, serve.enabled or watch.enabled to true" }}
{{- end }}
{{- if .Values.job.enabled }}
{{- if and $checkpoint.s3.uri $checkpoint.volume.enabled }}
{{- fail "the checkpoint of the job is on S3 and on a volume: set job.checkpoint.volume.enabled=false, or leave out job.checkpoint.s3.uri" }}
{{- end }}
{{- if not (or $checkpoint.s3.uri $checkpoint.volume.enabled) }}
{{- fail "the job has no checkpoint: set job.checkpoint.volume.enabled=true, or job.checkpoint.s3.uri to s3a://BUCKET/FOLDER" }}
{{- end }}
{{- end }}
{{- if not .Values.pages.secretName }}
{{- if and .Values.serve.enabled (not .Values.serve.metricsOnly) }}
{{- fail "the pages of serve need a token: set pages.secretName to a Secret that has one, or serve.metricsOnly=true" }}
{{- end }}
{{- if .Values.watch.enabled }}
{{- fail "the pages of watch need a token: set pages.secretName to a Secret that has one" }}
{{- end }}
{{- end }}
{{- if and .Values.sink.login.secretName (not .Values.sink.bootstrapServers) }}
{{- fail "sink.login is set and no cluster for it: set sink.bootstrapServers, or leave out sink.login.secretName" }}
{{- end }}
{{- end }}
