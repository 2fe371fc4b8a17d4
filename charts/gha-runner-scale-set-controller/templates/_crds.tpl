{{/*
Which release owns the CustomResourceDefinitions. A cluster has one set of them, however many controllers it has.
*/}}

{{/* "true" if they are part of this release: wanted, and not owned by another. */}}
{{- define "gha-runner-scale-set-controller.has-crds" -}}
{{- if and (include "gha-runner-scale-set-controller.is-on" (dict "values" .Values.crds "key" "install"))
      (not (include "gha-runner-scale-set-controller.other-with-crds" .)) }}true{{ end }}
{{- end }}

{{/*
The other release that owns them, as NAMESPACE/NAME; empty if there is none. A release without a Deployment has been
uninstalled and doesn't count: then Helm refuses to adopt them unless it is given --take-ownership. `helm template` has no
cluster to look in.
*/}}
{{- define "gha-runner-scale-set-controller.other-with-crds" -}}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "autoscalingrunnersets.actions.github.com" }}
{{- $owner := include "gha-runner-scale-set-controller.release-of" $crd }}
{{- if and $owner (ne $owner (printf "%s/%s" .Release.Namespace .Release.Name)) }}
{{- $found := "" }}
{{- range (lookup "apps/v1" "Deployment" (first (splitList "/" $owner)) "").items }}
{{- if and (eq (include "gha-runner-scale-set-controller.release-of" .) $owner)
      (eq (get (.metadata.labels | default dict) "app.kubernetes.io/part-of") (include "gha-runner-scale-set-controller.base-name" $)) }}
{{- $found = $owner }}
{{- end }}
{{- end }}
{{- $found }}
{{- end }}
{{- end }}

{{/* The release that owns an object of the cluster, as NAMESPACE/NAME; empty if none does. */}}
{{- define "gha-runner-scale-set-controller.release-of" -}}
{{- $annotations := (.metadata | default dict).annotations | default dict }}
{{- with get $annotations "meta.helm.sh/release-name" }}
{{- printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") . }}
{{- end }}
{{- end }}
