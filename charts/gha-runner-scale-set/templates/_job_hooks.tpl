{{/*
The scripts that the runner calls at the start and the end of a job (feedback.jobLog, feedback.debugHold), in a ConfigMap; what they print of
the pod comes from the pod itself.
*/}}

{{/* "true" if the job's log gets what the runner knows. */}}
{{- define "gha-runner-scale-set.job-log" -}}
{{- if (.Values.feedback | default dict).jobLog }}true{{ end }}
{{- end }}

{{/* For how many seconds the end of a job is held that was run again with debug logging. */}}
{{- define "gha-runner-scale-set.debug-hold" -}}
{{- include "gha-runner-scale-set.seconds" (.Values.feedback | default dict).debugHold }}
{{- end }}

{{/* A duration such as 1h30m in whole seconds, 0 for none. Takes the value. */}}
{{- define "gha-runner-scale-set.seconds" -}}
{{- $seconds := 0 }}
{{- range regexFindAll "[0-9]+(\\.[0-9]+)?(ms|[hms])" (toString (. | default "0s")) -1 }}
{{- $unit := get (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001) (regexFind "(ms|[hms])$" .) }}
{{- $seconds = addf $seconds (mulf (regexFind "^[0-9.]+" . | float64) $unit) }}
{{- end }}
{{- int64 (floor $seconds) }}
{{- end }}

{{/* Where the scripts are mounted; "" if none is used: both are off, or the user has hooks of his own in their places. */}}
{{- define "gha-runner-scale-set.job-hooks" -}}
{{- $log := include "gha-runner-scale-set.job-log" . }}
{{- $hold := ne (include "gha-runner-scale-set.debug-hold" .) "0" }}
{{- $own := dict }}
{{- range (include "gha-runner-scale-set.own-runner" . | fromJson).env }}
{{- $_ := set $own (toString .name) true }}
{{- end }}
{{- $started := and $log (not (hasKey $own "ACTIONS_RUNNER_HOOK_JOB_STARTED")) }}
{{- $completed := and (or $log $hold) (not (hasKey $own "ACTIONS_RUNNER_HOOK_JOB_COMPLETED")) }}
{{- if or $started $completed }}/opt/job-hooks{{ end }}
{{- end }}

{{- define "gha-runner-scale-set.validate-feedback" -}}
{{- if gt (include "gha-runner-scale-set.debug-hold" . | int) 3600 }}
{{- fail (printf "feedback.debugHold is %v, but a job's end is held for an hour at most: use 1h or less" .Values.feedback.debugHold) }}
{{- end }}
{{- if include "gha-runner-scale-set.job-hooks" . }}
{{- range ((.Values.template).spec).volumes }}
{{- if eq (toString .name) "job-hooks" }}
{{- fail "template.spec.volumes has a volume named job-hooks, which feedback.jobLog and feedback.debugHold need: give it another name" }}
{{- end }}
{{- end }}
{{- range (include "gha-runner-scale-set.own-runner" . | fromJson).volumeMounts }}
{{- if eq (toString .mountPath | trimSuffix "/") (include "gha-runner-scale-set.job-hooks" $) }}
{{- fail (printf "template.spec.containers: the container runner mounts volume %s at %s, where feedback.jobLog and feedback.debugHold have their scripts: mount it elsewhere" .name .mountPath) }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (include "gha-runner-scale-set.job-hooks" .) (include "gha-runner-scale-set.on-windows" .) }}
{{- fail "feedback.jobLog and feedback.debugHold: their scripts need a POSIX shell, which runners on Windows don't have: remove both values" }}
{{- end }}
{{- end }}
