{{/*
Admission policies that hold tenants to what the value `tenants` allows them. The manager checks the same again, so a cluster
without the policies is safe, too: they only say earlier what is refused, to whoever writes the object.
*/}}

{{/*
An address in lower case as a regular expression that matches it and its default port. What follows must be a slash or the end,
so that the prefix ends with a whole segment of the path.
*/}}
{{- define "gha-runner-scale-set-controller.tenant-address" -}}
{{- $address := . | lower | trimSuffix "/" }}
{{- $scheme := regexFind "^https?" $address }}
{{- $rest := $address | trimPrefix (printf "%s://" $scheme) }}
{{- $authority := regexFind "^[^/]+" $rest }}
{{- $usual := ternary ":443" ":80" (eq $scheme "https") }}
{{- $host := $authority | trimSuffix $usual }}
{{- $port := ternary "" (printf "(%s)?" $usual) (regexMatch ":[0-9]+$" $host) }}
{{- printf "%s://%s%s%s" $scheme (regexQuoteMeta $host) $port (regexQuoteMeta (trimPrefix $authority $rest)) }}
{{- end }}

{{/*
One entry as a CEL map of lists, because all values of a CEL map have one type. An empty list allows everything. Without a
runner group a set is in the group Default.
*/}}
{{- define "gha-runner-scale-set-controller.tenant" -}}
{{- $namespaces := list }}
{{- range .namespaces }}
{{- $namespaces = append $namespaces (. | replace "*" ".*") }}
{{- end }}
{{- $addresses := list }}
{{- range .gitHubURLs }}
{{- $addresses = append $addresses (include "gha-runner-scale-set-controller.tenant-address" .) }}
{{- end }}
{{- $groups := list }}
{{- range .runnerGroups }}
{{- $groups = append $groups (ternary "Default" . (eq (lower .) "default")) }}
{{- end -}}
{'namespaces': [{{ with $namespaces }}r'^({{ join "|" . }})$'{{ end }}],
 'addresses': [{{ with $addresses }}r'^({{ join "|" . }})(/|$)'{{ end }}],
 'shown': {{ .gitHubURLs | default list | toJson }},
 'groups': {{ $groups | toJson }},
 'maxRunners': [{{ with .maxRunners }}'{{ int64 . }}'{{ end }}]}
{{- end }}

{{/* The entries as a CEL list. */}}
{{- define "gha-runner-scale-set-controller.tenants" -}}
{{- $entries := list }}
{{- range (include "gha-runner-scale-set-controller.without-nulls" .Values.tenants | fromJson).value }}
{{- $entries = append $entries (include "gha-runner-scale-set-controller.tenant" .) }}
{{- end -}}
[{{ join ",\n" $entries }}]
{{- end }}

{{/* Metadata of the policy for a resource, and of its binding. Takes root and resource. */}}
{{- define "gha-runner-scale-set-controller.tenants-metadata" -}}
name: {{ include "gha-runner-scale-set-controller.tenants-name" . | quote }}
labels:
  {{- include "gha-runner-scale-set-controller.labels" .root | nindent 2 }}
{{- end }}

{{- define "gha-runner-scale-set-controller.tenants-name" -}}
{{- include "gha-runner-scale-set-controller.cluster-wide-name"
      (dict "root" .root "name" (printf "%s-tenants-%s" (include "gha-runner-scale-set-controller.fullname" .root) .resource)) }}
{{- end }}

{{/*
Which requests a policy is asked about. The manager copies what was allowed, also of sets older than the policy. Status is
another resource, and nothing is asked when an object is deleted. Takes root and resource.
*/}}
{{- define "gha-runner-scale-set-controller.tenants-matches" -}}
matchConstraints:
  resourceRules:
    - apiGroups: ["actions.github.com"]
      apiVersions: ["v1alpha1"]
      operations: ["CREATE", "UPDATE"]
      resources: [{{ .resource | quote }}]
      scope: Namespaced
matchConditions:
  - name: not-the-controller
    expression: request.userInfo.username != 'system:serviceaccount:{{ include "gha-runner-scale-set-controller.namespace" .root }}:{{ include "gha-runner-scale-set-controller.service-account-name" .root }}'
{{- end }}

{{/* A controller that is restricted to one namespace leaves the others' objects to other controllers. Takes root and resource. */}}
{{- define "gha-runner-scale-set-controller.tenants-binding" -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  {{- include "gha-runner-scale-set-controller.tenants-metadata" . | nindent 2 }}
spec:
  policyName: {{ include "gha-runner-scale-set-controller.tenants-name" . | quote }}
  validationActions: ["Deny"]
  {{- with include "gha-runner-scale-set-controller.watched-namespace" .root }}
  matchResources:
    namespaceSelector:
      matchLabels:
        kubernetes.io/metadata.name: {{ . | quote }}
  {{- end }}
{{- end }}

{{/*
Validations of a kind that names an address. Takes root, resource, at (the path of the fields, as in .?spec), guarded (fields
whose change is checked), group (whether the kind names its runner group) and limit (whether it names maxRunners).

`manager validate` says the same without a cluster, in operations/validation/tenants; a test compares the two.
*/}}
{{- define "gha-runner-scale-set-controller.tenants-validations" -}}
{{- $decides := ". The value tenants of the chart gha-runner-scale-set-controller decides; whoever administers its release can change it" }}
{{- $here := " in namespace ' + request.namespace + '" }}
{{- $at := .at -}}
variables:
  # An object that is older than the policy can still be changed in all other fields.
  - name: asked
    expression: >-
      request.operation == 'CREATE'
      {{- range .guarded }} ||
      object{{ . }} != oldObject{{ . }}
      {{- end }}
  - name: address
    expression: object{{ $at }}.?githubConfigUrl.orValue('')
  - name: shownAddress
    expression: "variables.address.contains('@') ? '(not shown, because it has an @)' : variables.address"
  # An address of another form, with a user or an escaped slash, is below nothing.
  - name: plainAddress
    expression: >-
      variables.address.lowerAscii().matches(r'{{ include "gha-runner-scale-set-controller.plain-address" . }}') ?
      variables.address.lowerAscii() : ''
  - name: ofNamespace
    expression: |-
      {{- include "gha-runner-scale-set-controller.tenants" .root | nindent 6 }}.filter(e, e.namespaces.all(p, request.namespace.matches(p)))
  - name: ofAddress
    expression: variables.ofNamespace.filter(e, e.addresses.all(p, variables.plainAddress.matches(p)))
  {{- if .group }}
  - name: givenGroup
    expression: object{{ $at }}.?runnerGroup.orValue('')
  - name: group
    expression: "variables.givenGroup.lowerAscii() in ['', 'default'] ? 'Default' : variables.givenGroup"
  - name: ofGroup
    expression: variables.ofAddress.filter(e, size(e.groups) == 0 || variables.group in e.groups)
  {{- else }}
  - name: ofGroup
    expression: variables.ofAddress.filter(e, size(e.groups) == 0)
  {{- end }}
  {{- if .limit }}
  {{- if eq .resource "autoscalingrunnersets" }}
  # The most that it ever asks for: a schedule may ask for more than the rest of the time.
  - name: maxRunners
    expression: >-
      object.?spec.?maxRunners.hasValue() ?
      ([object.spec.maxRunners] + object.?spec.?schedules.orValue([]).filter(s, has(s.maxRunners)).map(s, s.maxRunners)).max() : -1
  {{- else }}
  - name: maxRunners
    expression: object.?spec.?maxRunners.orValue(-1)
  {{- end }}
  - name: ofLimit
    expression: variables.ofGroup.filter(e, e.maxRunners.all(m, variables.maxRunners >= 0 && variables.maxRunners <= int(m)))
  {{- end }}
# At most one of them fails, and says what is refused.
validations:
  - expression: "!variables.asked || size(variables.ofNamespace) > 0"
    reason: Forbidden
    message: This namespace is in no entry of the value tenants of the chart gha-runner-scale-set-controller.
    messageExpression: >-
      'namespace ' + request.namespace + ' is in no entry of tenants{{ $decides }}'
  - expression: "!variables.asked || size(variables.ofNamespace) == 0 || size(variables.ofAddress) > 0"
    reason: Forbidden
    message: githubConfigUrl is not among those that the value tenants of the chart gha-runner-scale-set-controller allows here.
    messageExpression: >-
      'githubConfigUrl ' + variables.shownAddress + ' is not allowed{{ $here }}: it must be, or be below, ' +
      variables.ofNamespace.map(e, e.shown.join(' or ')).join(' or ') + '{{ $decides }}'
  - expression: "!variables.asked || size(variables.ofAddress) == 0 || size(variables.ofGroup) > 0"
    reason: Forbidden
    {{- if .group }}
    message: runnerGroup is not among those that the value tenants of the chart gha-runner-scale-set-controller allows here.
    messageExpression: >-
      'runnerGroup ' + variables.group + ' is not allowed{{ $here }}: it must be ' +
      variables.ofAddress.map(e, e.groups.join(' or ')).join(' or ') + '{{ $decides }}'
    {{- else }}
    message: Runner groups are restricted here, and this object doesn't name its own. Only the controller creates it.
    messageExpression: >-
      'runner groups are restricted{{ $here }}, and runnerScaleSetId does not tell the group: write an AutoscalingRunnerSet
      instead{{ $decides }}'
    {{- end }}
  {{- if .limit }}
  - expression: "!variables.asked || size(variables.ofGroup) == 0 || size(variables.ofLimit) > 0"
    reason: Forbidden
    message: maxRunners is not set, or is more than the value tenants of the chart gha-runner-scale-set-controller allows here.
    messageExpression: >-
      'maxRunners ' + (variables.maxRunners < 0 ? 'is not set' : string(variables.maxRunners) + ' is not allowed') +
      '{{ $here }}: it must be at most ' +
      variables.ofGroup.map(e, e.maxRunners.join('')).join(' or ') + '{{ $decides }}'
  {{- end }}
{{- end }}

{{/* Scheme, host, perhaps a port, and segments of letters, digits, "-", "_", "~" and dots, none of dots only. */}}
{{- define "gha-runner-scale-set-controller.plain-address" -}}
^https?://([a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]+)?(/[a-z0-9._~-]*[a-z0-9_~-][a-z0-9._~-]*)+/?$
{{- end }}
