#!/usr/bin/env bash
# Turns the CRDs that controller-gen wrote into templates of the controller chart. `make generate` calls it.
#
#   charts/sync-crds.sh [directory of the generated CRDs, default apis/crds]
#
# CRDs are templates rather than files in the chart's crds/ because Helm installs those once and never upgrades them.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source_directory=${1:-$root/apis/crds}
target_directory=$root/charts/gha-runner-scale-set-controller/templates/crds

# template_from FILE writes the CRD of FILE with the chart's conditions around it. Descriptions may hold "{{", which
# Helm would otherwise evaluate.
template_from() {
  sed 's/{{/{{ "{{" }}/g' "$1" | awk '
    BEGIN { print "{{- if include \"gha-runner-scale-set-controller.has-crds\" . }}" }
    $0 == "---" { next }
    { print }
    $0 == "  annotations:" && !annotated {
      print "    {{- if include \"gha-runner-scale-set-controller.is-on\" (dict \"values\" .Values.crds \"key\" \"keep\") }}"
      print "    helm.sh/resource-policy: keep"
      print "    {{- end }}"
      annotated = 1
    }
    END {
      print "{{- end }}"
      if (!annotated) exit 1
    }'
}

shopt -s nullglob
sources=("$source_directory"/actions.github.com_*.yaml)
if [ ${#sources[@]} -eq 0 ]; then
  echo "sync-crds: no actions.github.com_*.yaml in $source_directory; run controller-gen first" >&2
  exit 1
fi

mkdir -p "$target_directory"
rm -f "$target_directory"/actions.github.com_*.yaml
for source in "${sources[@]}"; do
  target=$target_directory/$(basename "$source")
  template_from "$source" >"$target" || {
    rm -f "$target"
    echo "sync-crds: $source has no metadata.annotations to add to" >&2
    exit 1
  }
done
