# shellcheck shell=sh
# Printed at the start of a job: where it runs, and how long it waited for what. The runner calls it as ACTIONS_RUNNER_HOOK_JOB_STARTED.
# It takes no job with it if it fails. It starts no process, and reads only what the cluster keeps in memory beside it.
set +e
trap 'exit 0' EXIT
set -f # a star is no list of files
unset RUNNER_TRACKING_ID # the runner need not look for what is left of this
here=${0%/*}
[ -r "$here/common.sh" ] || exit 0
# shellcheck source=/dev/null
. "$here/common.sh"

print_start
exit 0
