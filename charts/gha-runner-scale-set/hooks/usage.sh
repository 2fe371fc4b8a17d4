# shellcheck shell=sh disable=SC2154 # common.sh sets pod, namespace, scale_set, node, told and wait_told
# What a container has used, from its control group (v2, or v1), /proc and df. For any POSIX shell, which reads all but df by itself.
# It uses what common.sh has. The variables CGROUP, PROC and TERMINATION_LOG are for tests.
cgroup=${CGROUP:-/sys/fs/cgroup}
proc=${PROC:-/proc}

# number sets found to what a file has, if that is a number: not for "max", and not for a file that is not there.
number() {
  found='' line=''
  read -r line 2>/dev/null <"$1"
  if is_number "$line"; then
    found=$line
  fi
}

# field sets found to the number after a name in a file with a name and a number in each line.
field() {
  found=''
  [ -r "$1" ] || return
  while read -r key word _; do
    if [ "$key" = "$2" ] && is_number "$word"; then
      found=$word
      return
    fi
  done <"$1"
}

# read_moved sets bytes_read and bytes_written to the sums over all disks, from io.stat in v2 and from blkio in v1.
read_moved() {
  bytes_read=0 bytes_written=0
  if [ ! -r "$1" ]; then
    bytes_read='' bytes_written=''
    return
  fi
  # A line is "8:0 rbytes=1 wbytes=2 …", or "8:0 Read 1".
  while read -r _ first rest; do
    for word in "$first=$rest" $first $rest; do
      is_number "${word#*=}" || continue
      case $word in
        rbytes=* | Read=*) bytes_read=$((bytes_read + ${word#*=})) ;;
        wbytes=* | Write=*) bytes_written=$((bytes_written + ${word#*=})) ;;
      esac
    done
  done <"$1"
}

# read_usage sets peak, limit, kills, cpu and throttled (in microseconds), periods and cut (those in which it was throttled),
# and bytes_read and bytes_written. What is not known is empty, and so is the limit of a container that has none.
read_usage() {
  if [ -f "$cgroup/cgroup.controllers" ]; then
    number "$cgroup/memory.peak"
    peak=$found
    number "$cgroup/memory.max"
    limit=$found
    field "$cgroup/memory.events" oom_kill
    kills=$found
    stat=$cgroup/cpu.stat
    field "$stat" usage_usec
    cpu=$found
    field "$stat" throttled_usec
    throttled=$found
    read_moved "$cgroup/io.stat"
  else
    number "$cgroup/memory/memory.max_usage_in_bytes"
    peak=$found
    number "$cgroup/memory/memory.limit_in_bytes"
    limit=$found
    field "$cgroup/memory/memory.oom_control" oom_kill
    kills=$found
    stat=$cgroup/cpu/cpu.stat
    number "$cgroup/cpuacct/cpuacct.usage"
    cpu=${found:+$((found / 1000))}
    field "$stat" throttled_time
    throttled=${found:+$((found / 1000))}
    read_moved "$cgroup/blkio/blkio.throttle.io_service_bytes"
  fi
  # A group without a limit says nothing in v2, and in v1 the largest number of pages.
  if [ -n "$limit" ] && [ "$limit" -ge 1152921504606846976 ]; then
    limit=''
  fi
  field "$stat" nr_periods
  periods=$found
  field "$stat" nr_throttled
  cut=$found
}

# sized sets size to bytes for people.
sized() {
  if [ -z "$1" ]; then
    size=unknown
    return
  elif [ "$1" -ge 1073741824 ]; then
    tenths=$(($1 / 107374182)) unit=GiB
  else
    tenths=$(($1 / 104857)) unit=MiB
  fi
  size="$((tenths / 10)).$((tenths % 10)) $unit"
}

# lasted sets time to microseconds for people.
lasted() {
  tenths=$(($1 / 100000))
  time="$((tenths / 10)).$((tenths % 10)) s"
}

# row prints a figure, in the log and in the summary of the job.
row() {
  echo "$1: $2"
  summary="$summary
| $1 | $2 |"
}

# warn makes an annotation, which GitHub shows on the page of the run.
warn() { echo "::warning title=$1::$2"; }

tell_memory() {
  [ -n "$peak" ] || [ -n "$kills" ] || return
  sized "$peak"
  text="peak $size"
  if [ -n "$limit" ]; then
    sized "$limit"
    text="$text of $size"
  else
    text="$text, no limit"
  fi
  row Memory "$text"
  row "OOM kills" "${kills:-unknown}"
  if [ "${kills:-0}" -gt 0 ]; then
    warn "Out of memory" "processes of this job were killed $kills times because its container reached its memory limit${limit:+ of $size}: let it use less, or ask for a higher limit of the runner container in scale set $scale_set"
  fi
}

tell_cpu() {
  [ -n "$cpu" ] || return
  lasted "$cpu"
  text="$time used"
  share=''
  if [ "${periods:-0}" -gt 0 ]; then
    share=$((cut * 100 / periods))
    lasted "${throttled:-0}"
    text="$text, throttled for $time, in $share % of the periods"
  fi
  row CPU "$text"
  if [ "${share:-0}" -ge 10 ]; then
    warn "CPU limit reached" "the job was throttled in $share % of the time in which it was at work, because its container reached its CPU limit: it would be faster with a higher limit of the runner container in scale set $scale_set"
  fi
}

tell_disk() {
  folder=${RUNNER_WORKSPACE:-/}
  # Two lines, of which the second has the device, size, used and free in KiB, share, and where it is mounted.
  space=$(df -Pk "$folder")
  # shellcheck disable=SC2086 # its words
  set -- ${space#*
}
  all=$2 free=$4 text=''
  if is_number "$bytes_read" && is_number "$bytes_written"; then
    sized "$bytes_written"
    text="$size written"
    sized "$bytes_read"
    text="$text, $size read"
  fi
  if is_number "$all" && is_number "$free"; then
    sized "$((free * 1024))"
    text="$text${text:+; }$size"
    sized "$((all * 1024))"
    text="$text of $size free in $folder"
  fi
  [ -z "$text" ] || row Disk "$text"
  if is_number "$all" && is_number "$free" && [ "$free" -lt "$((all / 100))" ]; then
    warn "Disk full" "less than 1 % of the disk with $folder is free"
  fi
}

tell_network() {
  [ -r "$proc/net/dev" ] || return
  received=0 sent=0
  while read -r line; do
    name=${line%%:*}
    # shellcheck disable=SC2086 # its words
    set -- ${line#*:}
    if [ "$name" != lo ] && is_number "$1" && is_number "$9"; then
      received=$((received + $1)) sent=$((sent + $9))
    fi
  done <"$proc/net/dev"
  sized "$received"
  text="$size received"
  sized "$sent"
  row Network "$text, $size sent"
}

# leave_line writes the line that the controller's side reads from the pod: docs/job-feedback.md has its fields.
leave_line() {
  line='{"usage":1'
  for pair in "peakMemoryBytes $peak" "memoryLimitBytes $limit" "oomKills $kills" "cpuMicroseconds $cpu" \
    "throttledMicroseconds $throttled" "cpuPeriods $periods" "throttledPeriods $cut"; do
    value=${pair#* }
    [ -z "$value" ] || line="$line,\"${pair%% *}\":$value"
  done
  echo "$line}" >>"${TERMINATION_LOG:-/dev/termination-log}"
}

# tell_volumes prints how full the claims are that the runner mounts, and leaves a line for each. Beside the hooks the cluster keeps which these are,
# as NAME PATH.
tell_volumes() {
  [ -r "$here/volumes" ] || return
  while read -r name path; do
    [ -n "$path" ] || continue
    space=$(df -Pk "$path" </dev/null)
    # shellcheck disable=SC2086 # its words
    set -- ${space#*
}
    if ! is_number "$3" || ! is_number "$4" || [ "$(($3 + $4))" -eq 0 ]; then
      continue
    fi
    used=$(($3 * 1024)) all=$((($3 + $4) * 1024))
    sized "$used"
    text=$size
    sized "$all"
    row "Volume $name" "$text of $size used in $path"
    if [ "$4" -lt "$((all / 102400))" ]; then
      warn "Volume full" "less than 1 % of the volume $name of scale set $scale_set, in $path, is free"
    fi
    (echo "{\"volume\":1,\"name\":\"$name\",\"bytes\":$all,\"usedBytes\":$used}" >>"${TERMINATION_LOG:-/dev/termination-log}") >/dev/null
  done <"$here/volumes"
}

# print_end prints what the shell finds out by itself, which is all but the disk, before the first process is started.
print_end() {
  summary=''
  read_facts
  read_wait
  read_usage
  [ -z "$wait_told" ] || row Wait "$wait_told"
  tell_memory
  tell_cpu
  tell_network
  if [ -n "$ACTIONS_RUNNER_CONTAINER_HOOKS" ]; then
    echo "These figures are those of the runner. The steps of a job container ran in pods of their own, which they don't count."
  elif [ -n "$DOCKER_HOST" ]; then
    echo "These figures don't count what ran in containers of Docker."
  fi
  run_briefly use_disks
}

# use_disks does what may wait for a disk, in the order of its worth. What writes to one is a process of its own that prints nothing.
use_disks() {
  (leave_line) >/dev/null
  tell_disk
  tell_volumes
  [ -n "$GITHUB_STEP_SUMMARY" ] || return
  # shellcheck disable=SC2016 # Markdown's quotes
  (printf 'Runner `%s` of scale set `%s` on node `%s`:\n\n| | |\n|---|---|%s\n' "$pod" "$scale_set" "$node" "$summary" \
    >>"$GITHUB_STEP_SUMMARY") >/dev/null
}

# hold keeps the job from ending, for whoever has run it again with debug logging and wants to look around. Nobody looks at an attempt that an App has
# begun, as for a lost job: it has debug logging only where the repository always has.
hold() {
  fact debug-hold
  seconds=$told
  is_number "$seconds" && [ "$seconds" -gt 0 ] && [ "$RUNNER_DEBUG" = 1 ] || return
  is_number "$GITHUB_RUN_ATTEMPT" && [ "$GITHUB_RUN_ATTEMPT" -gt 1 ] || return
  case $GITHUB_TRIGGERING_ACTOR in
    *'[bot]') return ;;
  esac
  [ "$seconds" -le 3600 ] || seconds=3600
  read_facts
  end=${RUNNER_TEMP:-/tmp}/end-hold
  trap 'exit 0' INT TERM # the run is canceled, or the pod is asked to end
  echo "This job was run again with debug logging: its end is held for $seconds s, so that you can look around in its pod:"
  echo "  kubectl exec -it --namespace $namespace $pod -c runner -- sh"
  echo "To end it earlier: touch $end (in that shell), or cancel the run."
  until_then=$(($(date +%s) + seconds))
  while [ ! -e "$end" ] && [ "$(date +%s)" -lt "$until_then" ]; do
    sleep 2
  done
}
