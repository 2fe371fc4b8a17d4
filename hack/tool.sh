#!/usr/bin/env bash
# tool.sh NAME ARGUMENT…: runs a program that hack/NAME pins, hack/helm3 if NAME is helm, or else hack/tools. The program
# is built a single time and kept outside of the tree, in a directory whose name depends on the pins, because the linter
# and cosign take minutes to compile and `go tool` would link them again for every clone. Its pins are no part of the
# workspace. tool.sh --path NAME: prints where the program is, for callers that run it many times.
set -euo pipefail

path_only=false
[ "$1" != --path ] || { path_only=true; shift; }
name=$1
shift
hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=$hack/tools
[ ! -e "$hack/$name/go.mod" ] || tools=$hack/$name
[ "$name" != helm ] || tools=$hack/helm3
package=$(cd "$tools" && GOWORK=off go list -f '{{.ImportPath}}' tool | grep -E "/$name(/v[0-9]+)?\$") ||
  { echo "tool.sh: there is no program named $name in $tools/go.mod" >&2; exit 1; }
hash=$( { cat "$tools/go.mod" "$tools/go.sum"; go version; } | sha256sum | cut -c 1-16)
cache=${HARRIER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/harrier}/tools-$hash

if [ ! -x "$cache/$name" ]; then
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/build.XXXXXX")
  (cd "$tools" && CGO_ENABLED=0 GOWORK=off "$hack/build.sh" "$name" "$scratch/$name" -trimpath "$package") || { rm -rf "$scratch"; exit 1; }
  mv "$scratch/$name" "$cache/$name"
  rmdir "$scratch"
fi
! "$path_only" || { echo "$cache/$name"; exit 0; }
exec "$cache/$name" "$@"
