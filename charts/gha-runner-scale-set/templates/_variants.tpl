{{/*
Variants: further scale sets of one release. variants.yaml renders each with the templates of the first set, from values that are
made here: those of the release, and what the variant says itself.
*/}}

{{/*
Values of a variant. Numbers that it doesn't give are the release's, labels are its own alone, and the credentials are in the Secret
of the first set. A number that it gives holds at all times: schedules keep the other one, or go. Takes root and variant. JSON.
*/}}
{{- define "gha-runner-scale-set.variant-values" -}}
{{- $values := omit .root.Values "variants" "scaleSetLabels" }}
{{- range $key := list "scaleSetLabels" "minRunners" "maxRunners" }}
{{- if hasKey $.variant $key }}
{{- $_ := set $values $key (get $.variant $key) }}
{{- end }}
{{- end }}
{{- $own := keys (pick .variant "minRunners" "maxRunners") }}
{{- if and $own .root.Values.schedules }}
{{- $schedules := list }}
{{- range (include "gha-runner-scale-set.without-nulls" .root.Values.schedules | fromJson).value }}
{{- $kept := . }}
{{- range $own }}
{{- $kept = omit $kept . }}
{{- end }}
{{- if or (hasKey $kept "minRunners") (hasKey $kept "maxRunners") }}
{{- $schedules = append $schedules $kept }}
{{- end }}
{{- end }}
{{- $_ := set $values "schedules" $schedules }}
{{- end }}
{{- $name := include "gha-runner-scale-set.scalar" .variant.name }}
{{- $_ := set $values "runnerScaleSetName" (printf "%s-%s" (include "gha-runner-scale-set.scale-set-name" .root) $name) }}
{{- $_ := set $values "githubConfigSecret" (include "gha-runner-scale-set.github-secret-name" .root) }}
{{- $_ := set $values "githubConfigSecretRevision" (include "gha-runner-scale-set.github-secret-revision" .root) }}
{{- $template := dict "common" .root.Values.template "own" .variant.template "at" (printf "variants[%s].template" $name) }}
{{- $_ := set $values "template" (include "gha-runner-scale-set.variant-template" $template | fromJson) }}
{{- toJson $values }}
{{- end }}

{{/*
The pod template of a variant, as docs/scaling.md describes it: a container is merged with the common one of its name by the rules
for the containers of a mode, a volume replaces that of its name, and the rest is as in overlay. Of env the order is the common one,
because $(NAME) in a value means a variable before it. Takes common, own, and at, where own
stands in the values. JSON.
*/}}
{{- define "gha-runner-scale-set.variant-template" -}}
{{- $first := .common | toJson | fromJson }}
{{- $own := .own | default dict }}
{{- $pod := $own.spec | default dict }}
{{- $rest := omit $pod "containers" "initContainers" "volumes" }}
{{- $spec := include "gha-runner-scale-set.overlay" (dict "common" $first.spec "own" $rest) | fromJson }}
{{- range $list := list "containers" "initContainers" "volumes" }}
{{- $entries := list }}
{{- $common := get $spec $list | default list }}
{{- range $entry := get $pod $list | default list }}
{{- range $common }}
{{- if and (eq .name $entry.name) (ne $list "volumes") }}
{{- if and .env $entry.env }}
{{- $key := printf "%s.spec.%s[%s].env" $.at $list .name }}
{{- $lists := (include "gha-runner-scale-set.without-nulls" (dict "own" $entry.env "defaults" .env "key" $key) | fromJson).value }}
{{- $env := (include "gha-runner-scale-set.merge-by-name" $lists | fromJson).items }}
{{- $entry = set (omit $entry "env") "env" $env }}
{{- end }}
{{- $entry = include "gha-runner-scale-set.merge-container" (dict "own" $entry "defaults" .) | fromJson }}
{{- end }}
{{- end }}
{{- $entries = append $entries $entry }}
{{- end }}
{{- if $entries }}
{{- $key := printf "%s.spec.%s" $.at $list }}
{{- $_ := set $spec $list (include "gha-runner-scale-set.merge-by-name" (dict "own" $entries "defaults" $common "key" $key) | fromJson).items }}
{{- end }}
{{- end }}
{{- $metadata := include "gha-runner-scale-set.overlay" (dict "common" $first.metadata "own" $own.metadata) | fromJson }}
{{- dict "metadata" $metadata "spec" $spec | toJson }}
{{- end }}

{{/* common with the fields of own: a map is merged by key, anything else replaces, and null removes. Takes common and own. JSON. */}}
{{- define "gha-runner-scale-set.overlay" -}}
{{- $fields := .common | default dict }}
{{- range $field, $value := .own }}
{{- $common := get $fields $field }}
{{- if and (kindIs "map" $common) (kindIs "map" $value) }}
{{- range $key, $part := $value }}
{{- $_ := set $common $key $part }}
{{- end }}
{{- $value = $common }}
{{- end }}
{{- $_ := set $fields $field $value }}
{{- end }}
{{- toJson $fields }}
{{- end }}

{{/* Names and numbers that can't work, with the name of the variant, and sets that GitHub could confuse. */}}
{{- define "gha-runner-scale-set.validate-variants" -}}
{{- $first := include "gha-runner-scale-set.scale-set-name" . }}
{{- $sets := list (dict "name" $first "labels" (include "gha-runner-scale-set.lower-case" .Values.scaleSetLabels | fromJsonArray)) }}
{{- $names := list }}
{{- range $i, $variant := .Values.variants }}
{{- $name := include "gha-runner-scale-set.scalar" .name }}
{{- $full := printf "%s-%s" $first $name }}
{{- if kindIs "bool" .name }}
{{- fail (printf "variants[%d].name is %s: YAML takes a bare y for true, as it does yes, no, on and off for true or false; write the name in quotes" $i $name) }}
{{- end }}
{{- if not (regexMatch "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" $name) }}
{{- fail (printf "variants[%d].name is %q, but the scale set of a variant is called %s-NAME: use lower-case letters, digits and \"-\", with a letter or digit first and last" $i $name $first) }}
{{- end }}
{{- if gt (len $full) 45 }}
{{- fail (printf "variants[%s]: its scale set would be called %s, which has %d characters of the 45 that a name may have: shorten the variant's name, or set a shorter runnerScaleSetName than %s" $name $full (len $full) $first) }}
{{- end }}
{{- if has $name $names }}
{{- fail (printf "variants has two entries named %s: rename one" $name) }}
{{- end }}
{{- $names = append $names $name }}
{{- $values := include "gha-runner-scale-set.variant-values" (dict "root" $ "variant" .) | fromJson }}
{{- include "gha-runner-scale-set.validate-counts" (dict "values" $values "at" (printf "variants[%s]: " $name)) }}
{{- $sets = append $sets (dict "name" $full "labels" (include "gha-runner-scale-set.lower-case" .scaleSetLabels | fromJsonArray)) }}
{{- end }}
{{- range $set := $sets }}
{{- range $other := $sets }}
{{- if ne $set.name $other.name }}
{{- include "gha-runner-scale-set.validate-distinct" (dict "set" $set "other" $other) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels as GitHub compares them, or people do. Takes scaleSetLabels. JSON. */}}
{{- define "gha-runner-scale-set.lower-case" -}}
{{- $labels := list }}
{{- range . }}
{{- $labels = append $labels (include "gha-runner-scale-set.scalar" . | lower | trim) }}
{{- end }}
{{- toJson ($labels | uniq) }}
{{- end }}

{{/*
A job goes to any set that has all the labels of its runs-on, whatever their order and case, and a set's name is one of its labels. So
each set of a release has to be reached by its name, and by all of its labels if it has any, without another one that matches. Labels that
two sets share besides are a choice between them that a workflow may want. Takes set and other, each with name and labels.
*/}}
{{- define "gha-runner-scale-set.validate-distinct" -}}
{{- if has .set.name .other.labels }}
{{- fail (printf "scale set %s has the name of scale set %s among its scaleSetLabels, so GitHub could give a job with runs-on: %s to either: remove that label" .other.name .set.name .set.name) }}
{{- end }}
{{- $missing := list }}
{{- range .set.labels }}
{{- if not (has . (append $.other.labels $.other.name)) }}
{{- $missing = append $missing . }}
{{- end }}
{{- end }}
{{- if and .set.labels (not $missing) }}
{{- fail (printf "scale set %s has all the scaleSetLabels of scale set %s, so GitHub could give a job with runs-on: [%s] to either: give %s a label that %s doesn't have" .other.name .set.name (join ", " .set.labels) .set.name .other.name) }}
{{- end }}
{{- end }}
