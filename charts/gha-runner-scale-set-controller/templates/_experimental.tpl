{{/*
Values of actions-runner-controller's experimental chart, of which no other template reads one, are refused with the key that
replaces each. Keys that are empty, as in a copy of that chart's values.yaml, aren't listed.
*/}}
{{- define "gha-runner-scale-set-controller.validate-experimental" -}}
{{- $sections := dict }}
{{- $lines := list }}
{{- range $path, $instead := .Files.Get "experimental-keys.yaml" | fromYaml }}
{{- $value := $.Values }}
{{- range $i, $key := splitList "." $path }}
{{- if not (and (kindIs "map" $value) (hasKey $value $key)) }}
{{- $value = "" }}
{{- else }}
{{- $value = get $value $key }}
{{- if eq $i 0 }}
{{- $_ := set $sections $key true }}
{{- end }}
{{- end }}
{{- end }}
{{- if or $value (kindIs "bool" $value) (kindIs "float64" $value) (kindIs "int64" $value) }}
{{- $lines = append $lines (printf "\n  %s -> %s" $path $instead) }}
{{- end }}
{{- end }}
{{- if $sections }}
{{- $next := $lines | empty | ternary "remove them" (printf "write instead:%s" (join "" $lines)) }}
{{- fail (printf "%s: values of actions-runner-controller's chart gha-runner-scale-set-controller-experimental, which this chart doesn't have (docs/from-arc-experimental.md); %s" (keys $sections | sortAlpha | join ", ") $next) }}
{{- end }}
{{- end }}
