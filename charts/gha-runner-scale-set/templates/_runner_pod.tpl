{{/*
The runner pod: the user's template.spec with what the container mode and the CA certificate add. Templates pass
parts to each other as JSON; lists are wrapped in an object under "items".

Where the user has a volume of a name, that one stays as it is; of containers, see _containers.tpl.
*/}}

{{/* The entries of own, followed by those of defaults whose names own doesn't have. */}}
{{- define "gha-runner-scale-set.add-missing" -}}
{{- $items := .own | default list }}
{{- $names := list }}
{{- range $items }}
{{- $names = append $names .name }}
{{- end }}
{{- range .defaults }}
{{- if not (has .name $names) }}
{{- $items = append $items . }}
{{- end }}
{{- end }}
{{- dict "items" $items | toJson }}
{{- end }}

{{/*
The entries of defaults, each replaced by the entry of own with the same name, if any, followed by the rest of own. Takes key,
the name of the user's list, too.
*/}}
{{- define "gha-runner-scale-set.merge-by-name" -}}
{{- $own := dict }}
{{- range .own }}
{{- $name := .name | default "" | toString }}
{{- if hasKey $own $name }}
{{- fail (printf "%s has two entries named %s: remove one" $.key $name) }}
{{- end }}
{{- $_ := set $own $name . }}
{{- end }}
{{- $first := list }}
{{- range .defaults }}
{{- $first = append $first (get $own (.name | default "" | toString) | default .) }}
{{- end }}
{{- include "gha-runner-scale-set.add-missing" (dict "own" $first "defaults" .own) }}
{{- end }}

{{/*
What the user says about the container named runner. Setting containers replaces the whole list of values.yaml. Users who
only want to set resources or env often leave out the image, without which there is no pod: then image and command are
those of values.yaml. JSON.
*/}}
{{- define "gha-runner-scale-set.own-runner" -}}
{{- $runner := include "gha-runner-scale-set.own-container" (dict "root" . "name" "runner") | fromJson }}
{{- if not $runner.image }}
{{- $_ := set $runner "image" "ghcr.io/actions/actions-runner:latest" }}
{{- if not (or $runner.command $runner.args) }}
{{- $_ := set $runner "command" (list "/home/runner/run.sh") }}
{{- end }}
{{- end }}
{{- toJson $runner }}
{{- end }}

{{/* "true" if runners run on Windows: the template says so, or the path of the CA certificate is one of Windows. */}}
{{- define "gha-runner-scale-set.on-windows" -}}
{{- $os := `(beta\.)?kubernetes\.io/os` }}
{{- $signs := printf `"windowsOptions":\{"|"os":\{"name":"windows"|windows-build|"%s":"windows"|"key":"%s","operator":"In","values":\["windows"\]` $os $os }}
{{- $spec := pick .Values.template.spec "os" "nodeSelector" "affinity" "securityContext" | toJson }}
{{- if or (regexMatch $signs $spec) (regexMatch `^([A-Za-z]:|\\)` (toString (.Values.githubServerTLS | default dict).runnerMountPath)) }}true{{ end }}
{{- end }}

{{/*
The directory in the runner that has the CA certificate; "" unless it is mounted. On Windows a path without a drive is on C:, as for
Kubernetes itself, and nothing can be mounted over a drive or on another computer.
*/}}
{{- define "gha-runner-scale-set.certificate-directory" -}}
{{- with (.Values.githubServerTLS | default dict).runnerMountPath }}
{{- $directory := clean (toString .) }}
{{- if ne (toString . | trim) (toString .) }}
{{- fail (printf "githubServerTLS.runnerMountPath is %q: remove the space around it" .) }}
{{- end }}
{{- if include "gha-runner-scale-set.on-windows" $ }}
{{- $directory = regexReplaceAll `[/\\]+` (toString .) `\` | trimSuffix `\` }}
{{- $directory = hasPrefix `\` $directory | ternary (printf "C:%s" $directory) $directory }}
{{- if or (regexMatch `^[/\\]{2}` (toString .)) (not (regexMatch `^[A-Za-z]:\\.` $directory)) }}
{{- fail (printf "githubServerTLS.runnerMountPath is %s, but a directory of Windows runners has to be one below a drive, such as C:\\ca" .) }}
{{- end }}
{{- end }}
{{- $directory }}
{{- end }}
{{- end }}

{{/* Where the runner finds the CA certificate; "" unless it is mounted. */}}
{{- define "gha-runner-scale-set.certificate-path" -}}
{{- with include "gha-runner-scale-set.certificate-directory" . }}
{{- $key := $.Values.githubServerTLS.certificateFrom.configMapKeyRef.key }}
{{- include "gha-runner-scale-set.on-windows" $ | empty | ternary (clean (printf "%s/%s" . $key)) (printf `%s\%s` . $key) }}
{{- end }}
{{- end }}

{{/* env and volumeMounts that the mode and the certificate add to the runner container. YAML. */}}
{{- define "gha-runner-scale-set.runner-defaults" -}}
{{- $mode := include "gha-runner-scale-set.container-mode" . -}}
{{- $hookTemplate := include "gha-runner-scale-set.hook-template-source" . | fromJson -}}
env:
{{- if eq $mode "dind" }}
  - name: DOCKER_HOST
    value: unix:///var/run/docker.sock
  - name: RUNNER_WAIT_FOR_DOCKER_IN_SECONDS
    value: "120"
{{- else if include "gha-runner-scale-set.is-kubernetes-mode" . }}
  - name: ACTIONS_RUNNER_CONTAINER_HOOKS
    value: {{ ternary "/home/runner/k8s/index.js" "/home/runner/k8s-novolume/index.js" (eq $mode "kubernetes") }}
  - name: ACTIONS_RUNNER_POD_NAME
    valueFrom:
      fieldRef:
        fieldPath: metadata.name
  - name: ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER
    value: "true"
{{- end }}
{{- if eq $mode "kubernetes-novolume" }}
  - name: ACTIONS_RUNNER_IMAGE
    value: {{ (include "gha-runner-scale-set.own-runner" . | fromJson).image | quote }}
{{- end }}
{{- if $hookTemplate }}
  - name: ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE
    value: {{ include "gha-runner-scale-set.hook-template-path" . }}
{{- end }}
{{- with include "gha-runner-scale-set.job-hooks" . }}
  - name: ACTIONS_RUNNER_NODE_NAME
    valueFrom:
      fieldRef:
        fieldPath: spec.nodeName
{{- if include "gha-runner-scale-set.job-log" $ }}
  - name: ACTIONS_RUNNER_HOOK_JOB_STARTED
    value: {{ . }}/started.sh
{{- end }}
  - name: ACTIONS_RUNNER_HOOK_JOB_COMPLETED
    value: {{ . }}/completed.sh
{{- end }}
{{- with include "gha-runner-scale-set.certificate-path" . }}
  - name: NODE_EXTRA_CA_CERTS
    value: {{ . | quote }}
  - name: RUNNER_UPDATE_CA_CERTS
    value: "1"
{{- end }}
volumeMounts:
{{- if has $mode (list "dind" "kubernetes") }}
  - name: work
    mountPath: /home/runner/_work
{{- end }}
{{- if eq $mode "dind" }}
  - name: dind-sock
    mountPath: /var/run
{{- end }}
{{- with $hookTemplate }}
  - name: hook-extension
    mountPath: {{ include "gha-runner-scale-set.hook-template-path" $ }}
    subPath: {{ .key | quote }}
    readOnly: true
{{- end }}
{{- with include "gha-runner-scale-set.job-hooks" . }}
  - name: job-hooks
    mountPath: {{ . }}
    readOnly: true
{{- end }}
{{- with include "gha-runner-scale-set.certificate-path" . }}
  - name: github-server-tls-cert
  {{- if include "gha-runner-scale-set.on-windows" $ }}{{/* which mounts no single files */}}
    mountPath: {{ include "gha-runner-scale-set.certificate-directory" $ | quote }}
  {{- else }}
    mountPath: {{ . | quote }}
    subPath: {{ $.Values.githubServerTLS.certificateFrom.configMapKeyRef.key | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The runner container. JSON. */}}
{{- define "gha-runner-scale-set.runner-container" -}}
{{- $own := include "gha-runner-scale-set.own-runner" . | fromJson }}
{{- $defaults := include "gha-runner-scale-set.runner-defaults" . | fromYaml }}
{{- $container := include "gha-runner-scale-set.merge-container" (dict "own" $own "defaults" $defaults) | fromJson }}
{{- $_ := set $container "name" "runner" }}
{{- range $field := list "env" "volumeMounts" }}
{{- if not (get $container $field) }}
{{- $_ := unset $container $field }}
{{- end }}
{{- end }}
{{- if and (eq (include "gha-runner-scale-set.container-mode" .) "kubernetes-novolume") (not $container.volumeMounts) }}
{{- $_ := set $container "volumeMounts" list }}
{{- end }}
{{- toJson $container }}
{{- end }}

{{/* Volumes of the mode and the certificate, before the user's are merged in. YAML. */}}
{{- define "gha-runner-scale-set.volume-defaults" -}}
{{- $mode := include "gha-runner-scale-set.container-mode" . -}}
items:
{{- if include "gha-runner-scale-set.certificate-path" . }}
  - name: github-server-tls-cert
    configMap:
      name: {{ .Values.githubServerTLS.certificateFrom.configMapKeyRef.name | quote }}
      items:
        - key: {{ .Values.githubServerTLS.certificateFrom.configMapKeyRef.key | quote }}
          path: {{ .Values.githubServerTLS.certificateFrom.configMapKeyRef.key | quote }}
{{- end }}
{{- if eq $mode "dind" }}
  - name: dind-sock
    emptyDir: {}
  - name: dind-externals
    emptyDir: {}
  - name: work
    emptyDir: {}
{{- else if and (eq $mode "kubernetes") (not (include "gha-runner-scale-set.work-is-kept" .)) }}
  - name: work
    ephemeral:
      volumeClaimTemplate:
        {{- with (include "gha-runner-scale-set.without-nulls" .Values.containerMode.kubernetesModeWorkVolumeClaim | fromJson).value }}
        spec:
          {{- toYaml . | nindent 10 }}
        {{- else }} {}
        {{- end }}
{{- end }}
{{- with include "gha-runner-scale-set.hook-template-source" . | fromJson }}
  - name: hook-extension
    configMap:
      name: {{ .name | quote }}
{{- end }}
{{- if include "gha-runner-scale-set.job-hooks" . }}
  - name: job-hooks
    projected:
      sources:
        - configMap:
            name: {{ include "gha-runner-scale-set.job-hooks-name" . | quote }}
        - downwardAPI:
            items:
              - path: pod
                fieldRef:
                  fieldPath: metadata.name
              - path: namespace
                fieldRef:
                  fieldPath: metadata.namespace
              - path: scale-set
                fieldRef:
                  fieldPath: metadata.labels['actions.github.com/scale-set-name']
              - path: phases
                fieldRef:
                  fieldPath: metadata.annotations['actions.github.com/phases']
{{- end }}
{{- end }}

{{/*
In kubernetes mode the job pods use the runner's volume, so there must be one. It is required only if the cluster knows
our kinds (helm install and upgrade, Argo CD): a bare `helm template` of actions-runner-controller's chart works without,
and tests of values files rely on that.
*/}}
{{- define "gha-runner-scale-set.require-work-volume" -}}
{{- if and (eq (include "gha-runner-scale-set.container-mode" .) "kubernetes") (.Capabilities.APIVersions.Has "actions.github.com/v1alpha1") }}
{{- $named := or (include "gha-runner-scale-set.work-is-kept" .) (include "gha-runner-scale-set.without-nulls" .Values.containerMode.kubernetesModeWorkVolumeClaim | fromJson).value }}
{{- range .Values.template.spec.volumes }}
{{- $named = or $named (eq .name "work") }}
{{- end }}
{{- if not $named }}
{{- fail "containerMode.kubernetesModeWorkVolumeClaim is required when containerMode.type is kubernetes: give the spec of the volume claim that runner and job pods share, a volume named work in template.spec.volumes, or use containerMode.type kubernetes-novolume" }}
{{- end }}
{{- end }}
{{- end }}

{{/* All init containers: what dind needs, then the user's. JSON. */}}
{{- define "gha-runner-scale-set.init-containers" -}}
{{- $made := include "gha-runner-scale-set.made-containers" . | fromJson }}
{{- $containers := list }}
{{- if $made.dind }}
{{- $dind := (include "gha-runner-scale-set.dind-containers" . | fromJson).items }}
{{- $containers = include "gha-runner-scale-set.has-sidecars" . | empty | ternary (initial $dind) $dind }}
{{- end }}
{{- range .Values.template.spec.initContainers }}
{{- if not (hasKey $made .name) }}
{{- $containers = append $containers . }}
{{- end }}
{{- end }}
{{- dict "items" $containers | toJson }}
{{- end }}

{{/*
All containers. In the default mode they stay in the user's order; in the others the runner comes first. If the user has
none, the runner is that of values.yaml.
*/}}
{{- define "gha-runner-scale-set.containers" -}}
{{- $made := include "gha-runner-scale-set.made-containers" . | fromJson }}
{{- $runner := include "gha-runner-scale-set.runner-container" . | fromJson }}
{{- $containers := list }}
{{- if or $made.dind (include "gha-runner-scale-set.is-kubernetes-mode" .) }}
{{- $containers = list $runner }}
{{- end }}
{{- if and $made.dind (not (include "gha-runner-scale-set.has-sidecars" .)) }}
{{- $containers = append $containers (last (include "gha-runner-scale-set.dind-containers" . | fromJson).items) }}
{{- end }}
{{- range .Values.template.spec.containers }}
{{- if not (hasKey $made .name) }}
{{- $containers = append $containers . }}
{{- else if and (eq .name "runner") (not (has $runner $containers)) }}
{{- $containers = append $containers $runner }}
{{- end }}
{{- end }}
{{- $named := include "gha-runner-scale-set.own-container" (dict "root" . "name" "runner") | fromJson }}
{{- if and (not (has $runner $containers)) (or $named (not $containers)) }}
{{- $containers = prepend $containers $runner }}
{{- end }}
{{- dict "items" $containers | toJson }}
{{- end }}

{{/*
"true" if pods have an account of the chart's and the template says nothing of its token. They then say automountServiceAccountToken: false
as the account does, which common policies ask of all, and in the kubernetes modes the containers mount the token themselves.
*/}}
{{- define "gha-runner-scale-set.decides-token" -}}
{{- if and (not (include "gha-runner-scale-set.own-service-account" .)) (kindIs "invalid" .Values.template.spec.automountServiceAccountToken) }}true{{ end }}
{{- end }}

{{/* "true" if the containers mount it: container hooks make the pods of jobs with it. */}}
{{- define "gha-runner-scale-set.mounts-token" -}}
{{- if and (include "gha-runner-scale-set.is-kubernetes-mode" .) (include "gha-runner-scale-set.decides-token" .) }}true{{ end }}
{{- end }}

{{/* Adds the token, as Kubernetes itself mounts it into all containers that have nothing else there. Takes the pod's spec. */}}
{{- define "gha-runner-scale-set.mount-token" -}}
{{- $at := "/var/run/secrets/kubernetes.io/serviceaccount" }}
{{- range $key := list "initContainers" "containers" }}
{{- range $container := get $ $key | default list }}
{{- $taken := false }}
{{- range $container.volumeMounts }}
{{- $taken = or $taken (eq (toString .mountPath | trimSuffix "/") $at) }}
{{- end }}
{{- if not $taken }}
{{- $mount := dict "name" "service-account-token" "mountPath" $at "readOnly" true }}
{{- $_ := set $container "volumeMounts" (append ($container.volumeMounts | default list) $mount) }}
{{- end }}
{{- end }}
{{- end }}
{{- $sources := list
      (dict "serviceAccountToken" (dict "path" "token" "expirationSeconds" 3600))
      (dict "configMap" (dict "name" "kube-root-ca.crt" "items" (list (dict "key" "ca.crt" "path" "ca.crt"))))
      (dict "downwardAPI" (dict "items" (list (dict "path" "namespace" "fieldRef" (dict "fieldPath" "metadata.namespace"))))) }}
{{- $_ := set . "volumes" (append (.volumes | default list) (dict "name" "service-account-token" "projected" (dict "sources" $sources))) }}
{{- end }}

{{/* The pod's spec. YAML. */}}
{{- define "gha-runner-scale-set.runner-pod-spec" -}}
{{- include "gha-runner-scale-set.require-work-volume" . }}
{{- $spec := omit .Values.template.spec "containers" "initContainers" "volumes" "serviceAccountName" }}
{{- if not $spec.restartPolicy }}
{{- $_ := set $spec "restartPolicy" "Never" }}
{{- end }}
{{- $_ := set $spec "serviceAccountName" (include "gha-runner-scale-set.runner-service-account-name" .) }}
{{- with (include "gha-runner-scale-set.init-containers" . | fromJson).items }}
{{- $_ := set $spec "initContainers" . }}
{{- end }}
{{- $_ := set $spec "containers" (include "gha-runner-scale-set.containers" . | fromJson).items }}
{{- $defaults := (include "gha-runner-scale-set.volume-defaults" . | fromYaml).items }}
{{- $volumes := (include "gha-runner-scale-set.merge-by-name" (dict "own" .Values.template.spec.volumes "defaults" $defaults "key" "template.spec.volumes") | fromJson).items }}
{{- if or $volumes (eq (include "gha-runner-scale-set.container-mode" .) "kubernetes-novolume") }}
{{- $_ := set $spec "volumes" ($volumes | default list) }}
{{- end }}
{{- $spec = (include "gha-runner-scale-set.without-nulls" $spec | fromJson).value }}
{{- if include "gha-runner-scale-set.decides-token" . }}
{{- $_ := set $spec "automountServiceAccountToken" false }}
{{- end }}
{{- if include "gha-runner-scale-set.mounts-token" . }}
{{- include "gha-runner-scale-set.mount-token" $spec }}
{{- end }}
{{- if include "gha-runner-scale-set.registry-mirror" . }}
{{- include "gha-runner-scale-set.mount-registry-mirror" $spec }}
{{- end }}
{{- toYaml (include "gha-runner-scale-set.without-misplaced" $spec | fromJson) }}
{{- end }}

{{/* Names of the templates from which Kubernetes makes ResourceClaims for runners. JSON. */}}
{{- define "gha-runner-scale-set.resource-claim-templates" -}}
{{- $names := list }}
{{- range .Values.template.spec.resourceClaims }}
{{- $names = append $names .resourceClaimTemplateName }}
{{- end }}
{{- compact $names | uniq | toJson }}
{{- end }}
