#!/usr/bin/env bash
# generate.sh: writes everything that is generated: from the API types deep copies, CustomResourceDefinitions and their
# copies in the controller's chart; from kinds, flags, the charts' values and metrics their reference in docs/. `make lint`
# runs it and fails where the tree changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/tool.sh controller-gen object paths=./apis/...
hack/tool.sh controller-gen crd:generateEmbeddedObjectMeta=true,allowDangerousTypes=true paths=./apis/... output:crd:dir=apis/crds
go run ./hack/crds apis/crds
charts/sync-crds.sh
go run ./hack/reference
go run ./hack/valuesdoc
go run ./hack/metricsdoc >docs/metrics.md.new && mv docs/metrics.md.new docs/metrics.md
