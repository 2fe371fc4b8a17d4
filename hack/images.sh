#!/usr/bin/env bash
# images.sh ARGUMENT…: compiles the builder of images (hack/images), which is a module of its own, and runs it in the
# project's root.
set -euo pipefail

hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
(cd "$hack/images" && CGO_ENABLED=0 GOFLAGS='' GOWORK=off ../build.sh 'the builder of images' ../../bin/images -trimpath -buildvcs=false .)
cd "$hack/.."
exec bin/images "$@"
