{{/*
Claims that survive runners: what the values say, without nulls. The controller gives each runner its claims; here only what the
schema of the values can't refuse is refused.
*/}}
{{- define "gha-runner-scale-set.volume-claims" -}}
{{- $names := list }}
{{- range .Values.volumeClaimTemplates }}
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
