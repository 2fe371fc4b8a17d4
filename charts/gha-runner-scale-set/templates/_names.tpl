{{/*
Names of the chart's objects and their validation. They are those of actions-runner-controller, so that an upgrade from
it changes objects in place.
*/}}

{{/*
Name of the scale set on GitHub: what workflows write after "runs-on:". 45 characters leave room for the suffixes of
the objects made from it, whose names have to be subdomains: a release's name always is one.
*/}}
{{- define "gha-runner-scale-set.scale-set-name" -}}
{{- $name := .Values.runnerScaleSetName | default .Release.Name | include "gha-runner-scale-set.scalar" }}
{{- if or (empty $name) (gt (len $name) 45) }}
{{- fail "Name must have up to 45 characters" }}
{{- end }}
{{- $part := "[a-z0-9]([-_a-z0-9]*[a-z0-9])?" }}
{{- if not (regexMatch (printf "^%s(\\.%s)*$" $part $part) $name) }}
{{- fail (printf "runnerScaleSetName is %q, which gives no valid name for a Kubernetes object: use lower-case letters, digits, \"-\", \"_\" and \".\", with a letter or digit first, last and on both sides of each \".\"; put any other name that workflows use after runs-on in scaleSetLabels" $name) }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "gha-runner-scale-set.namespace" -}}
{{- $namespace := .Values.namespaceOverride | default .Release.Namespace | include "gha-runner-scale-set.scalar" }}
{{- if gt (len $namespace) 63 }}
{{- fail "Namespace must have up to 63 characters" }}
{{- end }}
{{- $namespace }}
{{- end }}

{{/* Kubernetes takes no "_" in a name, GitHub does. */}}
{{- define "gha-runner-scale-set.resource-name" -}}
{{- include "gha-runner-scale-set.scale-set-name" . | replace "_" "-" }}
{{- end }}

{{/* What the names of all other objects begin with. */}}
{{- define "gha-runner-scale-set.fullname" -}}
{{- printf "%s-gha-rs" (include "gha-runner-scale-set.resource-name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
Name of one of the other objects. One that would have more than 63 characters, which are too many for the value of a label,
has eight digits of a hash instead of its middle. Takes root and suffix, and fullname if it isn't the set's.
*/}}
{{- define "gha-runner-scale-set.derived-name" -}}
{{- $fullname := .fullname | default (include "gha-runner-scale-set.fullname" .root) }}
{{- $room := sub 62 (len .suffix) | int }}
{{- if gt (len $fullname) $room }}
{{- $fullname = printf "%s-%s" (trunc (sub $room 9 | int) $fullname | trimAll "-.") (sha256sum $fullname | trunc 8) }}
{{- end }}
{{- $fullname }}-{{ .suffix }}
{{- end }}

{{/* Roles and their bindings may have "_" in their names, and those of actions-runner-controller do. Takes root and suffix. */}}
{{- define "gha-runner-scale-set.role-name" -}}
{{- $fullname := printf "%s-gha-rs" (include "gha-runner-scale-set.scale-set-name" .root) }}
{{- include "gha-runner-scale-set.derived-name" (dict "root" .root "suffix" .suffix "fullname" $fullname) }}
{{- end }}

{{- define "gha-runner-scale-set.manager-role-name" -}}
{{- include "gha-runner-scale-set.role-name" (dict "root" . "suffix" "manager") }}
{{- end }}

{{- define "gha-runner-scale-set.kube-mode-role-name" -}}
{{- include "gha-runner-scale-set.role-name" (dict "root" . "suffix" "kube-mode") }}
{{- end }}

{{- define "gha-runner-scale-set.pod-metadata-role-name" -}}
{{- include "gha-runner-scale-set.derived-name" (dict "root" . "suffix" "pod-metadata") }}
{{- end }}

{{- define "gha-runner-scale-set.disruption-budget-name" -}}
{{- include "gha-runner-scale-set.fullname" . }}-runners
{{- end }}

{{/* Which runners are protected from eviction: None, Busy or All. */}}
{{- define "gha-runner-scale-set.protect-runners" -}}
{{- .Values.protectRunners | default "Busy" }}
{{- end }}

{{- define "gha-runner-scale-set.kube-mode-name" -}}
{{- include "gha-runner-scale-set.derived-name" (dict "root" . "suffix" "kube-mode") }}
{{- end }}

{{- define "gha-runner-scale-set.no-permission-name" -}}
{{- include "gha-runner-scale-set.derived-name" (dict "root" . "suffix" "no-permission") }}
{{- end }}

{{- define "gha-runner-scale-set.hook-extension-name" -}}
{{- include "gha-runner-scale-set.derived-name" (dict "root" . "suffix" "hook-extension") }}
{{- end }}

{{- define "gha-runner-scale-set.prepull-name" -}}
{{- include "gha-runner-scale-set.derived-name" (dict "root" . "suffix" "prepull") }}
{{- end }}

{{- define "gha-runner-scale-set.job-hooks-name" -}}
{{- include "gha-runner-scale-set.derived-name" (dict "root" . "suffix" "job-hooks") }}
{{- end }}

{{/* Name of the Secret with the credentials: the user's, or that of the chart. */}}
{{- define "gha-runner-scale-set.github-secret-name" -}}
{{- if kindIs "string" .Values.githubConfigSecret }}
{{- .Values.githubConfigSecret }}
{{- else }}
{{- include "gha-runner-scale-set.derived-name" (dict "root" . "suffix" "github-secret") }}
{{- end }}
{{- end }}

{{/*
A word that is another one for other credentials, or what the user gave; "" if the credentials are not in the values. It makes an upgrade that
changes nothing but the Secret a change of the AutoscalingRunnerSet, for whose Ready Helm can wait. Helm's revision would not do: it stays the
same where something else applies what Helm renders. The 16 bits are too few to tell anything about a token, and one change in 65,536
that they don't show is noticed within a minute all the same.
*/}}
{{- define "gha-runner-scale-set.github-secret-revision" -}}
{{- if .Values.githubConfigSecretRevision }}
{{- include "gha-runner-scale-set.scalar" .Values.githubConfigSecretRevision }}
{{- else if kindIs "map" .Values.githubConfigSecret }}
{{- include "gha-runner-scale-set.strings" (list .Values.githubConfigSecret) | sha256sum | trunc 4 }}
{{- end }}
{{- end }}

{{/*
The mode. Any word that is none leaves the pod as it is in template.spec, as with actions-runner-controller, but a word that looks like
another's spelling is refused: its jobs would miss Docker, or their pods.
*/}}
{{- define "gha-runner-scale-set.container-mode" -}}
{{- $mode := (.Values.containerMode | default dict).type | default "" | toString }}
{{- if not (has $mode (list "dind" "kubernetes" "kubernetes-novolume")) }}
{{- $meant := "" }}
{{- $word := lower $mode }}
{{- if contains "novolume" (regexReplaceAll "[^a-z]" $word "") }}
{{- $meant = "kubernetes-novolume" }}
{{- else if regexMatch "^ *(k8s|kube|kuber)" $word }}
{{- $meant = "kubernetes, which needs kubernetesModeWorkVolumeClaim, or kubernetes-novolume, which doesn't" }}
{{- else if regexMatch "docker|dind" $word }}
{{- $meant = "dind" }}
{{- end }}
{{- if $meant }}
{{- fail (printf "containerMode.type is %q, which is no mode: use %s, or leave it out for jobs without containers" $mode $meant) }}
{{- end }}
{{- end }}
{{- $mode }}
{{- end }}

{{/* "true" in the modes that run job containers as pods. */}}
{{- define "gha-runner-scale-set.is-kubernetes-mode" -}}
{{- if has (include "gha-runner-scale-set.container-mode" .) (list "kubernetes" "kubernetes-novolume") }}true{{ end }}
{{- end }}

{{/* The account the user named for the runner pods; with one, the chart makes no account and no role for them. */}}
{{- define "gha-runner-scale-set.own-service-account" -}}
{{- ((.Values.template | default dict).spec | default dict).serviceAccountName | default "" }}
{{- end }}

{{- define "gha-runner-scale-set.runner-service-account-name" -}}
{{- if include "gha-runner-scale-set.own-service-account" . }}
{{- include "gha-runner-scale-set.own-service-account" . }}
{{- else if include "gha-runner-scale-set.is-kubernetes-mode" . }}
{{- include "gha-runner-scale-set.kube-mode-name" . }}
{{- else }}
{{- include "gha-runner-scale-set.no-permission-name" . }}
{{- end }}
{{- end }}
