{{/*
The volumes that the chart's own parts need as they make them, by name, and whose they are: jobs would find in them what others have left,
or not what belongs there.
*/}}
{{- define "gha-runner-scale-set.taken-volumes" -}}
{{- $taken := dict }}
{{- $mode := include "gha-runner-scale-set.container-mode" . }}
{{- if eq $mode "dind" }}
{{- $taken = dict "dind-sock" "containerMode.type dind" "dind-externals" "containerMode.type dind" }}
{{- else if eq $mode "kubernetes" }}
{{- $taken = dict "work" "containerMode.type kubernetes" }}
{{- end }}
{{- if include "gha-runner-scale-set.job-hooks" . }}
{{- $_ := set $taken "job-hooks" "feedback.jobLog and feedback.debugHold" }}
{{- end }}
{{- toJson $taken }}
{{- end }}

{{/*
Claims that survive runners: what the values say, without nulls. The controller gives each runner its claims; here only what the
schema of the values can't refuse is refused.
*/}}
{{- define "gha-runner-scale-set.volume-claims" -}}
{{- $names := list }}
{{- $taken := include "gha-runner-scale-set.taken-volumes" . | fromJson }}
{{- range .Values.volumeClaimTemplates }}
{{- if hasKey $taken .metadata.name }}
{{- fail (printf "volumeClaimTemplates has an entry named %s, which is a volume of %s: give it another name" .metadata.name (get $taken .metadata.name)) }}
{{- end }}
{{- if not (has (.spec.volumeMode | default "Filesystem") (list "Filesystem")) }}
{{- fail (printf "volumeClaimTemplates, %s: spec.volumeMode is %s, which containers can't mount: leave it out" .metadata.name .spec.volumeMode) }}
{{- end }}
{{- if has .metadata.name $names }}
{{- fail (printf "volumeClaimTemplates has two entries named %s: give each volume a name of its own" .metadata.name) }}
{{- end }}
{{- $names = append $names .metadata.name }}
{{- end }}
{{- range $key := list "volumeClaimTemplates" "volumeClaimPool" "persistentVolumeClaimRetentionPolicy" }}
{{- $value := (include "gha-runner-scale-set.without-nulls" (get $.Values $key) | fromJson).value }}
{{- if kindIs "map" $value }}
{{- range $field := keys $value }}
{{- if eq (get $value $field | toString) "" }}{{/* as unset */}}
{{- $_ := unset $value $field }}
{{- end }}
{{- end }}
{{- end }}
{{- with $value }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}
