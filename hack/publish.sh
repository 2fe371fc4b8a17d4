#!/usr/bin/env bash
# publish.sh DIRECTORY REGISTRY [OPTION…]: pushes the image and the charts of a release, as `make release` wrote it into
# a directory, to a registry such as ghcr.io/harrier-ci, and has cosign sign what it has pushed and attach where it
# comes from and what it is made of. Beside the files it writes the signature of their checksums, and their provenance.
# Nothing is built here: what is published are the bytes that were checked.
#
# Options are cosign's, and say who signs: --key cosign.key. Without any, cosign signs as the workflow that it runs in,
# or asks a person to log in.
set -euo pipefail

hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
directory=$(realpath "$1") registry=$2
shift 2
signer=(--yes "$@")
cosign=$("$hack/tool.sh" --path cosign)
plain=()
case $registry in localhost:* | 127.*) plain=(--plain-http) ;; esac

# sign NAME@DIGEST: signs an artefact and says how it was made.
sign() {
  "$cosign" sign "${signer[@]}" "$1" >&2
  "$cosign" attest "${signer[@]}" --type slsaprovenance1 --predicate "$directory/provenance.json" "$1" >&2
}

image=$("$hack/images.sh" publish "$directory" "$registry")
sign "$image"
materials=("$directory"/image-*.cdx.json)
"$cosign" attest "${signer[@]}" --type cyclonedx --predicate "${materials[0]}" "$image" >&2
echo "$image"

for chart in "$directory"/*.tgz; do
  # Helm writes the time of the file, in the machine's time zone, into the manifest, whose digest depends on it.
  touch --date @0 "$chart"
  pushed=$(TZ=UTC "$hack/tool.sh" helm push "$chart" "oci://$registry/charts" "${plain[@]}" 2>&1) || { echo "$pushed" >&2; exit 1; }
  name=$(sed -n 's/^Pushed: //p' <<<"$pushed") digest=$(sed -n 's/^Digest: //p' <<<"$pushed")
  sign "${name%:*}@$digest"
  echo "${name%:*}@$digest"
done

cd "$directory"
"$cosign" sign-blob "${signer[@]}" --bundle SHA256SUMS.sigstore.json SHA256SUMS >&2
"$cosign" attest-blob "${signer[@]}" --type slsaprovenance1 --predicate provenance.json \
  --bundle provenance.sigstore.json SHA256SUMS >&2
