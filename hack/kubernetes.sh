#!/usr/bin/env bash
# kubernetes.sh: builds the binary (hack/kubernetes) that contains the programs of a test cluster, and helm, and prints
# the directory with both and a link for each program of the first: etcd, etcdctl, etcdutl, kube-apiserver,
# kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl. The directory can serve as KUBEBUILDER_ASSETS,
# too.
#
#   export PATH="$(hack/kubernetes.sh):$PATH"
#
# With KUBERNETES=oldest it builds the oldest Kubernetes that is supported (hack/kubernetes-oldest) instead of the
# newest, beside the same helm.
#
# The directory is in HARRIER_CACHE, else XDG_CACHE_HOME/harrier, else ~/.cache/harrier. Its name depends on everything
# that goes into the binaries, so that a clean clone finds what another one has built. Versions are pinned only in the
# go.mod of either.
set -euo pipefail

hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case "${KUBERNETES:-newest}" in
newest) source_dir=$hack/kubernetes ;;
oldest) source_dir=$hack/kubernetes-oldest ;;
*) echo "kubernetes.sh: KUBERNETES is newest or oldest, not $KUBERNETES" >&2; exit 2 ;;
esac
programs=(etcd etcdctl etcdutl kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl)

say() { echo "kubernetes.sh: $*" >&2; }
fail() { say "$@"; exit 1; }

command -v go >/dev/null || fail "Go is not installed or not on PATH; install Go $(awk '$1 == "go" {print $2}' "$source_dir/go.mod") or newer"
command -v flock >/dev/null || fail "flock is missing; install the package util-linux"
[ -n "${HARRIER_CACHE:-${XDG_CACHE_HOME:-${HOME:-}}}" ] || fail "no directory for the result: set HARRIER_CACHE or HOME"
cache=${HARRIER_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/harrier}

# The flags are the same everywhere, because with others Go would compile all of Kubernetes a second time.
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOWORK=off
cd "$source_dir"
# Inside of the module, so that Go itself fails if it is older than go.mod requires and can't fetch a newer one.
go_version=$(go version) || fail "this Go can't build $source_dir; install Go $(awk '$1 == "go" {print $2}' go.mod) or newer"
version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ {print $2}' go.mod)
minor=${version#v1.}
package=k8s.io/component-base/version
ldflags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
ldflags+=" -X $package.gitTreeState=clean -X $package.gitCommit=proxy"

helm=
[ "$source_dir" = "$hack/kubernetes" ] || helm=$(KUBERNETES=newest "$hack/kubernetes.sh")/helm
hash=$( { cat ./*.go go.mod go.sum; [ -n "$helm" ] || cat helm/main.go; echo "$go_version $ldflags ${programs[*]} $helm"; } | sha256sum | cut -c 1-16)
result=$cache/kubernetes-$hash
finished() { [ -x "$result/kubernetes" ] && [ -x "$result/helm" ]; }

# await_lock: lets one build run at a time. It tells the user about the wait, after which the other's result can be
# used.
await_lock() {
  exec 9>"$cache/kubernetes.lock"
  until flock -w "${HARRIER_PROGRESS_SECONDS:-5}" 9; do
    say "waiting for another build, ${SECONDS} s so far"
  done
}

if ! finished; then
  mkdir -p "$cache" || fail "can't write to $cache; set HARRIER_CACHE to a directory that you can write to"
  await_lock
  if ! finished; then
    scratch=$(mktemp -d "$cache/.kubernetes-XXXXXX")
    compiler=
    trap '[ -z "$compiler" ] || kill "$compiler" 2>/dev/null || true; rm -rf "$scratch"' EXIT
    # In the background, so that a signal ends the script immediately, and without the lock, which must not outlive it.
    packages=(. ./helm)
    [ -z "$helm" ] || packages=(.)
    "$hack/build.sh" "Kubernetes $version (6 to 9 min the first time on two cores)" "$scratch/" -ldflags "$ldflags" "${packages[@]}" 9>&- &
    compiler=$!
    wait "$compiler" || exit 1
    compiler=
    if [ -n "$helm" ]; then
      mv "$scratch/kubernetes-oldest" "$scratch/kubernetes"
      ln -s "$helm" "$scratch/helm"
    fi
    for program in "${programs[@]}"; do ln -s kubernetes "$scratch/$program"; done
    chmod 755 "$scratch"
    mv -T "$scratch" "$result"
    trap - EXIT
    say "built $result in ${SECONDS} s"
  fi
fi
echo "$result"
