#!/usr/bin/env bash
# release-dry-run.sh [VERSION]: makes a release of the last commit, publishes and signs it with a key in a registry on
# loopback, and does as a user then what docs/verify.md says: verifies, pulls, downloads. It installs the charts from
# there on an API server, and upgrades to them from the release before, and back. What is different from a release on
# GitHub are three things, which are replaced in that page's commands: who signs, the registry's address, and that of the
# downloads. No image runs here: test/upgrade runs the programs of both releases, make e2e the images.
set -euo pipefail
shopt -s nullglob

hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=${1:-$(awk '$1 == "version:" {gsub("\"", "", $2); print $2}' "$hack/../charts/gha-runner-scale-set/Chart.yaml")}
scratch=$(mktemp -d)
server=''
cluster=''
end() {
  [ -z "$server$cluster" ] || kill $server $cluster || true
  wait
  rm -rf "$scratch"
}
trap end EXIT
# Until there is a release before this one, a commit plays it; where the clone is too shallow, its oldest one.
before=ae13a352
git -C "$hack/.." cat-file -e "$before^{commit}" 2>/dev/null || before=$(git -C "$hack/.." rev-list HEAD | tail -n 1)

say() { echo "release-dry-run.sh: $* (${SECONDS} s)" >&2; }
quietly() { "$@" >"$scratch/said" 2>&1 || { cat "$scratch/said" >&2; exit 1; }; }
fail() { echo "release-dry-run.sh: $*" >&2; exit 1; }

# The programs of a user, whatever else is installed.
cosign=$("$hack/tool.sh" --path cosign)
helm=$("$hack/tool.sh" --path helm)
PATH=$(dirname "$cosign"):$(dirname "$helm"):$PATH

say "making release $version of the last commit"
git clone --quiet --no-hardlinks "$hack/.." "$scratch/harrier"
make --no-print-directory -C "$scratch/harrier" release VERSION="$version" >&2
release=$scratch/harrier/dist/release

mkfifo "$scratch/address"
"$scratch/harrier/bin/images" registry "$release" >"$scratch/address" &
server=$!
read -r address <"$scratch/address"
registry=$address/harrier-ci

say "publishing it at $registry"
export COSIGN_PASSWORD=''
(cd "$scratch" && cosign generate-key-pair 2>/dev/null && cosign generate-key-pair --output-key-prefix other 2>/dev/null)
sign="--key $scratch/cosign.key --use-signing-config=false --tlog-upload=false"
make --no-print-directory -C "$scratch/harrier" publish REGISTRY="$registry" SIGN="$sign" >"$scratch/published"
cat "$scratch/published"

# as_a_user KEY: the commands of docs/verify.md for this release, signed with a key.
as_a_user() {
  awk '$0 == "```sh" {block = 1; next} $0 == "```" {block = 0} block' "$hack/../docs/verify.md" |
    sed -E -e "s|^SIGNER=.*|SIGNER=(--key $1 --insecure-ignore-tlog)|" \
      -e '/^make |^kubectl krew /d' -e "s|0\.1\.0|$version|g" -e "s|ghcr\.io/harrier-ci|$registry|g" \
      -e "s|https://github\.com/harrier-ci/harrier/releases/download/v$version|http://$address/downloads|g" \
      -e 's|^helm pull .*|& --plain-http|'
}

say "verifying it as docs/verify.md says"
mkdir "$scratch/user"
as_a_user "$scratch/cosign.pub" >"$scratch/commands"
(cd "$scratch/user" && bash -euo pipefail "$scratch/commands" >"$scratch/output" 2>&1) ||
  { cat "$scratch/output" >&2; fail "the commands of docs/verify.md fail"; }
git -C "$scratch/harrier" rev-parse HEAD | grep -qxf - "$scratch/output" || fail "the provenance doesn't name the commit"
grep -q '^pkg:golang/k8s.io/client-go@' "$scratch/output" || fail "the bill of materials lacks client-go"

say "verifying it with the key of somebody else"
refused=0
while IFS= read -r line; do
  ! (cd "$scratch/user" && bash -euo pipefail -c "$(as_a_user "$scratch/other.pub" | grep -E '^(SIGNER|IMAGE|CHARTS)='); ${line%|}") >/dev/null 2>&1 ||
    fail "taken with the wrong key: $line"
  refused=$((refused + 1))
done < <(grep '^cosign ' "$scratch/commands")
[ "$refused" -ge 8 ] || fail "docs/verify.md has $refused commands of cosign"

say "installing from the registry"
for chart in gha-runner-scale-set-controller gha-runner-scale-set; do
  settings=(--namespace harrier-system --kube-version 1.34.0)
  [ "$chart" != gha-runner-scale-set ] || settings+=(--set 'githubConfigUrl=https://github.com/my-org,githubConfigSecret=a,controllerServiceAccount.name=a,controllerServiceAccount.namespace=b')
  helm template it "oci://$registry/charts/$chart" --version "$version" --plain-http "${settings[@]}" >"$scratch/published.yaml" 2>/dev/null
  helm template it "$release/$chart-$version.tgz" "${settings[@]}" >"$scratch/made.yaml"
  cmp "$scratch/published.yaml" "$scratch/made.yaml"
done
cmp "$scratch"/user/gha-runner-scale-set*.tgz "$release/gha-runner-scale-set-$version.tgz"

say "installing it on an API server, and upgrading from the release before, which commit $before plays, and back"
export HARRIER_KUBERNETES
HARRIER_KUBERNETES=$("$hack/kubernetes.sh")
go build -C "$scratch/harrier" -o "$scratch/apiserver" ./test/apiserver
mkfifo "$scratch/kubeconfig"
"$scratch/apiserver" >"$scratch/kubeconfig" &
cluster=$!
read -r KUBECONFIG <"$scratch/kubeconfig" || fail "the API server doesn't start"
export KUBECONFIG

# charts COMMAND PREFIX [OPTION…]: installs or upgrades both charts.
charts() {
  quietly helm "$1" harrier "$2gha-runner-scale-set-controller" --namespace harrier-system "${@:3}"
  quietly helm "$1" my-runners "$2gha-runner-scale-set" --namespace my-runners \
    --set githubConfigUrl=https://github.com/my-org,githubConfigSecret.github_token=a "${@:3}"
}
# runs VERSION: the manager that is installed has an image of a version.
runs() {
  local image
  image=$("$HARRIER_KUBERNETES/kubectl" --namespace harrier-system get deployment harrier-gha-rs-controller \
    --output 'jsonpath={.spec.template.spec.containers[0].image}')
  [ "$image" = "ghcr.io/harrier-ci/gha-runner-scale-set-controller:$1" ] || fail "the image is $image, want version $1"
}
published=("oci://$registry/charts/" --version "$version" --plain-http)
charts install "${published[@]}" --create-namespace
runs "$version"
quietly helm uninstall my-runners --namespace my-runners
quietly helm uninstall harrier --namespace harrier-system --no-hooks # its check needs a node

git -C "$scratch/harrier" archive "$before" charts | tar --extract --directory "$scratch"
charts install "$scratch/charts/"
charts upgrade "${published[@]}" --reset-then-reuse-values
runs "$version"
quietly helm rollback my-runners 1 --namespace my-runners
quietly helm rollback harrier 1 --namespace harrier-system
runs "$(awk '$1 == "appVersion:" {gsub("\"", "", $2); print $2}' "$scratch/charts/gha-runner-scale-set-controller/Chart.yaml")"
charts upgrade "${published[@]}" --reset-then-reuse-values
runs "$version"

say "following krew's manifest"
awk '$1 == "uri:" {uri = $2} $1 == "sha256:" {print $2, uri}' "$release/harrier.krew.yaml" >"$scratch/plugins"
archives=("$release"/kubectl-harrier-*-*-*.{tar.gz,zip})
[ "$(wc -l <"$scratch/plugins")" = "${#archives[@]}" ] || fail "krew's manifest has another number of platforms than there are archives"
while read -r sum uri; do
  curl --fail --silent --show-error "http://$address/downloads/${uri##*/releases/download/v"$version"/}" | sha256sum | grep -q "^$sum " ||
    fail "$uri isn't what krew's manifest says"
done <"$scratch/plugins"
say "release $version can be published, verified and installed"
