{{/*
The volumes that the chart's own parts need as they make them, by name, and whose they are: jobs would find in them what others have left,
or not what belongs there.
*/}}
{{- define "gha-runner-scale-set.taken-volumes" -}}
{{- $taken := dict }}
{{- $mode := include "gha-runner-scale-set.container-mode" . }}
{{- if eq $mode "dind" }}
{{- $taken = dict "dind-sock" "containerMode.type dind" "dind-externals" "containerMode.type dind" }}
{{- end }}
{{- if include "gha-runner-scale-set.job-hooks" . }}
{{- $_ := set $taken "job-hooks" "feedback.jobLog and feedback.debugHold" }}
{{- end }}
{{- if include "gha-runner-scale-set.mounts-token" . }}
{{- $_ := set $taken "service-account-token" "the kubernetes modes" }}
{{- end }}
{{- toJson $taken }}
{{- end }}

{{/*
Whether pods of runners have claims of their own, which Kubernetes makes and removes with them; empty if they don't.
*/}}
{{- define "gha-runner-scale-set.ephemeral-claims" -}}
{{- $work := eq (include "gha-runner-scale-set.container-mode" .) "kubernetes" }}
{{- range ((.Values.template | default dict).spec | default dict).volumes }}
{{- if eq (toString .name) "work" }}{{ $work = false }}{{ end }}
{{- if .ephemeral }}true{{ end }}
{{- end }}
{{- if $work }}true{{ end }}
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
{{- if eq $key "volumeClaimPool" }}
{{- include "gha-runner-scale-set.check-claim-pool" (dict "pool" ($value | default dict) "templates" $.Values.volumeClaimTemplates) }}
{{- end }}
{{- with $value }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* "true" if a claim template gives the work directory that runner and job pods share in mode kubernetes. */}}
{{- define "gha-runner-scale-set.work-is-kept" -}}
{{- if eq (include "gha-runner-scale-set.container-mode" .) "kubernetes" }}
{{- range .Values.volumeClaimTemplates }}
{{- if eq .metadata.name "work" }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A work directory on a claim of the pool has no other source, and a job's pod can't mount an empty directory of its runner. */}}
{{- define "gha-runner-scale-set.validate-kept-work" -}}
{{- if include "gha-runner-scale-set.work-is-kept" . }}
{{- if (include "gha-runner-scale-set.without-nulls" (.Values.containerMode).kubernetesModeWorkVolumeClaim | fromJson).value }}
{{- fail "volumeClaimTemplates has an entry named work, and so describes the volume that containerMode.kubernetesModeWorkVolumeClaim describes, too: remove one of them" }}
{{- end }}
{{- if eq (toString (.Values.volumeClaimPool | default dict).whenExhausted) "Ephemeral" }}
{{- fail "volumeClaimPool.whenExhausted is Ephemeral, but job pods can't mount an empty directory of their runner, and volumeClaimTemplates has an entry named work: use Wait" }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Where the runner's container mounts the volumes of claims, as a line NAME PATH for each: the hook at a job's end tells how full they are.
A part of a volume (subPath) is on the same disk.
*/}}
{{- define "gha-runner-scale-set.claim-mounts" -}}
{{- $seen := dict }}
{{- range (include "gha-runner-scale-set.own-runner" . | fromJson).volumeMounts }}
{{- $mount := . }}
{{- range $.Values.volumeClaimTemplates }}
{{- if and (eq .metadata.name (toString $mount.name)) (not (hasKey $seen .metadata.name)) }}
{{- $_ := set $seen .metadata.name true }}
{{ .metadata.name }} {{ $mount.mountPath }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Fails if volumeClaimPool has what its mode can't have, as the API server would. */}}
{{- define "gha-runner-scale-set.check-claim-pool" -}}
{{- if eq (get .pool "mode" | default "Claims") "Snapshot" }}
{{- range $field, $why := dict "max" "each runner has claims of its own" "idleTTL" "claims go with their runner" "maxAge" "claims go with their runner" "keepAfter" "use commitAfter" "seedFrom" "each claim is a copy of the newest snapshot" "maxUsedPercent" "claims go with their runner" }}
{{- if hasKey $.pool $field }}
{{- fail (printf "volumeClaimPool.%s must be left out in mode Snapshot: %s" $field $why) }}
{{- end }}
{{- end }}
{{- range .templates }}
{{- if or .spec.dataSource .spec.dataSourceRef }}
{{- fail (printf "volumeClaimTemplates, %s: spec.dataSource must be left out with volumeClaimPool.mode Snapshot: each claim is a copy of the newest snapshot" .metadata.name) }}
{{- end }}
{{- end }}
{{- else }}
{{- range $field := list "commitAfter" "snapshotInterval" "keepSnapshots" "snapshotClassName" }}
{{- if hasKey $.pool $field }}
{{- fail (printf "volumeClaimPool.%s needs volumeClaimPool.mode Snapshot" $field) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
