{{/*
Whose the CustomResourceDefinitions are. There is one set of them in a cluster, however many controllers.
*/}}

{{/* "true" where they are part of this release: wanted, and not another one's. */}}
{{- define "gha-runner-scale-set-controller.has-crds" -}}
{{- if and (include "gha-runner-scale-set-controller.is-on" (dict "values" .Values.crds "key" "install"))
      (not (include "gha-runner-scale-set-controller.other-with-crds" .)) }}true{{ end }}
{{- end }}

{{/*
The other release that has them, as NAMESPACE/NAME; empty where there is none. One that is uninstalled, which its Deployment
tells, has them no more: then Helm refuses to make them this one's, and does with --take-ownership. `helm template` has no
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

{{/* The release that an object of the cluster is of, as NAMESPACE/NAME; empty where it is of none. */}}
{{- define "gha-runner-scale-set-controller.release-of" -}}
{{- $annotations := (.metadata | default dict).annotations | default dict }}
{{- with get $annotations "meta.helm.sh/release-name" }}
{{- printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") . }}
{{- end }}
{{- end }}
