{{/*
Values that can't work are refused here, before anything reaches the cluster. The texts are those of
actions-runner-controller where it has one.
*/}}

{{/* Names first: their templates validate them. */}}
{{- define "gha-runner-scale-set.validate" -}}
{{- include "gha-runner-scale-set.validate-experimental" . }}
{{- $_ := include "gha-runner-scale-set.scale-set-name" . }}
{{- $_ = include "gha-runner-scale-set.namespace" . }}
{{- if not .Values.githubConfigUrl }}
{{- fail ".Values.githubConfigUrl is required" }}
{{- end }}
{{- include "gha-runner-scale-set.validate-address" . }}
{{- include "gha-runner-scale-set.validate-secret" .Values.githubConfigSecret }}
{{- include "gha-runner-scale-set.validate-counts" (dict "values" .Values "at" "") }}
{{- include "gha-runner-scale-set.validate-hook-template" . }}
{{- include "gha-runner-scale-set.validate-feedback" . }}
{{- include "gha-runner-scale-set.validate-windows" . }}
{{- include "gha-runner-scale-set.validate-containers" . }}
{{- include "gha-runner-scale-set.validate-job-grace" . }}
{{- include "gha-runner-scale-set.validate-registry-mirror" . }}
{{- include "gha-runner-scale-set.validate-listener" . }}
{{- include "gha-runner-scale-set.validate-not-in-deletion" . }}
{{- include "gha-runner-scale-set.validate-kept-work" . }}
{{- include "gha-runner-scale-set.validate-variants" . }}
{{- with .Values.githubServerTLS }}
{{- if and .runnerMountPath (not .certificateFrom.configMapKeyRef.key) }}
{{- fail "githubServerTLS.certificateFrom.configMapKeyRef.key is required when githubServerTLS.runnerMountPath is set" }}
{{- end }}
{{- end }}
{{- range .Values.scaleSetLabels }}
{{- $label := include "gha-runner-scale-set.scalar" . }}
{{- if empty $label }}
{{- fail "scaleSetLabels contains an empty string, each label must be a non-empty string of less than 256 characters" }}
{{- else if ge (len $label) 256 }}
{{- fail "scaleSetLabels contains a label that is 256 characters or more, each label must be a non-empty string of less than 256 characters" }}
{{- end }}
{{- end }}
{{- end }}

{{/*
An address of the organization, repository or enterprise in another form is refused with the one to use: a page about it or below it, its
address in the REST API or for git, one without a scheme, or one with a query. So is one where GitHub has something else (github/actions has
the same lists), and one with an empty or relative part. The manager judges all others, as it may know them better.
*/}}
{{- define "gha-runner-scale-set.validate-address" -}}
{{- $written := include "gha-runner-scale-set.scalar" .Values.githubConfigUrl | trimAll "/" }}
{{- $given := regexReplaceAll "[?#].*$" (trim $written) "" | trimAll "/" }}
{{- /* A password in it, which may have any character, is not shown: the API server and the manager refuse such an address without quoting it. */}}
{{- $shown := not (regexMatch `^\s*(?i)(https?://.*@|[a-z]+://[^/]*:[^/]*@)` $written) }}
{{- $use := $given }}
{{- range $form := list
      (list `^(?i)https://` "https://")
      (list `^(?i)http://` "http://")
      (list `^[\w.-]+@([\w.-]+):([^/].*)$` "https://${1}/${2}")
      (list `^(?:ssh|git)://(?:[^/@]*@)?([\w.-]+)(?::[0-9]+)?/` "https://${1}/")
      (list `^([\w-]+(?:\.[\w-]+)+(?::[0-9]+)?/)` "https://${1}")
      (list `^(?i)(https?://)(?:api|uploads)\.(github\.com|[^/]+\.ghe\.com)/` "${1}${2}/")
      (list `^(?i)(https?://)(?:raw\.githubusercontent|(?:codeload|ssh)\.github)\.com/` "${1}github.com/")
      (list `^(https?://[^/]+)/api/v3/` "${1}/")
      (list `^(https?://[^/]+)/repos/([^/]+/[^/]+)` "${1}/${2}")
      (list `^(https?://[^/]+)/(?i:orgs|organizations)/([^/]+).*$` "${1}/${2}")
      (list `^(https?://[^/]+/[^/]+/[^/]+)/.*$` "${1}")
      (list `^(https?://[^/]+/.*[^/])\.(?i:git)$` "${1}") }}
{{- $use = regexReplaceAll (first $form) $use (last $form) }}
{{- end }}
{{- if and (or
      (regexMatch `^(?i)https?://([^/]+\.github\.com|([^/]+\.)?githubusercontent\.com|[^/]+\.github\.io)(:[0-9]+)?(/|$)` ($use | replace "//www." "//"))
      (regexMatch `^(?i)https?://[^/]+/((enterprises|organizations|orgs)$|(account|apps|collections|dashboard|explore|login|marketplace|notifications|search|settings|sponsors|stars|topics|users)(/|$))` $use)
      (and (regexMatch `^(?i)https?://((api|uploads)\.(github\.com|[^/]+\.ghe\.com)|[^/]+/api/v3)/` $given) (not (regexMatch `^(?i)https?://[^/]+/(api/v3/)?(orgs|repos|enterprises)/` $given)))
      (and (regexMatch `^https?://` $use) (not (regexMatch `^https?://[^/]+(/[^/]+){1,2}$` $use)))
      (regexMatch `^https?://.*/\.{1,2}(/|$)` $use)
    ) $shown }}
{{- fail (printf "githubConfigUrl: %s is not the address at which runners register; use https://HOST/ORGANIZATION, https://HOST/OWNER/REPOSITORY or https://HOST/enterprises/ENTERPRISE" $given) }}
{{- end }}
{{- if and (ne $use $written) $shown }}
{{- fail (printf "githubConfigUrl: %s is not the address at which runners register; use %s" $given $use) }}
{{- end }}
{{- if and (regexMatch "^(?i)https?://[^/]+/enterprises/" $given) (kindIs "map" .Values.githubConfigSecret) (get .Values.githubConfigSecret "github_app_id") }}
{{- fail (printf "githubConfigSecret has the key of a GitHub App, which can't register runners of an enterprise: give a classic personal access token with the scope manage_runners:enterprise as githubConfigSecret.github_token, or register at an organization of %s" $given) }}
{{- end }}
{{- end }}

{{/* Takes githubConfigSecret: the name of a Secret, or the data of one. */}}
{{- define "gha-runner-scale-set.validate-secret" -}}
{{- if not (or . (kindIs "map" .)) }}
{{- fail "Values.githubConfigSecret is required for setting auth with GitHub server." }}
{{- end }}
{{- if kindIs "map" . }}
{{- if not (or .github_token .github_app_id) }}
{{- fail "A valid .Values.githubConfigSecret is required for setting auth with GitHub server, provide .Values.githubConfigSecret.github_token or .Values.githubConfigSecret.github_app_id." }}
{{- end }}
{{- if and .github_app_id (not (and .github_app_installation_id .github_app_private_key)) }}
{{- fail "A valid .Values.githubConfigSecret is required for setting auth with GitHub server, provide .Values.githubConfigSecret.github_app_installation_id and .Values.githubConfigSecret.github_app_private_key." }}
{{- end }}
{{- range $key := list "github_app_id" "github_app_installation_id" "github_app_private_key" }}
{{- if and (include "gha-runner-scale-set.scalar" $.github_token | trim) (get $ $key) }}
{{- fail (printf ".Values.githubConfigSecret has both github_token and %s, but the controller takes either a token or a GitHub App: empty the one that you don't use, as with --set githubConfigSecret.github_token=" $key) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
"true" if the cluster's AutoscalingRunnerSet of this name is being deleted. Where there is no cluster to ask, or none that knows the kind,
nothing is found. Helm itself reads the object, too, so nobody needs another right for this.
*/}}
{{- define "gha-runner-scale-set.in-deletion" -}}
{{- if .Capabilities.APIVersions.Has "actions.github.com/v1alpha1" }}
{{- $found := lookup "actions.github.com/v1alpha1" "AutoscalingRunnerSet" (include "gha-runner-scale-set.namespace" .) (include "gha-runner-scale-set.resource-name" .) }}
{{- if ($found.metadata | default dict).deletionTimestamp }}true{{ end }}
{{- end }}
{{- end }}

{{/*
What is installed while the set's namesake is being deleted would be deleted with it, although Helm says "deployed". An upgrade passes,
as it may bring the credentials that the deletion waits for; NOTES warn.
*/}}
{{- define "gha-runner-scale-set.validate-not-in-deletion" -}}
{{- if and .Release.IsInstall (include "gha-runner-scale-set.in-deletion" .) }}
{{- $namespace := include "gha-runner-scale-set.namespace" . }}
{{- $name := include "gha-runner-scale-set.resource-name" . }}
{{- fail (printf "the AutoscalingRunnerSet %s in namespace %s is still being deleted: it goes once its running jobs have ended, and what is installed now would go with it. Wait until it is gone, then install again:\n  kubectl wait --for=delete autoscalingrunnerset/%s --namespace %s --timeout=1h\nIf it takes longer than its jobs, its conditions say what it waits for: kubectl describe autoscalingrunnerset %s --namespace %s" $name $namespace $name $namespace $name $namespace) }}
{{- end }}
{{- end }}

{{/* The manager has the same rules (internal/kube/jobgrace.go). */}}
{{- define "gha-runner-scale-set.validate-job-grace" -}}
{{- if include "gha-runner-scale-set.seconds" .Values.jobGracePeriod | int64 }}
{{- if include "gha-runner-scale-set.on-windows" . }}
{{- fail "jobGracePeriod needs a POSIX shell, which runners on Windows don't have: remove it" }}
{{- end }}
{{- if ((include "gha-runner-scale-set.own-runner" . | fromJson).lifecycle | default dict).preStop }}
{{- fail "jobGracePeriod needs the preStop hook of the container runner, which template.spec has for itself: remove one of the two" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "gha-runner-scale-set.validate-listener" -}}
{{- range ((.Values.listenerTemplate | default dict).spec | default dict).containers }}
{{- if and (eq (toString .name) "listener") (include "gha-runner-scale-set.is-arc-image" .image) }}
{{- fail (printf "listenerTemplate.spec.containers[listener].image is %s, which is, by its name, actions-runner-controller's and can't be Harrier's listener. Remove it: listeners run the controller's own image" .image) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
"true" if an image is a manager of actions-runner-controller: one below a name of its publishers, also where a registry mirrors
theirs under their whole names. internal/listenertemplate has the same rule. Takes the image.
*/}}
{{- define "gha-runner-scale-set.is-arc-image" -}}
{{- $name := include "gha-runner-scale-set.image-name" . }}
{{- if or (regexMatch "(^|/)(ghcr[.]io/(actions|actions-runner-controller)|([a-z0-9-]+[.])?docker[.]io/summerwind)/(gha-runner-scale-set-controller|actions-runner-controller)$" $name) (hasPrefix "summerwind/actions-runner-controller" $name) }}true{{ end }}
{{- end }}

{{/*
"true" if an image is called like that manager, which Harrier's is as well. Only the image itself knows which of the two it is: the
controller's chart passes --program=harrier, at which another manager ends. Takes the image.
*/}}
{{- define "gha-runner-scale-set.may-be-arc-image" -}}
{{- $name := include "gha-runner-scale-set.image-name" . }}
{{- if and (regexMatch "(gha-runner-scale-set-controller|actions-runner-controller)[^/]*$" $name) (not (contains "harrier" $name)) }}true{{ end }}
{{- end }}

{{/* An image without tag and digest. Takes the image. */}}
{{- define "gha-runner-scale-set.image-name" -}}
{{- regexReplaceAll "(:[^/]*)?(@.*)?$" (toString . | lower | trim) "" }}
{{- end }}

{{/* Takes values, and at, what the texts begin with. */}}
{{- define "gha-runner-scale-set.validate-counts" -}}
{{- $max := include "gha-runner-scale-set.count" (dict "key" (print .at "maxRunners") "value" .values.maxRunners) }}
{{- $min := include "gha-runner-scale-set.count" (dict "key" (print .at "minRunners") "value" .values.minRunners) }}
{{- if and $max $min (lt (int64 $max) (int64 $min)) }}
{{- fail (print .at "maxRunners has to be greater or equal to minRunners") }}
{{- end }}
{{- if and $max (lt (int64 $max) 0) }}
{{- fail (print .at "maxRunners has to be greater or equal to 0") }}
{{- end }}
{{- if and $min (lt (int64 $min) 0) }}
{{- fail (print .at "minRunners has to be greater or equal to 0") }}
{{- end }}
{{- end }}

{{/*
A number of runners in digits, "" when none is given. A number in quotes counts; anything else is refused, because a
limit that is silently dropped is no limit. To YAML a number with a leading zero is an octal one. The field is an int32;
twelve digits are as many as can be compared without doubt. Takes key and value.
*/}}
{{- define "gha-runner-scale-set.count" -}}
{{- $count := include "gha-runner-scale-set.scalar" .value }}
{{- if $count }}
{{- $count = regexReplaceAll "^(-?)0+([0-9])" $count "${1}${2}" }}
{{- if not (regexMatch "^-?[0-9]{1,12}$" $count) }}
{{- fail (printf "%s has to be a whole number, not %q" .key $count) }}
{{- else if gt (int64 $count) 2147483647 }}
{{- fail (printf "%s has to be 2147483647 at most, not %s" .key $count) }}
{{- end }}
{{- $count }}
{{- end }}
{{- end }}

{{/*
What is set and isn't used, a sentence each. actions-runner-controller ignores it, too, and has it in its examples, so it is no
reason to refuse. JSON.
*/}}
{{- define "gha-runner-scale-set.without-effect" -}}
{{- $mode := include "gha-runner-scale-set.container-mode" . }}
{{- $settings := (include "gha-runner-scale-set.without-nulls" (.Values.containerMode | default dict) | fromJson).value }}
{{- $makesRole := and (include "gha-runner-scale-set.is-kubernetes-mode" .) (not (include "gha-runner-scale-set.own-service-account" .)) }}
{{- $unused := list }}
{{- if not (has $mode (list "" "none" "dind" "kubernetes" "kubernetes-novolume")) }}
{{- $unused = append $unused (printf "containerMode.type %s is unknown and has no effect; use dind, kubernetes or kubernetes-novolume." $mode) }}
{{- end }}
{{- if $settings.kubernetesModeWorkVolumeClaim }}
{{- if ne $mode "kubernetes" }}
{{- $unused = append $unused "containerMode.kubernetesModeWorkVolumeClaim isn't used: only containerMode.type kubernetes has such a volume." }}
{{- end }}
{{- range .Values.template.spec.volumes }}
{{- if and (eq .name "work") (eq $mode "kubernetes") }}
{{- $unused = append $unused "containerMode.kubernetesModeWorkVolumeClaim isn't used: template.spec.volumes has a volume named work of its own." }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key := list "kubernetesModeAdditionalRoleRules" "kubernetesModeServiceAccount" }}
{{- if and (get $settings $key) (not $makesRole) }}
{{- $unused = append $unused (printf "containerMode.%s isn't used: only the kubernetes modes have a Role and an account of the chart's, and only without template.spec.serviceAccountName." $key) }}
{{- end }}
{{- end }}
{{- if and $settings.dindImage (ne $mode "dind") }}
{{- $unused = append $unused "containerMode.dindImage isn't used: only containerMode.type dind has a Docker daemon." }}
{{- end }}
{{- $apart := list }}
{{- range .Values.volumeClaimTemplates }}
{{- if not (and (eq .metadata.name "work") (include "gha-runner-scale-set.work-is-kept" $)) }}
{{- $apart = append $apart .metadata.name }}
{{- end }}
{{- end }}
{{- if and (.Values.volumeClaimPool | default dict).maxUsedPercent (not (include "gha-runner-scale-set.job-log" .)) }}
{{- $unused = append $unused "volumeClaimPool.maxUsedPercent isn't used: only with feedback.jobLog is it known how full a claim is." }}
{{- end }}
{{- if and $apart (include "gha-runner-scale-set.is-kubernetes-mode" .) }}
{{- $unused = append $unused (printf "volumeClaimTemplates isn't used by jobs with container: in containerMode.type %s, which run in pods of their own: only what runs in the runner itself has its volumes (%s). docs/caches.md says what such jobs can have instead." $mode (join ", " $apart)) }}
{{- end }}
{{- if and .Values.keyVault (not .Values.keyVault.type) }}
{{- $unused = append $unused "keyVault isn't used: it has no type." }}
{{- end }}
{{- range ((.Values.listenerTemplate | default dict).spec | default dict).containers }}
{{- if and (eq (toString .name) "listener") (include "gha-runner-scale-set.may-be-arc-image" .image) }}
{{- $unused = append $unused (printf "listenerTemplate.spec.containers[listener].image is %s, which is called like the image of actions-runner-controller. If it is a mirror of Harrier's, this is all right; what is in the other never becomes a ready listener. Without it, listeners run the controller's own image." .image) }}
{{- end }}
{{- end }}
{{- toJson $unused }}
{{- end }}

{{/* The modes start containers of Linux, beside the runner or with a volume of its node, and no Windows node has them. */}}
{{- define "gha-runner-scale-set.validate-windows" -}}
{{- $mode := include "gha-runner-scale-set.container-mode" . }}
{{- if and $mode (ne $mode "none") (include "gha-runner-scale-set.on-windows" .) }}
{{- fail (printf "containerMode.type is %s, which needs Linux, but the runners are on Windows: remove containerMode, or choose other nodes in template.spec" $mode) }}
{{- end }}
{{- end }}
