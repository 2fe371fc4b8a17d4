#!/usr/bin/env bash
# Builds the one binary every test cluster is made of (hack/kubernetes) and prints the directory that holds it and
# its links: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl, helm.
# The directory serves as KUBEBUILDER_ASSETS too.
#
#   export PATH="$(hack/kubernetes.sh):$PATH"
#
# The result lives outside of the tree, under a name made from everything that goes into it, so that a clean clone finds
# what another one built: HARRIER_CACHE, else XDG_CACHE_HOME/harrier, else ~/.cache/harrier. Versions are pinned in
# hack/kubernetes/go.mod and nowhere else.
set -euo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/kubernetes" && pwd)
programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl helm)
progress_seconds=10

say() { echo "kubernetes.sh: $*" >&2; }
fail() { say "$@"; exit 1; }

command -v go >/dev/null || fail "Go is not installed or not on PATH; install Go $(awk '$1 == "go" {print $2}' "$source_dir/go.mod") or newer"
command -v flock >/dev/null || fail "flock is missing; install the package util-linux"
[ -n "${HARRIER_CACHE:-${XDG_CACHE_HOME:-${HOME:-}}}" ] || fail "no place for the result: set HARRIER_CACHE or HOME"
cache=${HARRIER_CACHE:-${XDG_CACHE_HOME:-${HOME:-}/.cache}/harrier}

# The same flags everywhere: with others Go compiles all of Kubernetes a second time.
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" GOWORK=off
cd "$source_dir"
# Asked inside of the module, Go itself refuses when it is older than go.mod wants and can't fetch what it needs.
go_version=$(go version) || fail "this Go can't build hack/kubernetes; install Go $(awk '$1 == "go" {print $2}' go.mod) or newer"
version=$(awk '$1 == "k8s.io/kubernetes" && $2 ~ /^v/ {print $2}' go.mod)
minor=${version#v1.}
package=k8s.io/component-base/version
ldflags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%%.*}"
ldflags+=" -X $package.gitTreeState=clean -X $package.gitCommit=proxy"

hash=$( { cat main.go go.mod go.sum; echo "$go_version $ldflags ${programs[*]}"; } | sha256sum | cut -c 1-16)
result=$cache/kubernetes-$hash
finished() { [ -x "$result/kubernetes" ]; }

# await_lock: one build at a time; whoever waits is told so and finds the other's result.
await_lock() {
  exec 9>"$cache/kubernetes.lock"
  until flock -w "$progress_seconds" 9; do
    say "waiting for another build, ${SECONDS} s so far"
  done
}

# build DIR: compiles into DIR, with a line of progress every few seconds.
build() {
  go build -ldflags "$ldflags" -o "$1/kubernetes" . >"$1/build.log" 2>&1 9>&- &
  compiler=$!
  local next=$progress_seconds
  while kill -0 "$compiler" 2>/dev/null; do
    if ((SECONDS >= next)); then
      say "building Kubernetes $version, ${SECONDS} s elapsed (6 to 9 min the first time on two cores)"
      next=$((SECONDS + progress_seconds))
    fi
    sleep 0.2
  done
  wait "$compiler" || { tail -n 30 "$1/build.log" >&2; fail "go build failed in $source_dir, see above"; }
}

if ! finished; then
  mkdir -p "$cache" || fail "can't write to $cache; set HARRIER_CACHE to a directory of yours"
  await_lock
  if ! finished; then
    scratch=$(mktemp -d "$cache/.kubernetes-XXXXXX")
    compiler=
    trap '[ -z "$compiler" ] || kill "$compiler" 2>/dev/null; rm -rf "$scratch"' EXIT
    build "$scratch"
    for program in "${programs[@]}"; do ln -s kubernetes "$scratch/$program"; done
    rm "$scratch/build.log"
    chmod 755 "$scratch"
    mv -T "$scratch" "$result"
    trap - EXIT
    say "built $result in ${SECONDS} s"
  fi
fi
echo "$result"
