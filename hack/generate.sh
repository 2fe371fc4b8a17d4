#!/usr/bin/env bash
# generate.sh: writes all generated files. From the API types it writes deep copies, CustomResourceDefinitions and the
# copies of these in the controller's chart; from kinds, flags, metrics and the charts' values it writes the reference
# in docs/. `make lint` runs it and fails if that changes a file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/tool.sh controller-gen object paths=./apis/...
hack/tool.sh controller-gen crd:generateEmbeddedObjectMeta=true,allowDangerousTypes=true paths=./apis/... output:crd:dir=apis/crds
go run ./hack/crds apis/crds
charts/sync-crds.sh
go run ./hack/reference
go run ./hack/valuesdoc
go run ./hack/metricsdoc >docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md
