{{/*
Names and labels of the chart's objects. The chart gha-runner-scale-set finds this installation by them, so they are
the same as in actions-runner-controller.
*/}}

{{- define "gha-runner-scale-set-controller.base-name" -}}
gha-rs-controller
{{- end }}

{{- define "gha-runner-scale-set-controller.name" -}}
{{- .Values.nameOverride | default (include "gha-runner-scale-set-controller.base-name" .) | include "gha-runner-scale-set-controller.scalar" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name is used as a label value, which can have 63 characters. */}}
{{- define "gha-runner-scale-set-controller.fullname" -}}
{{- $name := .Values.nameOverride | default (include "gha-runner-scale-set-controller.base-name" .) | include "gha-runner-scale-set-controller.scalar" }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | include "gha-runner-scale-set-controller.scalar" | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/*
Name of a Service: a DNS label of 63 characters, without the dots and the leading digit that the names of releases and all
other objects may have. Takes root and suffix.
*/}}
{{- define "gha-runner-scale-set-controller.service-name" -}}
{{- $label := include "gha-runner-scale-set-controller.fullname" .root | replace "." "-" }}
{{- if regexMatch "^[0-9]" $label }}
{{- $label = printf "svc-%s" $label }}
{{- end }}
{{- $label | trunc 53 | trimSuffix "-" }}-{{ .suffix }}
{{- end }}

{{/* Labels of the pod that keeps the ledger of jobs. */}}
{{- define "gha-runner-scale-set-controller.history-selector" -}}
app.kubernetes.io/name: {{ include "gha-runner-scale-set-controller.service-name" (dict "root" . "suffix" "history") | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: history
{{- end }}

{{/*
Name of the ledger's StatefulSet; its pod's ends in -0. Kubernetes gives the pod a label with it and a hash of 10 characters behind a dash,
so it has 52 characters at most.
*/}}
{{- define "gha-runner-scale-set-controller.history-workload" -}}
{{- $name := include "gha-runner-scale-set-controller.service-name" (dict "root" . "suffix" "history") }}
{{- if gt (len $name) 52 }}
{{- $name = printf "%s-%s" ($name | trunc 43 | trimSuffix "-") ($name | sha256sum | trunc 8) }}
{{- end }}
{{- $name }}
{{- end }}

{{/* Names besides localhost by which browsers may ask the ledger, with commas between them. */}}
{{- define "gha-runner-scale-set-controller.history-hosts" -}}
{{- $hosts := (.Values.history | default dict).hosts | default list }}
{{- if include "gha-runner-scale-set-controller.history-mode" . }}
{{- $name := include "gha-runner-scale-set-controller.service-name" (dict "root" . "suffix" "history") }}
{{- $namespace := include "gha-runner-scale-set-controller.namespace" . }}
{{- $hosts = concat (list $name (printf "%s.%s" $name $namespace) (printf "%s.%s.svc" $name $namespace) (printf "%s.%s.svc.cluster.local" $name $namespace)) $hosts }}
{{- end }}
{{- $hosts | join "," }}
{{- end }}

{{/* How the ledger is opened: token, proxy, or empty if it is closed. Fails for what would not work, or not be safe. */}}
{{- define "gha-runner-scale-set-controller.history-mode" -}}
{{- $history := .Values.history | default dict }}
{{- $auth := $history.auth | default dict }}
{{- $proxy := $auth.proxy | default dict }}
{{- if not $auth.mode }}
{{- if or $history.allowFrom $auth.tlsSecret $proxy.secretName $proxy.clientCASecret }}
{{- fail "history.allowFrom and history.auth are about a ledger that is open: set history.auth.mode to token or proxy" }}
{{- end }}
{{- else }}
{{- if not (include "gha-runner-scale-set-controller.is-on" (dict "values" .Values.rbac "key" "clusterRoles")) }}
{{- fail "history.auth needs a ClusterRole, to ask the API server who asks and what he may see; without it (rbac.clusterRoles is false) the ledger stays closed" }}
{{- end }}
{{- if eq $auth.mode "proxy" }}
{{- if eq (empty $proxy.secretName) (empty $proxy.clientCASecret) }}
{{- fail "history.auth.mode is proxy, and anybody can send a header: set one of history.auth.proxy.secretName and clientCASecret, by which the proxy proves itself" }}
{{- end }}
{{- if and $proxy.clientCASecret (not $auth.tlsSecret) }}
{{- fail "history.auth.proxy.clientCASecret needs history.auth.tlsSecret: without TLS nobody shows a certificate" }}
{{- end }}
{{- end }}
{{- end }}
{{- $auth.mode }}
{{- end }}

{{- define "gha-runner-scale-set-controller.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace | include "gha-runner-scale-set-controller.scalar" }}
{{- end }}

{{- define "gha-runner-scale-set-controller.image" -}}
{{- $image := .Values.image | default dict }}
{{- $repository := $image.repository | default "ghcr.io/harrier-ci/gha-runner-scale-set-controller" }}
{{- if include "gha-runner-scale-set-controller.is-arc-image" $repository }}
{{- fail (printf "image.repository is %s, which is, by its name, actions-runner-controller's: its manager knows neither this chart's flags nor its Roles. Remove image.repository and image.tag for ghcr.io/harrier-ci/gha-runner-scale-set-controller:%s, or give repository and tag of an image of Harrier that you have built and pushed (docs/quickstart.md)" $repository .Chart.AppVersion) }}
{{- end }}
{{- if $image.digest }}
{{- printf "%s@%s" $repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $repository ($image.tag | default .Chart.AppVersion | include "gha-runner-scale-set-controller.scalar") }}
{{- end }}
{{- end }}

{{/*
"true" if an image is a manager of actions-runner-controller: one below a name of its publishers, also where a registry mirrors
theirs under their whole names. internal/listenertemplate has the same rule. Takes the image.
*/}}
{{- define "gha-runner-scale-set-controller.is-arc-image" -}}
{{- $name := include "gha-runner-scale-set-controller.image-name" . }}
{{- if or (regexMatch "(^|/)(ghcr[.]io/(actions|actions-runner-controller)|([a-z0-9-]+[.])?docker[.]io/summerwind)/(gha-runner-scale-set-controller|actions-runner-controller)$" $name) (hasPrefix "summerwind/actions-runner-controller" $name) }}true{{ end }}
{{- end }}

{{/*
"true" if an image is called like that manager, which Harrier's is as well. Only the image itself knows which of the two it is: the
controller's chart passes --program=harrier, at which another manager ends. Takes the image.
*/}}
{{- define "gha-runner-scale-set-controller.may-be-arc-image" -}}
{{- $name := include "gha-runner-scale-set-controller.image-name" . }}
{{- if and (regexMatch "(gha-runner-scale-set-controller|actions-runner-controller)[^/]*$" $name) (not (contains "harrier" $name)) }}true{{ end }}
{{- end }}

{{/* An image without tag and digest. Takes the image. */}}
{{- define "gha-runner-scale-set-controller.image-name" -}}
{{- regexReplaceAll "(:[^/]*)?(@.*)?$" (toString . | lower | trim) "" }}
{{- end }}

{{/* What may be wrong with the image and with securityContexts, a sentence each, for NOTES and `manager validate`. JSON. */}}
{{- define "gha-runner-scale-set-controller.doubts" -}}
{{- $image := .Values.image | default dict }}
{{- $doubts := list }}
{{- $own := "ghcr.io/harrier-ci/gha-runner-scale-set-controller" }}
{{- $repository := $image.repository | default $own }}
{{- $tag := $image.tag | default .Chart.AppVersion | include "gha-runner-scale-set-controller.scalar" }}
{{- if and (eq (toString $repository) $own) (not $image.digest) (ne $tag .Chart.AppVersion) }}
{{- $doubts = append $doubts (printf "image.tag is %s, and this chart is of Harrier %s: there is an image only if %s is a release of Harrier, too. Versions of actions-runner-controller are not; remove image.tag for this chart's own." $tag .Chart.AppVersion $tag) }}
{{- end }}
{{- if include "gha-runner-scale-set-controller.may-be-arc-image" $repository }}
{{- $doubts = append $doubts (printf "image.repository is %s, which is called like the image of actions-runner-controller. If it is a mirror of Harrier's, this is all right. A manager of actions-runner-controller ends at once, because it doesn't know the flag --program; then remove image.repository and image.tag." $repository) }}
{{- end }}
{{- range $key, $fields := include "gha-runner-scale-set-controller.misplaced-fields" . | fromJson }}
{{- range $field := $fields }}
{{- if not (kindIs "invalid" (index (get $.Values $key | default dict) $field)) }}
{{- $right := eq $key "securityContext" | ternary "podSecurityContext" "securityContext" }}
{{- $doubts = append $doubts (printf "%s.%s is left out: only %s has such a field, and Kubernetes has ignored it so far. Remove it to keep what runs, or write it as %s.%s." $key $field $right $right $field) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $doubts }}
{{- end }}

{{- define "gha-runner-scale-set-controller.pull-policy" -}}
{{- (.Values.image | default dict).pullPolicy | default "IfNotPresent" }}
{{- end }}

{{/*
"true" unless the switch is off. Takes values, a map that may be missing (values kept from an older chart lack it, and a
key with everything under it commented out is null), and key. Switches that are on by default only.
*/}}
{{- define "gha-runner-scale-set-controller.is-on" -}}
{{- $switch := index (.values | default dict) .key }}
{{- if or $switch (kindIs "invalid" $switch) }}true{{ end }}
{{- end }}

{{/*
The value `flags`. Some keys are read at the top as well: actions-runner-controller's values.yaml showed them
there in comments. JSON.
*/}}
{{- define "gha-runner-scale-set-controller.flags" -}}
{{- $misplaced := pick .Values "healthProbeBindAddress" "k8sClientRateLimiterQPS" "k8sClientRateLimiterBurst" "rateLimiter" }}
{{- mergeOverwrite dict $misplaced (.Values.flags | default dict) | toJson }}
{{- end }}

{{/* The one namespace the controller is restricted to; empty if it serves all. */}}
{{- define "gha-runner-scale-set-controller.watched-namespace" -}}
{{- with (.Values.flags | default dict).watchSingleNamespace }}
{{- include "gha-runner-scale-set-controller.scalar" . }}
{{- end }}
{{- end }}

{{/*
Name of a cluster-scoped object. It ends in the watched namespace, if there is one, so that releases of the same name don't
collide. Takes root and name.
*/}}
{{- define "gha-runner-scale-set-controller.cluster-wide-name" -}}
{{- .name }}
{{- with include "gha-runner-scale-set-controller.watched-namespace" .root }}.{{ . }}{{ end }}
{{- end }}

{{/*
The ServiceAccount of the controller. "default" is refused: every pod in the namespace that names no account runs under
it, and would get the controller's rights.
*/}}
{{- define "gha-runner-scale-set-controller.service-account-name" -}}
{{- $name := include "gha-runner-scale-set-controller.scalar" (.Values.serviceAccount | default dict).name }}
{{- if eq $name "default" }}
{{- fail "serviceAccount.name cannot be set to 'default'" }}
{{- end }}
{{- if $name }}
{{- $name }}
{{- else if include "gha-runner-scale-set-controller.is-on" (dict "values" .Values.serviceAccount "key" "create") }}
{{- include "gha-runner-scale-set-controller.fullname" . }}
{{- else }}
{{- fail "serviceAccount.name must be set if serviceAccount.create is false" }}
{{- end }}
{{- end }}

{{- define "gha-runner-scale-set-controller.selector-labels" -}}
app.kubernetes.io/name: {{ include "gha-runner-scale-set-controller.name" . | quote }}
app.kubernetes.io/namespace: {{ include "gha-runner-scale-set-controller.namespace" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* What says that a pod is the controller's, beside the above: listener pods get neither from a scale set. */}}
{{- define "gha-runner-scale-set-controller.own-pod-labels" -}}
app.kubernetes.io/part-of: {{ include "gha-runner-scale-set-controller.base-name" . }}
app.kubernetes.io/component: controller-manager
{{- end }}

{{/*
Labels by which everything but the Deployment selects the controller's pods. The Deployment's own selector can't be changed.
*/}}
{{- define "gha-runner-scale-set-controller.pod-selector" -}}
{{ include "gha-runner-scale-set-controller.selector-labels" . }}
{{ include "gha-runner-scale-set-controller.own-pod-labels" . }}
{{- end }}

{{- define "gha-runner-scale-set-controller.labels" -}}
{{- include "gha-runner-scale-set-controller.labels-and" (dict "root" .) }}
{{- end }}

{{/*
The same with additional labels for one object. Takes root and more. These take precedence over the value `labels`, and the
chart's own, by which objects are found, over both.
*/}}
{{- define "gha-runner-scale-set-controller.labels-and" -}}
{{- include "gha-runner-scale-set-controller.strings"
    (list .root.Values.labels .more (include "gha-runner-scale-set-controller.own-labels" .root | fromYaml)) }}
{{- end }}

{{- define "gha-runner-scale-set-controller.own-labels" -}}
helm.sh/chart: {{ printf "%s-%s" (include "gha-runner-scale-set-controller.base-name" .) .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "gha-runner-scale-set-controller.selector-labels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: {{ include "gha-runner-scale-set-controller.base-name" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
