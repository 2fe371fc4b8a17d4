{{/*
Parts of the AutoscalingRunnerSet's spec and annotations.
*/}}

{{/*
A proxy configuration without unset fields. noProxy may be a list or, as in NO_PROXY, a comma-separated string. Takes the
value. YAML.
*/}}
{{- define "gha-runner-scale-set.proxy" -}}
{{- $proxy := dict }}
{{- range $scheme := list "http" "https" }}
{{- $server := get $ $scheme | default dict }}
{{- if $server.url }}
{{- $_ := set $proxy $scheme (dict "url" $server.url) }}
{{- with $server.credentialSecretRef }}
{{- $_ := set (get $proxy $scheme) "credentialSecretRef" . }}
{{- end }}
{{- end }}
{{- end }}
{{- with .noProxy }}
{{- $hosts := kindIs "string" . | ternary (regexFindAll "[^,\\s]+" (toString .) -1) . }}
{{- $_ := set $proxy "noProxy" $hosts }}
{{- end }}
{{- toYaml $proxy }}
{{- end }}

{{/*
spec.vaultConfig. The vault's keys are read in camel case and also in snake case, because actions-runner-controller's
values.yaml showed them like that; it also showed the proxy inside the vault. Takes keyVault. YAML.
*/}}
{{- define "gha-runner-scale-set.vault" -}}
{{- if ne .type "azure_key_vault" }}
{{- fail (printf "Unsupported keyVault type: %s; the supported one is azure_key_vault" .type) }}
{{- end }}
{{- $azure := .azureKeyVault | default .azure_key_vault | default dict }}
{{- $proxy := .proxy | default $azure.proxy }}
{{- $vault := dict }}
{{- range $key := list "url" "tenantId" "clientId" "certificatePath" }}
{{- $value := get $azure $key | default (get $azure (snakecase $key)) }}
{{- if not $value }}
{{- fail (printf "keyVault.azureKeyVault.%s is required when keyVault.type is azure_key_vault" $key) }}
{{- end }}
{{- $_ := set $vault $key $value }}
{{- end }}
{{- $config := dict "type" .type "azureKeyVault" $vault }}
{{- with include "gha-runner-scale-set.proxy" ($proxy | default dict) | fromYaml }}
{{- $_ := set $config "proxy" . }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/*
Metadata that the controller sets on the objects it creates: field of the spec, by its key in resourceMeta. YAML.
*/}}
{{- define "gha-runner-scale-set.dependents-metadata" -}}
{{- $fields := dict
    "autoscalingListener" "autoscalingListener"
    "listenerServiceAccount" "listenerServiceAccountMetadata"
    "listenerRole" "listenerRoleMetadata"
    "listenerRoleBinding" "listenerRoleBindingMetadata"
    "listenerConfigSecret" "listenerConfigSecretMetadata"
    "ephemeralRunnerSet" "ephemeralRunnerSetMetadata"
    "ephemeralRunner" "ephemeralRunnerMetadata"
    "ephemeralRunnerConfigSecret" "ephemeralRunnerConfigSecretMetadata" }}
{{- $metadata := dict }}
{{- range $kind, $field := $fields }}
{{- with include "gha-runner-scale-set.labels-and-annotations" (get ($.Values.resourceMeta | default dict) $kind | default dict) | fromJson }}
{{- $_ := set $metadata $field . }}
{{- end }}
{{- end }}
{{- with $metadata }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* labels and annotations of the given map, with values as strings and without empty entries. JSON. */}}
{{- define "gha-runner-scale-set.labels-and-annotations" -}}
{{- $metadata := dict }}
{{- range $field := list "labels" "annotations" }}
{{- with include "gha-runner-scale-set.strings" (list (get $ $field)) | fromJson }}
{{- $_ := set $metadata $field . }}
{{- end }}
{{- end }}
{{- toJson $metadata }}
{{- end }}

{{/*
The listener's pod as the user wrote it, labels and annotations as strings. The API requires containers, even in a spec
that only sets fields of the pod: nodeSelector, tolerations. Takes the value. YAML.
*/}}
{{- define "gha-runner-scale-set.listener-template" -}}
{{- $metadata := dict }}
{{- with .metadata }}
{{- $_ := set $metadata "metadata" (merge (include "gha-runner-scale-set.labels-and-annotations" . | fromJson) (omit . "labels" "annotations")) }}
{{- end }}
{{- $template := merge $metadata (omit . "metadata") }}
{{- if kindIs "map" .spec }}
{{- $spec := include "gha-runner-scale-set.without-misplaced" .spec | fromJson }}
{{- if not .spec.containers }}
{{- $spec = merge (dict "containers" (list (dict "name" "listener"))) $spec }}
{{- end }}
{{- $_ := set $template "spec" $spec }}
{{- end }}
{{- toYaml $template }}
{{- end }}

{{/*
The chart's own annotations. Those named cleanup-* tell a controller which of the chart's objects belong to the set;
Harrier's needs none of them, but actions-runner-controller's does if somebody goes back to it. The values' hash leaves out what
makes other objects only. JSON.
*/}}
{{- define "gha-runner-scale-set.runner-set-annotations" -}}
{{- $role := include "gha-runner-scale-set.manager-role-name" . }}
{{- $annotations := dict
    "actions.github.com/values-hash" ((include "gha-runner-scale-set.without-nulls" (omit .Values "prepull" "variants") | fromJson).value | toJson | sha256sum | trunc 63)
    "actions.github.com/cleanup-manager-role-binding" $role
    "actions.github.com/cleanup-manager-role-name" $role }}
{{- if not (kindIs "string" .Values.githubConfigSecret) }}
{{- $_ := set $annotations "actions.github.com/cleanup-github-secret-name" (include "gha-runner-scale-set.github-secret-name" .) }}
{{- end }}
{{- if not (include "gha-runner-scale-set.own-service-account" .) }}
{{- $account := include "gha-runner-scale-set.runner-service-account-name" . }}
{{- if include "gha-runner-scale-set.is-kubernetes-mode" . }}
{{- $_ := set $annotations "actions.github.com/cleanup-kubernetes-mode-role-binding-name" (include "gha-runner-scale-set.kube-mode-role-name" .) }}
{{- $_ := set $annotations "actions.github.com/cleanup-kubernetes-mode-role-name" (include "gha-runner-scale-set.kube-mode-role-name" .) }}
{{- $_ := set $annotations "actions.github.com/cleanup-kubernetes-mode-service-account-name" $account }}
{{- else }}
{{- $_ := set $annotations "actions.github.com/cleanup-no-permission-service-account-name" $account }}
{{- end }}
{{- end }}
{{- toJson $annotations }}
{{- end }}
