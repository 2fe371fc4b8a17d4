# shellcheck shell=sh
# Printed at the start of a job: where it runs, and how long it waited for what. The runner calls it as ACTIONS_RUNNER_HOOK_JOB_STARTED.
# It takes no job with it if it fails, and no more than a second of its time.
set +e
unset RUNNER_TRACKING_ID # the runner need not look for what is left of this
here=${0%/*}
[ -r "$here/common.sh" ] || exit 0
# shellcheck source=/dev/null
. "$here/common.sh"

run_briefly print_start
exit 0
