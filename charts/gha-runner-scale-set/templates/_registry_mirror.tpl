{{/*
The mirror of Docker Hub that jobs use (registryMirror). The Docker daemon of mode dind has it as a flag. BuildKit reads it from a
file: an annotation of the pod, which the kubelet writes into a volume of the runner and of every container beside it that is named
buildkit or buildkitd.
*/}}

{{/* Its address, without a slash at the end; empty without one. */}}
{{- define "gha-runner-scale-set.registry-mirror" -}}
{{- include "gha-runner-scale-set.scalar" .Values.registryMirror | trim | trimSuffix "/" }}
{{- end }}

{{/* Docker takes nothing but scheme and host. */}}
{{- define "gha-runner-scale-set.validate-registry-mirror" -}}
{{- with include "gha-runner-scale-set.registry-mirror" . }}
{{- if not (regexMatch `^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$` .) }}
{{- fail (printf "registryMirror is %s, but Docker takes no more of a mirror than scheme and host: write https://HOST or https://HOST:PORT" (regexReplaceAll `//.*@` . "//")) }}
{{- end }}
{{- if include "gha-runner-scale-set.on-windows" $ }}
{{- fail "registryMirror is for Docker and BuildKit on Linux: remove it for runners on Windows" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Where BuildKit looks for its file. In the runner docker/setup-buildx-action can name it. */}}
{{- define "gha-runner-scale-set.buildkit-directory" -}}
/etc/buildkit
{{- end }}

{{/* What is added to the pod's annotations. JSON. */}}
{{- define "gha-runner-scale-set.registry-mirror-annotation" -}}
{{- $annotation := dict }}
{{- with include "gha-runner-scale-set.registry-mirror" . }}
{{- $host := regexReplaceAll `^https?://` . "" }}
{{- $file := printf "[registry.\"docker.io\"]\n  mirrors = [%q]\n" $host }}
{{- if hasPrefix "http://" . }}
{{- $file = printf "%s[registry.%q]\n  http = true\n" $file $host }}
{{- end }}
{{- $_ := set $annotation "actions.github.com/buildkitd-toml" $file }}
{{- end }}
{{- toJson $annotation }}
{{- end }}

{{/* Adds the file to the containers that read it and have nothing else there. Takes the pod's spec. */}}
{{- define "gha-runner-scale-set.mount-registry-mirror" -}}
{{- $at := include "gha-runner-scale-set.buildkit-directory" . }}
{{- range $list := list "initContainers" "containers" }}
{{- range $container := get $ $list | default list }}
{{- $taken := not (has (toString $container.name) (list "runner" "buildkit" "buildkitd")) }}
{{- range $container.volumeMounts }}
{{- $taken = or $taken (eq (toString .mountPath | trimSuffix "/") $at) }}
{{- end }}
{{- if not $taken }}
{{- $mount := dict "name" "buildkitd-toml" "mountPath" $at "readOnly" true }}
{{- $_ := set $container "volumeMounts" (append ($container.volumeMounts | default list) $mount) }}
{{- end }}
{{- end }}
{{- end }}
{{- $file := dict "path" "buildkitd.toml" "fieldRef" (dict "fieldPath" "metadata.annotations['actions.github.com/buildkitd-toml']") }}
{{- $_ := set . "volumes" (append (.volumes | default list) (dict "name" "buildkitd-toml" "downwardAPI" (dict "items" (list $file)))) }}
{{- end }}
