#!/usr/bin/env bash
# release-twice.sh [VERSION]: makes a release twice, from two clones of the last commit in different places, and compares
# every byte. Images are linked anew for each; packages that Go has compiled before are not compiled again.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
version=${1:-$(awk '$1 == "version:" {gsub("\"", "", $2); print $2}' "$root/charts/gha-runner-scale-set/Chart.yaml")}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for place in first second/place; do
  git clone --quiet --no-hardlinks "$root" "$scratch/$place/harrier"
  echo "release-twice.sh: building in $scratch/$place" >&2
  HARRIER_CACHE="$scratch/$place/cache" make --no-print-directory -C "$scratch/$place/harrier" release VERSION="$version" >&2
done
diff --recursive --brief "$scratch/first/harrier/dist/release" "$scratch/second/place/harrier/dist/release"
cat "$scratch/first/harrier/dist/release/SHA256SUMS"
echo "release-twice.sh: both releases have the same bytes" >&2
