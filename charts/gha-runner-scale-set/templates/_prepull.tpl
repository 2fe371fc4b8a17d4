{{/*
prepull: one DaemonSet whose containers only wait, so that nodes pull their images and the kubelet keeps them.
*/}}

{{/* The images of a set's runner pod, and those of prepull.images. JSON, the list under "items". */}}
{{- define "gha-runner-scale-set.prepull-images" -}}
{{- $images := list }}
{{- range concat (include "gha-runner-scale-set.containers" . | fromJson).items ((include "gha-runner-scale-set.init-containers" . | fromJson).items | default list) }}
{{- $images = append $images .image }}
{{- end }}
{{- dict "items" (concat $images (.Values.prepull.images | default list) | compact | uniq) | toJson }}
{{- end }}

{{/*
The pod's spec: on the nodes where the runners of the set may be, unless prepull names others, and with the account that the user named
for the runners: its imagePullSecrets and what the cluster allows it count here, too. An account that the chart makes has neither. A container that waits needs less than 1 MiB; the limit is one that every
container runtime can start a container with. "" unless it is enabled. YAML.
*/}}
{{- define "gha-runner-scale-set.prepull-pod" -}}
{{- $prepull := (include "gha-runner-scale-set.without-nulls" (.Values.prepull | default dict) | fromJson).value }}
{{- if $prepull.enabled }}
{{- if include "gha-runner-scale-set.on-windows" . }}
{{- fail "prepull.enabled: the runners are on Windows, and what pulls their images runs on Linux only; remove it" }}
{{- end }}
{{- $runner := .Values.template.spec }}
{{- $fields := dict
    "nodeSelector" (include "gha-runner-scale-set.strings" (list ($prepull.nodeSelector | default $runner.nodeSelector)) | fromJson)
    "affinity" ($prepull.nodeSelector | empty | ternary (pick ($runner.affinity | default dict) "nodeAffinity") dict)
    "tolerations" ($prepull.tolerations | default $runner.tolerations)
    "imagePullSecrets" $runner.imagePullSecrets
    "serviceAccountName" (include "gha-runner-scale-set.own-service-account" .) }}
automountServiceAccountToken: false
enableServiceLinks: false
# tail is the first process of its container, and as such ignores the request to stop.
terminationGracePeriodSeconds: 1
{{- /* Values of an earlier release that are used again have none. */}}
{{- $nobody := dict "runAsNonRoot" true "runAsUser" 65534 "runAsGroup" 65534 "seccompProfile" (dict "type" "RuntimeDefault") }}
{{- with hasKey $prepull "podSecurityContext" | ternary $prepull.podSecurityContext $nobody }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $key, $value := (include "gha-runner-scale-set.without-nulls" $fields | fromJson).value }}
{{- with $value }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
containers:
  {{- range $i, $image := (include "gha-runner-scale-set.prepull-images" . | fromJson).items }}
  - name: image-{{ $i }}
    image: {{ $image | quote }}
    command: ["tail", "-f", "/dev/null"]
    securityContext:
      allowPrivilegeEscalation: false
      capabilities:
        drop: ["ALL"]
      readOnlyRootFilesystem: true
    resources:
      requests:
        cpu: 1m
        memory: 2Mi
        ephemeral-storage: 1Mi
      limits:
        cpu: 100m
        memory: 64Mi
        ephemeral-storage: 16Mi
  {{- end }}
{{- end }}
{{- end }}

{{/* Labels of its pods. Those by which the controller and a PodDisruptionBudget find runners are not among them. JSON. */}}
{{- define "gha-runner-scale-set.prepull-labels" -}}
{{- dict
    "app.kubernetes.io/name" (include "gha-runner-scale-set.scale-set-name" .)
    "app.kubernetes.io/component" "prepull"
    | toJson }}
{{- end }}
