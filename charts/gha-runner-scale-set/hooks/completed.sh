# shellcheck shell=sh disable=SC2154 # common.sh sets told
# Printed at the end of a job: how it waited, and what it used of what it may use. The runner calls it as ACTIONS_RUNNER_HOOK_JOB_COMPLETED.
# It takes no job with it if it fails, and no more than a second of its time; a hold for debugging comes after that.
set +e
# Where no process can be started, bash tries for 15 s; other shells end at once.
if [ -n "$BASH_VERSION" ] && [ -z "$HOOK_SHELL" ] && command -v sh >/dev/null; then
  HOOK_SHELL=posix exec sh "$0"
fi
trap 'exit 0' EXIT
set -f # a star is no list of files
unset RUNNER_TRACKING_ID # the runner need not look for what is left of this
here=${0%/*}
for part in common.sh usage.sh; do
  [ -r "$here/$part" ] || exit 0
done
# shellcheck source=/dev/null
. "$here/common.sh"
# shellcheck source=/dev/null
. "$here/usage.sh"

fact job-log
if [ "$told" = true ]; then
  print_end
fi
hold
exit 0
