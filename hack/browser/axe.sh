#!/usr/bin/env bash
# axe.sh: prints where axe-core's script is, which finds what keeps people from using a page. It is fetched a single
# time, with npm, and kept outside of the tree.
set -euo pipefail

version=4.14.1
sum=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
cache=${HARRIER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/harrier}/axe-core-$version

if [ ! -f "$cache/axe.min.js" ]; then
  command -v npm >/dev/null || { echo "npm is missing, which fetches axe-core: apt-get install npm" >&2; exit 1; }
  mkdir -p "$cache"
  scratch=$(mktemp -d "$cache/fetch.XXXXXX")
  trap 'rm -rf "$scratch"' EXIT
  (cd "$scratch" && npm pack --silent "axe-core@$version" >/dev/null)
  echo "$sum  $scratch/axe-core-$version.tgz" | sha256sum --check --quiet >&2
  tar --extract --gzip --file "$scratch/axe-core-$version.tgz" --directory "$scratch" package/axe.min.js
  mv "$scratch/package/axe.min.js" "$cache/axe.min.js"
fi
echo "$cache/axe.min.js"
