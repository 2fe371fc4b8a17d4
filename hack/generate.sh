#!/usr/bin/env bash
# generate.sh: writes everything that is generated from the API types: deep copies, CustomResourceDefinitions, and their
# copies in the controller's chart. CI runs it and fails when the tree changes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

controller_gen() { go tool -modfile=hack/tools/go.mod controller-gen "$@"; }

controller_gen object paths=./apis/...
controller_gen crd:generateEmbeddedObjectMeta=true,allowDangerousTypes=true paths=./apis/... output:crd:dir=apis/crds
go run ./hack/crds apis/crds
charts/sync-crds.sh
