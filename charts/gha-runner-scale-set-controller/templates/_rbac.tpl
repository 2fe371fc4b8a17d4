{{/*
A binding of the controller's ServiceAccount, or of another account in its namespace. Takes root, kind (Role or
ClusterRole), name (of role and binding alike), account (for another ServiceAccount),
namespace (for a RoleBinding) and, optionally, labels.
*/}}
{{- define "gha-runner-scale-set-controller.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (not (empty .namespace)) }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  {{- with .labels }}
  labels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ .account | default (include "gha-runner-scale-set-controller.service-account-name" .root) | quote }}
    namespace: {{ include "gha-runner-scale-set-controller.namespace" .root | quote }}
{{- end }}

{{/*
Head of a Role or ClusterRole of the controller; the rules follow. Takes kind, name and, for a Role, namespace.
*/}}
{{- define "gha-runner-scale-set-controller.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
{{- end }}

{{/*
Namespaces in which a controller that is restricted to one writes Events: its own and the watched one, which may be the
same. A JSON list.
*/}}
{{- define "gha-runner-scale-set-controller.event-namespaces" -}}
{{- list (include "gha-runner-scale-set-controller.namespace" .) (include "gha-runner-scale-set-controller.watched-namespace" .) | uniq | toJson }}
{{- end }}

{{- define "gha-runner-scale-set-controller.event-rules" -}}
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: ["create", "patch"]
{{- end }}

{{/*
"true" unless the installer may not create ClusterRoles. Then settings that need one are refused, with what to change.
*/}}
{{- define "gha-runner-scale-set-controller.cluster-roles" -}}
{{- $allowed := include "gha-runner-scale-set-controller.is-on" (dict "values" .Values.rbac "key" "clusterRoles") }}
{{- if not $allowed }}
{{- if not (include "gha-runner-scale-set-controller.watched-namespace" .) }}
{{- fail "Values.rbac.clusterRoles is false, but a controller for all namespaces needs a ClusterRole; set Values.flags.watchSingleNamespace, or set Values.rbac.clusterRoles to true" }}
{{- end }}
{{- if include "gha-runner-scale-set-controller.metrics-secure" . }}
{{- fail "Values.rbac.clusterRoles is false, but Values.metrics.secure needs a ClusterRole; set Values.rbac.clusterRoles to true or Values.metrics.secure to false" }}
{{- end }}
{{- end }}
{{- $allowed }}
{{- end }}

{{/*
Name of the ClusterRole that outlives the watched namespace, and of its RoleBinding; empty if there are none. The
controller can't outlive its own namespace, whatever its rights. The name ends in the watched namespace, so that releases of
the same name don't collide, and a RoleBinding left in a previously watched namespace no longer grants anything.
*/}}
{{- define "gha-runner-scale-set-controller.single-namespace-deletion" -}}
{{- $watched := include "gha-runner-scale-set-controller.watched-namespace" . }}
{{- if and (include "gha-runner-scale-set-controller.cluster-roles" .) $watched (ne $watched (include "gha-runner-scale-set-controller.namespace" .)) }}
{{- printf "%s-single-namespace-deletion.%s" (include "gha-runner-scale-set-controller.fullname" .) $watched }}
{{- end }}
{{- end }}

{{/*
What the controller watches and owns in the one namespace it is restricted to. The rules on finalizers are as in the
ClusterRole.
*/}}
{{- define "gha-runner-scale-set-controller.watched-namespace-rules" -}}
- apiGroups: ["actions.github.com"]
  resources: ["autoscalingrunnersets"]
  verbs: ["list", "patch", "watch"]
- apiGroups: ["actions.github.com"]
  resources: ["autoscalingrunnersets/finalizers"]
  verbs: ["update"]
- apiGroups: ["actions.github.com"]
  resources: ["autoscalingrunnersets/status"]
  verbs: ["patch"]
- apiGroups: ["actions.github.com"]
  resources: ["ephemeralrunnersets"]
  verbs: ["create", "delete", "get", "list", "patch", "watch"]
- apiGroups: ["actions.github.com"]
  resources: ["ephemeralrunnersets/status"]
  verbs: ["patch"]
- apiGroups: ["actions.github.com"]
  resources: ["ephemeralrunnersets/finalizers"]
  verbs: ["update"]
- apiGroups: ["actions.github.com"]
  resources: ["ephemeralrunners"]
  verbs: ["create", "delete", "list", "patch", "watch"]
- apiGroups: ["actions.github.com"]
  resources: ["ephemeralrunners/finalizers"]
  verbs: ["update"]
- apiGroups: ["actions.github.com"]
  resources: ["ephemeralrunners/status"]
  verbs: ["patch"]
- apiGroups: ["actions.github.com"]
  resources: ["autoscalinglisteners"]
  verbs: ["list"]
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["list", "watch"]
- apiGroups: [""]
  resources: ["persistentvolumeclaims"]
  verbs: ["list", "watch"]
- apiGroups: [""]
  resources: ["serviceaccounts"]
  verbs: ["list", "watch"]
- apiGroups: ["rbac.authorization.k8s.io"]
  resources: ["rolebindings"]
  verbs: ["list", "watch"]
{{ include "gha-runner-scale-set-controller.rule-on-roles" . }}
{{- end }}

{{/* "true" if the controller removes ARC's finalizers from the objects of its charts. */}}
{{- define "gha-runner-scale-set-controller.strips-finalizers" -}}
{{- include "gha-runner-scale-set-controller.is-on" (dict "values" .Values.flags "key" "stripForeignFinalizers") }}
{{- end }}

{{/*
The rule on Roles, everywhere or in the watched namespace. A Role that has ARC's finalizer may be all that would let the
controller remove it, so that takes a right that does not come from Roles of scale sets. Listeners' Roles are written under those.
*/}}
{{- define "gha-runner-scale-set-controller.rule-on-roles" -}}
- apiGroups: ["rbac.authorization.k8s.io"]
  resources: ["roles"]
  verbs: ["list", "watch"{{ if include "gha-runner-scale-set-controller.strips-finalizers" . }}, "patch"{{ end }}]
{{- end }}
