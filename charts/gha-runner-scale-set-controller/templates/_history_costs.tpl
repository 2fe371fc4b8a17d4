{{/*
What jobs cost, and may cost, as flags of the ledger. What the schema can't say is refused here, with its path: a ledger that refuses
its own flags would not start.
*/}}

{{/* The flags, a line each. */}}
{{- define "gha-runner-scale-set-controller.history-costs" -}}
{{- $history := .Values.history | default dict }}
{{- $prices := $history.prices }}
{{- if kindIs "slice" $prices }}
{{- with include "gha-runner-scale-set-controller.history-prices" . | fromJsonArray }}
- {{ printf "--prices=%s" (toJson .) | quote }}
{{- end }}
{{- else }}
{{- with ($prices | default dict).cpuHour }}
- --price-cpu-hour={{ . }}
{{- end }}
{{- with ($prices | default dict).gibHour }}
- --price-gib-hour={{ . }}
{{- end }}
{{- end }}
{{- with include "gha-runner-scale-set-controller.history-budgets" . | fromJsonArray }}
- {{ printf "--budgets=%s" (toJson .) | quote }}
{{- end }}
{{- end }}

{{/* The rules of history.prices with numbers as numbers: --set makes texts of them. JSON. */}}
{{- define "gha-runner-scale-set-controller.history-prices" -}}
{{- $rules := list }}
{{- $watched := include "gha-runner-scale-set-controller.watched-namespace" . }}
{{- $nodes := and (not $watched) (include "gha-runner-scale-set-controller.is-on" (dict "values" .Values.rbac "key" "clusterRoles")) }}
{{- range $i, $given := .Values.history.prices }}
{{- $path := printf "history.prices[%d]" $i }}
{{- $rule := dict }}
{{- range $key := list "cpuHour" "gibHour" }}
{{- with get $given $key }}
{{- $_ := set $rule $key (float64 .) }}
{{- end }}
{{- end }}
{{- range $name, $price := $given.resourceHours | default dict }}
{{- if not (kindIs "invalid" $price) }}
{{- if regexMatch "^([^/]*\\.)?kubernetes\\.io/" $name }}
{{- fail (printf "%s.resourceHours has %s: it must be an extended resource, such as nvidia.com/gpu" $path $name) }}
{{- end }}
{{- $_ := set $rule "resourceHours" (set (get $rule "resourceHours" | default dict) $name (float64 $price)) }}
{{- end }}
{{- end }}
{{- if not $rule }}
{{- fail (printf "%s has no price: set cpuHour, gibHour or resourceHours" $path) }}
{{- end }}
{{- with (include "gha-runner-scale-set-controller.without-nulls" ($given.nodeLabels | default dict) | fromJson).value }}
{{- if not $nodes }}
{{- fail (printf "%s.nodeLabels asks for labels of nodes, which the ledger can't read without cluster-wide rights (rbac.clusterRoles is false, or flags.watchSingleNamespace is set): set prices without nodeLabels" $path) }}
{{- end }}
{{- $_ := set $rule "nodeLabels" . }}
{{- end }}
{{- $rules = append $rules $rule }}
{{- end }}
{{- toJson $rules }}
{{- end }}

{{/* The budgets of history.budgets. JSON. */}}
{{- define "gha-runner-scale-set-controller.history-budgets" -}}
{{- $history := .Values.history | default dict }}
{{- $prices := $history.prices }}
{{- $priced := not (empty $prices) }}
{{- if kindIs "map" $prices }}
{{- $priced = or $prices.cpuHour $prices.gibHour }}
{{- end }}
{{- $budgets := list }}
{{- $known := dict }}
{{- range $i, $given := $history.budgets | default list }}
{{- $path := printf "history.budgets[%d]" $i }}
{{- if eq (empty $given.repository) (empty $given.namespace) }}
{{- fail (printf "%s must have either repository or namespace" $path) }}
{{- end }}
{{- if le (float64 $given.perMonth) 0.0 }}
{{- fail (printf "%s.perMonth must be more than 0" $path) }}
{{- end }}
{{- $of := printf "%s %s" ($given.repository | default "") ($given.namespace | default "") }}
{{- if hasKey $known $of }}
{{- fail (printf "%s is the second budget of %s" $path (trim $of)) }}
{{- end }}
{{- $_ := set $known $of true }}
{{- $budget := dict "perMonth" (float64 $given.perMonth) }}
{{- range $key := list "repository" "namespace" }}
{{- with get $given $key }}
{{- $_ := set $budget $key . }}
{{- end }}
{{- end }}
{{- $budgets = append $budgets $budget }}
{{- end }}
{{- if and $budgets (not $priced) }}
{{- fail "history.budgets needs history.prices: without prices nothing is spent" }}
{{- end }}
{{- toJson $budgets }}
{{- end }}
