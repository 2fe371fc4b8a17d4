{{/*
One binding of the controller's ServiceAccount, or of another one in its namespace. Takes root, kind (Role or
ClusterRole), name (of role and binding alike), for a Role namespace, and for another ServiceAccount account.
*/}}
{{- define "gha-runner-scale-set-controller.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
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
Namespaces the controller writes Events in when it is restricted to one: its own and the watched one, which may be the
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
