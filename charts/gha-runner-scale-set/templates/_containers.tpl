{{/*
The containers that the chart makes and a user may change: runner, and in mode dind init-dind-externals and dind. What the
user's container of that name says, in whichever list it is, is merged on top of the chart's own, field by field.
*/}}

{{/*
What the user's containers of a name say, from both lists; empty without one. The runner of values.yaml isn't the user's, whose
own may be among the init containers. Takes root and name. JSON.
*/}}
{{- define "gha-runner-scale-set.own-container" -}}
{{- $ours := dict "name" "runner" "image" "ghcr.io/actions/actions-runner:latest" "command" (list "/home/runner/run.sh") | toJson }}
{{- $own := dict }}
{{- $places := dict }}
{{- range $list := list "containers" "initContainers" }}
{{- range $container := get $.root.Values.template.spec $list | default list }}
{{- if and (eq .name $.name) (ne (toJson $container) $ours) }}
{{- range $field, $value := (include "gha-runner-scale-set.without-nulls" $container | fromJson).value }}
{{- $place := printf "template.spec.%s[%s].%s" $list $.name $field }}
{{- if and $value (get $own $field) (ne (get $own $field | toJson) (toJson $value)) }}
{{- fail (printf "%s differs from %s, but a pod has one container %s: give %s once" $place (get $places $field) $.name $field) }}
{{- end }}
{{- if or $value (not (hasKey $own $field)) }}
{{- $_ := set $own $field $value }}
{{- $_ := set $places $field $place }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $own }}
{{- end }}

{{/*
A container of the chart's with what the user's own says:
  command                a command replaces the chart's arguments, too: they were for the chart's command
  args                   replace the chart's; flags alone follow them, if these begin with a program
  env, volumeMounts      the user's, then those of the chart's that they don't replace
  a probe with a check   replaces the chart's
  other maps             merged by key
  everything else        replaces the chart's
What is empty is as if it weren't there. Takes own and defaults. JSON.
*/}}
{{- define "gha-runner-scale-set.merge-container" -}}
{{- $container := .defaults }}
{{- if .own.command }}
{{- $container = omit $container "args" }}
{{- end }}
{{- range $field, $value := .own }}
{{- $default := get $container $field }}
{{- if and $default (eq $field "env") }}
{{- $value = (include "gha-runner-scale-set.add-missing" (dict "own" $value "defaults" $default) | fromJson).items }}
{{- else if and $default (eq $field "volumeMounts") }}
{{- $value = (include "gha-runner-scale-set.add-missing-mounts" (dict "own" $value "defaults" $default) | fromJson).items }}
{{- else if and $default $value (eq $field "args") (kindIs "slice" $value) }}
{{- if and (hasPrefix "-" (first $value | toString)) (not (hasPrefix "-" (first $default))) }}
{{- $value = concat $default $value }}
{{- end }}
{{- else if and (kindIs "map" $default) (kindIs "map" $value) }}
{{- if not (or $value.exec $value.httpGet $value.tcpSocket $value.grpc) }}
{{- $given := $value }}
{{- $value = $default }}
{{- range $key, $part := $given }}
{{- $_ := set $value $key $part }}
{{- end }}
{{- end }}
{{- end }}
{{- if or $value (not $default) }}
{{- $_ := set $container $field $value }}
{{- end }}
{{- end }}
{{- toJson $container }}
{{- end }}

{{/*
The mounts of own, followed by those of defaults that they don't replace: a mount at the same path, or of the same volume as a
whole. A part of a volume (subPath) can be mounted in addition. Takes own and defaults. JSON.
*/}}
{{- define "gha-runner-scale-set.add-missing-mounts" -}}
{{- $mounts := .own | default list }}
{{- $paths := list }}
{{- $volumes := list }}
{{- range $mounts }}
{{- $paths = append $paths (clean (toString .mountPath)) }}
{{- if not (or .subPath .subPathExpr) }}
{{- $volumes = append $volumes .name }}
{{- end }}
{{- end }}
{{- range .defaults }}
{{- if not (or (has .mountPath $paths) (has .name $volumes)) }}
{{- $mounts = append $mounts . }}
{{- end }}
{{- end }}
{{- dict "items" $mounts | toJson }}
{{- end }}

{{/* Names of the containers that the chart makes in this mode, as keys. JSON. */}}
{{- define "gha-runner-scale-set.made-containers" -}}
{{- $made := dict "runner" true }}
{{- if eq (include "gha-runner-scale-set.container-mode" .) "dind" }}
{{- $made = dict "runner" true "init-dind-externals" true "dind" true }}
{{- end }}
{{- toJson $made }}
{{- end }}

{{/* dind and what prepares it, in the order in which they start. JSON, the list under "items". */}}
{{- define "gha-runner-scale-set.dind-containers" -}}
{{- $containers := list }}
{{- range $name := list "init-dind-externals" "dind" }}
{{- $own := include "gha-runner-scale-set.own-container" (dict "root" $ "name" $name) | fromJson }}
{{- $defaults := include (printf "gha-runner-scale-set.%s" $name) $ | fromYaml }}
{{- $containers = append $containers (include "gha-runner-scale-set.merge-container" (dict "own" $own "defaults" $defaults) | fromJson) }}
{{- end }}
{{- dict "items" $containers | toJson }}
{{- end }}

{{/* What of the user's containers the pod couldn't do. */}}
{{- define "gha-runner-scale-set.validate-containers" -}}
{{- $made := include "gha-runner-scale-set.made-containers" . | fromJson }}
{{- range $name := list "init-dind-externals" "dind" }}
{{- $own := include "gha-runner-scale-set.own-container" (dict "root" $ "name" $name) | fromJson }}
{{- if and $own (not $own.image) (not $made.dind) }}
{{- fail (printf "the container %s in template.spec has no image: only containerMode.type dind completes it. Set that type, or give image" $name) }}
{{- end }}
{{- if and $made.dind (eq $name "dind") $own.restartPolicy (ne (toString $own.restartPolicy) "Always") }}
{{- fail (printf "template.spec[dind].restartPolicy is %v, but Docker runs beside the runner, as a sidecar: use Always, or leave it out" $own.restartPolicy) }}
{{- end }}
{{- range $field := list "lifecycle" "livenessProbe" "readinessProbe" "startupProbe" }}
{{- if and $made.dind (eq $name "init-dind-externals") (get $own $field) (ne (toString $own.restartPolicy) "Always") }}
{{- fail (printf "template.spec[init-dind-externals].%s: this container ends before the runner starts, and Kubernetes allows no %s in such a one; remove it" $field $field) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
