#!/usr/bin/env bash
# build.sh NAME OUTPUT ARGUMENT…: runs `go build -o OUTPUT ARGUMENT…` in the current directory and says on stderr how
# far it is, so that nobody has to wonder about minutes of silence. NAME says what is built, in words for the user. What
# Go has in its cache is not compiled again and not counted. On a terminal it redraws one line; elsewhere it prints a
# line every HARRIER_PROGRESS_SECONDS (5).
#
# hack/kubernetes.sh, hack/tool.sh, hack/images and the Makefile build with it.
set -euo pipefail

name=$1 output=$2
shift 2
every=${HARRIER_PROGRESS_SECONDS:-5}
log=$(mktemp)
running=
trap '[ -z "$running" ] || kill "$running" 2>/dev/null || true; rm -f "$log" "$log.stale"' EXIT
trap 'exit 130' INT TERM

# say TEXT: redraws the line, or prints one if the last is long enough ago.
next=$every
drawn=false
say() {
  if [ -t 2 ]; then
    printf '\r\e[K%s' "$1" >&2
    drawn=true
  elif ((SECONDS >= next)); then
    echo "$1" >&2
    next=$((SECONDS + every))
  fi
}
erase() { ! "$drawn" || printf '\r\e[K' >&2; }

# watch STATE COMMAND…: runs a command, with its stderr in the log, and says every 0.2 s what STATE prints. If the
# command fails, this script does.
watch() {
  local state=$1
  shift
  "$@" 2>>"$log" &
  running=$!
  while kill -0 "$running" 2>/dev/null; do
    say "$name: $("$state"), ${SECONDS} s"
    sleep 0.2
  done
  if ! wait "$running"; then
    erase
    tail -n 30 "$log" >&2
    echo "build.sh: $name can't be built in $PWD, see above" >&2
    exit 1
  fi
  running=
}

# go.sum has one line for a module's content and one for its go.mod, and lists modules that only tests need, too.
modules=$(grep -vc '/go\.mod h1:' go.sum 2>/dev/null || true)
fetching() {
  local fetched
  fetched=$(grep -c '^go: downloading' "$log" || true)
  if ((fetched > 0)); then echo "$fetched of at most ${modules:-0} modules downloaded"; else echo "looking for what has changed"; fi
}
# A program's own package is compiled last, so that its line stands for linking.
stale() { go list -deps -f '{{if and .Stale (ne .Name "main")}}{{.ImportPath}}{{end}}' "$@" >"$log.stale"; }
watch fetching stale "$@"

packages=$(wc -l <"$log.stale")
compiling() {
  local compiled
  compiled=$(grep -vc '^go: ' "$log" || true)
  if ((compiled < packages)); then echo "$compiled of $packages packages compiled"; else echo "linking"; fi
}
: >"$log"
watch compiling go build -v -o "$output" "$@"
erase
