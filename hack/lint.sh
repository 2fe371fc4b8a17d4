#!/usr/bin/env bash
# lint.sh: checks everything that can be checked without running the product. It says what is wrong and does not change
# the tree, except that it updates, and names, generated files that were out of date. Its arguments are patterns of all
# packages of the workspace.
# shellcheck disable=SC2317 # the functions are called by check
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=0
# A function that is checked ends its steps with `|| return`: bash ignores set -e inside of it.
check() { # check NAME COMMAND…
  local name=$1
  shift
  echo "lint: $name"
  "$@" || { echo "lint: $name failed" >&2; failed=1; }
}

# generated: prints checksums of the generated files, whether these are committed or not.
generated() { find apis charts docs -name '*.go' -o -path '*/crds/*.yaml' -o -name 'values-*.md' -o -path docs/crds.md -o -path docs/flags.md -o -path docs/reasons.md -o -path docs/causes.md -o -name metrics.md | sort | xargs sha256sum; }
generated_is_current() {
  local before
  before=$(generated)
  hack/generate.sh || return 1
  diff <(echo "$before") <(generated) || { echo "these generated files were out of date and have been updated: commit them" >&2; return 1; }
}

modules_are_tidy() {
  local module
  for module in $(git ls-files '*go.mod' | xargs dirname); do
    GOWORK=off go -C "$module" mod tidy -diff || { echo "run: go -C $module mod tidy" >&2; return 1; }
  done
}

scripts_are_sound() {
  command -v shellcheck >/dev/null || { echo "shellcheck is missing: apt-get install shellcheck" >&2; return 1; }
  git ls-files -z '*.sh' .ci/run .ci/packages | xargs -0 shellcheck
}

charts_are_sound() {
  local binaries
  binaries=$(hack/kubernetes.sh) || return 1
  "$binaries/helm" lint --quiet charts/gha-runner-scale-set-controller || return 1
  "$binaries/helm" lint --quiet charts/gha-runner-scale-set \
    --set githubConfigUrl=https://github.com/my-org --set githubConfigSecret=my-secret \
    --set controllerServiceAccount.name=controller --set controllerServiceAccount.namespace=harrier
}

# make test runs the same tests with the newest types.
renders_suit_oldest_kubernetes() {
  GOWORK=off go -C test test -modfile=charts/apitypes/kubernetes-1.30.mod ./charts/apitypes
}

tests_in_a_browser() { (cd hack/browser && GOWORK=off ../tool.sh golangci-lint run ./...); }
driver_of_tests() { (cd hack/csi && GOWORK=off ../tool.sh golangci-lint run ./...); }
builder_of_images() { (cd hack/images && GOWORK=off ../tool.sh golangci-lint run ./...); }

# It prints each package's figures, which nobody needs who is within the limits, and warnings, which fail nothing.
packages_keep_their_shape() { go run ./hack/shape >/dev/null && hack/shape/path.sh 12; }

check "generated files are current" generated_is_current
check "modules are tidy" modules_are_tidy
check "scripts" scripts_are_sound
check "shape of packages" packages_keep_their_shape
check "charts" charts_are_sound
check "fields of rendered objects are known to Kubernetes 1.30" renders_suit_oldest_kubernetes
check "Go" hack/tool.sh golangci-lint run "$@"
check "Go of the builder of images" builder_of_images
check "Go of the tests' CSI driver" driver_of_tests
check "Go of the tests in a browser" tests_in_a_browser
exit "$failed"
