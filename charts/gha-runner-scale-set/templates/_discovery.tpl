{{/*
The controller's ServiceAccount, which the roles of this scale set are bound to. The user names it, or it is found by
the labels that the controller chart sets on its Deployment; `helm template` has no cluster to look in.
*/}}

{{/*
Labels of the one controller Deployment that serves this namespace. Takes root and key, the value that would make
the search unnecessary. JSON.
*/}}
{{- define "gha-runner-scale-set.controller-labels" -}}
{{- include "gha-runner-scale-set.validate" .root }}
{{- $hint := printf "Consider setting %s in values.yaml to be explicit if you think the discovery is wrong." .key }}
{{- $namespace := include "gha-runner-scale-set.namespace" .root }}
{{- $all := list }}
{{- $single := list }}
{{- $here := list }}
{{- range (lookup "apps/v1" "Deployment" "" "").items | default list }}
{{- $labels := .metadata.labels | default dict }}
{{- if eq (get $labels "app.kubernetes.io/part-of") "gha-rs-controller" }}
{{- $watched := get $labels "actions.github.com/controller-watch-single-namespace" }}
{{- if not $watched }}
{{- $all = append $all $labels }}
{{- else }}
{{- $single = append $single $labels }}
{{- if eq $watched $namespace }}
{{- $here = append $here $labels }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and $all $single }}
{{- fail (printf "Found both gha-rs-controller installed with flags.watchSingleNamespace set and unset in cluster, this is not supported. %s" $hint) }}
{{- else if gt (len $all) 1 }}
{{- fail (printf "More than one gha-rs-controller deployment found using label (app.kubernetes.io/part-of=gha-rs-controller). %s" $hint) }}
{{- else if gt (len $here) 1 }}
{{- fail (printf "More than one gha-rs-controller deployment found that watch this namespace (%s). %s" $namespace $hint) }}
{{- else if and $single (not $here) }}
{{- fail (printf "No gha-rs-controller deployment that watch this namespace found using label (actions.github.com/controller-watch-single-namespace=%s). %s" $namespace $hint) }}
{{- else if not (or $all $here) }}
{{- fail (printf "No gha-rs-controller deployment found using label (app.kubernetes.io/part-of=gha-rs-controller). %s Where there is no cluster to look in, as for helm template, set controllerServiceAccount.name and controllerServiceAccount.namespace; with --dry-run=server helm asks the cluster" $hint) }}
{{- end }}
{{- first (concat $all $here) | toJson }}
{{- end }}

{{/* Takes root and field: name or namespace. */}}
{{- define "gha-runner-scale-set.controller-service-account" -}}
{{- $given := get (.root.Values.controllerServiceAccount | default dict) .field | include "gha-runner-scale-set.scalar" }}
{{- if $given }}
{{- $given }}
{{- else }}
{{- $key := printf "controllerServiceAccount.%s" .field }}
{{- $labels := include "gha-runner-scale-set.controller-labels" (dict "root" .root "key" $key) | fromJson }}
{{- $found := get $labels (printf "actions.github.com/controller-service-account-%s" .field) }}
{{- if not $found }}
{{- fail (printf "No service account %s found for gha-rs-controller deployment using label (actions.github.com/controller-service-account-%s). Consider setting %s in values.yaml to be explicit if you think the discovery is wrong." .field .field $key) }}
{{- end }}
{{- $found }}
{{- end }}
{{- end }}

{{/* Binds a Role of this namespace to the controller's account. Takes root and name, of Role and binding alike. */}}
{{- define "gha-runner-scale-set.manager-binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "gha-runner-scale-set.metadata" (dict "root" .root "name" .name "kind" "managerRoleBinding" "component" "manager-role-binding") | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "gha-runner-scale-set.controller-service-account" (dict "root" .root "field" "name") | quote }}
    namespace: {{ include "gha-runner-scale-set.controller-service-account" (dict "root" .root "field" "namespace") | quote }}
{{- end }}
