{{/*
Parts of the pod that runs the manager. The Deployment and the uninstall check share the environment.
*/}}

{{/*
The address as given; refused if the controller would exit because of it. Takes key, of the value, and address.
*/}}
{{- define "gha-runner-scale-set-controller.address" -}}
{{- $address := include "gha-runner-scale-set-controller.scalar" .address }}
{{- if not (regexMatch "^(0|([^:/\\s]*|\\[[^\\]/\\s]+\\]):[1-9][0-9]{0,4})?$" $address) }}
{{- fail (printf "Values.%s must end with a numeric port after a colon, as in :8080 or [::1]:8080, and have no other colon; or be 0 for no server" .key) }}
{{- end }}
{{- $address }}
{{- end }}

{{/*
The port at the end of an address such as ":8080"; 0 if there is none. Takes the address.
*/}}
{{- define "gha-runner-scale-set-controller.port" -}}
{{- regexFind "[0-9]+$" (toString .) | default "0" }}
{{- end }}

{{- define "gha-runner-scale-set-controller.metrics-port" -}}
{{- $port := include "gha-runner-scale-set-controller.port" .Values.metrics.controllerManagerAddr }}
{{- if eq $port "0" }}
{{- fail "Values.metrics.controllerManagerAddr must end with a numeric port" }}
{{- end }}
{{- $port }}
{{- end }}

{{/* The Lease that the one manager that acts holds. The name is that of actions-runner-controller's chart with several replicas. */}}
{{- define "gha-runner-scale-set-controller.lease" -}}
{{- include "gha-runner-scale-set-controller.fullname" . }}
{{- end }}

{{- define "gha-runner-scale-set-controller.args" -}}
{{- $flags := include "gha-runner-scale-set-controller.flags" . | fromJson -}}
{{- /* Another program than this chart's ends at this flag, such as a manager of actions-runner-controller under a mirror's name. */}}
- --program=harrier
- --auto-scaling-runner-set-only
{{- /* Whatever the number of replicas: `kubectl scale` can change it, and a node that is cut off adds one. */}}
- --enable-leader-election
- --leader-election-id={{ include "gha-runner-scale-set-controller.lease" . }}
{{- range .Values.imagePullSecrets }}
- --auto-scaler-image-pull-secrets={{ .name }}
{{- end }}
{{- with $flags }}
{{- with include "gha-runner-scale-set-controller.scalar" .logLevel }}
- --log-level={{ . }}
{{- end }}
{{- with .logFormat }}
- --log-format={{ . }}
{{- end }}
{{- with include "gha-runner-scale-set-controller.watched-namespace" $ }}
- --watch-single-namespace={{ . }}
{{- end }}
{{- with .runnerMaxConcurrentReconciles }}
- --runner-max-concurrent-reconciles={{ int . }}
{{- end }}
{{- if eq (toString .jobPodMetadata) "false" }}
- --job-pod-metadata=false
{{- end }}
{{- if eq (toString .jobPodProtection) "false" }}
- --job-pod-protection=false
{{- end }}
{{- if ne (.listenerTemplatePolicy | default "restricted") "restricted" }}
- --listener-template-policy={{ .listenerTemplatePolicy }}
{{- end }}
{{- range .listenerSidecarImages }}
- --listener-sidecar-images={{ . }}
{{- end }}
{{- range .listenerMetadataKeys }}
- --listener-metadata-keys={{ . }}
{{- end }}
{{- range .listenerPriorityClasses }}
- --listener-priority-classes={{ . }}
{{- end }}
{{- with .updateStrategy }}
- --update-strategy={{ . }}
{{- end }}
{{- with int .maxRunnersPerSet }}
- --max-runners-per-set={{ . }}
{{- end }}
{{- with .vaultCertificateDirectory }}
- {{ printf "--vault-certificate-directory=%s" . | quote }}
{{- end }}
{{- end }}
{{- if not (include "gha-runner-scale-set-controller.is-on" (dict "values" .Values.flags "key" "watchNodes")) }}
- --watch-nodes=false
{{- end }}
{{- if not (include "gha-runner-scale-set-controller.strips-finalizers" .) }}
- --strip-foreign-finalizers=false
{{- end }}
{{- with (include "gha-runner-scale-set-controller.without-nulls" .Values.vaults | fromJson).value }}
- {{ printf "--vaults=%s" (toRawJson .) | quote }}
{{- end }}
{{- if .Values.metrics }}
- --listener-metrics-addr={{ include "gha-runner-scale-set-controller.address" (dict "key" "metrics.listenerAddr" "address" .Values.metrics.listenerAddr) }}
- --listener-metrics-endpoint={{ .Values.metrics.listenerEndpoint }}
- --metrics-addr={{ include "gha-runner-scale-set-controller.address" (dict "key" "metrics.controllerManagerAddr" "address" .Values.metrics.controllerManagerAddr) }}
{{- with .Values.metrics.listenerLabels }}
- --listener-metrics-labels={{ . }}
{{- end }}
{{- if include "gha-runner-scale-set-controller.metrics-secure" . }}
- --metrics-secure
{{- with .Values.metrics.certificateSecret }}
- --metrics-cert-path=/metrics-certificate
{{- end }}
{{- end }}
{{- else }}
- --listener-metrics-addr=0
- --listener-metrics-endpoint=
- --metrics-addr=0
{{- end }}
{{- with .Values.pprof }}
{{- with .addr }}
- --pprof-addr={{ include "gha-runner-scale-set-controller.address" (dict "key" "pprof.addr" "address" .) }}
{{- end }}
{{- end }}
{{- with $flags }}
{{- range .excludeLabelPropagationPrefixes }}
- --exclude-label-propagation-prefix={{ . }}
{{- end }}
{{- range .allowedGitHubURLs }}
- --allowed-github-url={{ . }}
{{- end }}
{{- with int .k8sClientRateLimiterQPS }}
- --k8s-client-rate-limiter-qps={{ . }}
{{- end }}
{{- with int .k8sClientRateLimiterBurst }}
- --k8s-client-rate-limiter-burst={{ . }}
{{- end }}
{{- with .rateLimiter }}
{{- with .name }}
- --workqueue-rate-limiter={{ . }}
{{- end }}
{{- end }}
{{- with .healthProbeBindAddress }}
- --health-probe-bind-address={{ include "gha-runner-scale-set-controller.address" (dict "key" "flags.healthProbeBindAddress" "address" .) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The fields of a securityContext that only the other one has, a container's or a pod's. Kubernetes has no use for them, and would refuse the
whole Deployment under server-side apply, as of Helm 4. JSON.
*/}}
{{- define "gha-runner-scale-set-controller.misplaced-fields" -}}
{{- dict
    "podSecurityContext" (list "allowPrivilegeEscalation" "capabilities" "privileged" "procMount" "readOnlyRootFilesystem")
    "securityContext" (list "fsGroup" "fsGroupChangePolicy" "seLinuxChangePolicy" "supplementalGroups" "supplementalGroupsPolicy" "sysctls")
    | toJson }}
{{- end }}

{{/* The value podSecurityContext or securityContext without these fields, which NOTES name. Takes root and key. JSON. */}}
{{- define "gha-runner-scale-set-controller.security-context" -}}
{{- $given := (include "gha-runner-scale-set-controller.without-nulls" (get .root.Values .key | default dict) | fromJson).value | default dict }}
{{- range $field := get (include "gha-runner-scale-set-controller.misplaced-fields" .root | fromJson) .key }}
{{- $_ := unset $given $field }}
{{- end }}
{{- toJson $given }}
{{- end }}

{{/* The image is passed on because listener pods run the same one. */}}
{{- define "gha-runner-scale-set-controller.env" -}}
- name: CONTROLLER_MANAGER_CONTAINER_IMAGE
  value: {{ include "gha-runner-scale-set-controller.image" . | quote }}
- name: CONTROLLER_MANAGER_POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- /* By its name the manager finds the other pods of its Deployment, beside which it must not act. */}}
- name: CONTROLLER_MANAGER_POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
{{- with (include "gha-runner-scale-set-controller.without-nulls" .Values.env | fromJson).value }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The address "0" turns off one server: the controller's metrics without the listeners'. */}}
{{- define "gha-runner-scale-set-controller.ports" -}}
{{- if and .Values.metrics (ne (toString .Values.metrics.controllerManagerAddr) "0") }}
- name: metrics
  containerPort: {{ include "gha-runner-scale-set-controller.metrics-port" . }}
  protocol: TCP
{{- end }}
{{- $pprof := include "gha-runner-scale-set-controller.port" ((.Values.pprof | default dict).addr | default "0") }}
{{- if ne $pprof "0" }}
- name: pprof
  containerPort: {{ $pprof }}
  protocol: TCP
{{- end }}
{{- end }}

{{/* Empty if nothing would answer them. 5 s for an answer, because a busy node is slow and a restart doesn't make it faster. */}}
{{- define "gha-runner-scale-set-controller.probes" -}}
{{- $address := (include "gha-runner-scale-set-controller.flags" . | fromJson).healthProbeBindAddress | default "0" }}
{{- $port := include "gha-runner-scale-set-controller.port" $address }}
{{- if ne $port "0" }}
livenessProbe:
  httpGet:
    path: /healthz
    port: {{ $port }}
  initialDelaySeconds: 15
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet:
    path: /readyz
    port: {{ $port }}
  initialDelaySeconds: 5
  periodSeconds: 10
  timeoutSeconds: 5
{{- end }}
{{- end }}

{{/*
The user's affinity and, with two or more replicas, a preference for different nodes, unless the user sets
podAntiAffinity.
*/}}
{{- define "gha-runner-scale-set-controller.affinity" -}}
{{- $affinity := (include "gha-runner-scale-set-controller.without-nulls" .Values.affinity | fromJson).value | default dict }}
{{- if and (gt (int (default 1 .Values.replicaCount)) 1) (not (hasKey $affinity "podAntiAffinity")) }}
{{- $_ := set $affinity "podAntiAffinity" (include "gha-runner-scale-set-controller.keep-apart" . | fromYaml) }}
{{- end }}
{{- with $affinity }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "gha-runner-scale-set-controller.keep-apart" -}}
preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "gha-runner-scale-set-controller.pod-selector" . | nindent 10 }}
{{- end }}

{{/* Annotations of an object that lives only while `helm uninstall` runs its check. Takes the weight: lowest first. */}}
{{- define "gha-runner-scale-set-controller.uninstall-hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* The image is one for Linux, and nodes with Windows need not have a taint. The user's own keys win; null removes ours. */}}
{{- define "gha-runner-scale-set-controller.node-selector" -}}
{{- include "gha-runner-scale-set-controller.strings" (list (dict "kubernetes.io/os" "linux") .Values.nodeSelector) | default "{}" }}
{{- end }}
