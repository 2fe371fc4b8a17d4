#!/usr/bin/env bash
# csi.sh: builds the programs of a CSI stack, and prints the directory with them: csi-provisioner, csi-snapshotter,
# snapshot-controller, the tests' own driver (hack/csi), and in manifests/ the kinds of snapshots and the driver's object. hack/cluster runs them
# beside the kubelet.
#
# Each program is built as its own main module, in a copy of what the Go module proxy has of it: its replacements count
# only there. hack/csi/modules.txt pins versions and checksums; the programs' own go.sum pin the rest.
#
# The directory is kept beside that of hack/kubernetes.sh, under a name that depends on all that goes into it.
set -euo pipefail

hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
say() { echo "csi.sh: $*" >&2; }
fail() { say "$@"; exit 1; }
[ -n "${HARRIER_CACHE:-${XDG_CACHE_HOME:-${HOME:-}}}" ] || fail "no directory for the result: set HARRIER_CACHE or HOME"
cache=${HARRIER_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/harrier}

export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOWORK=off
cd "$hack/csi"
hash=$( { cat ./*.go driver.yaml go.mod go.sum modules.txt ../csi.sh; go version; } | sha256sum | cut -c 1-16)
result=$cache/csi-$hash

# copy MODULE DIRECTORY: copies a module that modules.txt pins.
copy() {
  local version sum got
  read -r version sum < <(awk -v module="$1" '$1 == module {print $2, $3}' modules.txt)
  got=$(go mod download -json "$1@$version") || fail "$1@$version can't be downloaded: $got"
  [ "$(sed -n 's/^\t"Sum": "\(.*\)",\?$/\1/p' <<<"$got")" = "$sum" ] || fail "$1@$version isn't what modules.txt says"
  mkdir -p "$2"
  cp -r "$(sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p' <<<"$got")/." "$2"
  chmod -R u+w "$2"
}

# build DIRECTORY OUTPUT PACKAGE…
build() {
  local directory=$1 output=$2
  shift 2
  (cd "$directory" && "$hack/build.sh" "$(basename "$directory") (1 to 2 min the first time on two cores)" "$output" -ldflags "-s -w" "$@" 9>&-)
}

if [ ! -d "$result" ]; then
  mkdir -p "$cache" || fail "can't write to $cache; set HARRIER_CACHE to a directory that you can write to"
  exec 9>"$cache/csi.lock"
  until flock -w "${HARRIER_PROGRESS_SECONDS:-5}" 9; do say "waiting for another build, ${SECONDS} s so far"; done
fi
if [ ! -d "$result" ]; then
  scratch=$(mktemp -d "$cache/.csi-XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  mkdir "$scratch/result"
  copy github.com/kubernetes-csi/external-provisioner/v6 "$scratch/external-provisioner"
  copy github.com/kubernetes-csi/external-snapshotter/v8 "$scratch/external-snapshotter"
  # Its go.mod has it there; the proxy has it as a module of its own.
  copy github.com/kubernetes-csi/external-snapshotter/client/v8 "$scratch/external-snapshotter/client"
  build "$scratch/external-snapshotter" "$scratch/result/" ./cmd/snapshot-controller ./cmd/csi-snapshotter
  build "$scratch/external-provisioner" "$scratch/result/" ./cmd/csi-provisioner
  build "$hack/csi" "$scratch/result/folders" .
  mkdir "$scratch/result/manifests"
  cp "$scratch"/external-snapshotter/client/config/crd/snapshot.storage.k8s.io_*.yaml driver.yaml "$scratch/result/manifests"
  chmod 755 "$scratch/result"
  mv -T "$scratch/result" "$result"
  say "built $result in ${SECONDS} s"
fi
echo "$result"
