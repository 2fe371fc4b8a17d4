#!/bin/sh
# Counts the files from a new runner's first pass to the creation of its pod: those with a block that only
# TestPathToThePod runs, and not its fixture alone. The pool, the credentials, the list of metrics and test support don't
# count: one knows them, and doesn't read them again for each subject.
#
#   hack/shape/path.sh [MOST]    fails if there are more than MOST files
set -eu
cd "$(dirname "$0")/../.."
covered=$(mktemp -d)
trap 'rm -rf "$covered"' EXIT
package=./internal/controller/ephemeralrunner
ours=$(go list -deps -test "$package" | grep '^github.com/harrier-ci/harrier/internal/[^ .]*$' |
	grep -vE '/internal/(pool|credentials|setmetrics|fakegithub|testkube|controller/controllertest)(/|$)' | paste -sd, -)
go test -c -covermode=set -coverpkg="$ours" -o "$covered/tests" "$package" 2>"$covered/output" || { cat "$covered/output" >&2; exit 1; }
for name in ThePod APass; do
	(cd "$package" && "$covered/tests" -test.run "^TestPath(To|Without)$name\$" -test.coverprofile="$covered/$name" >"$covered/output") ||
		{ cat "$covered/output" >&2; exit 1; }
	sed -n 's/ [0-9]* 1$//p' "$covered/$name" | sort -u >"$covered/$name.blocks"
done
comm -23 "$covered/ThePod.blocks" "$covered/APass.blocks" | cut -d: -f1 | uniq -c | sed 's#github.com/harrier-ci/harrier/##' >"$covered/files"
cat "$covered/files"
count=$(wc -l <"$covered/files")
echo "$count files from a new runner's first pass to its pod"
test "$count" -le "${1:-$count}"
