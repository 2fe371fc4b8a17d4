# shellcheck shell=sh
# What both hooks share, which set here to the directory of all of it. For any POSIX shell. A process more takes time where a container has little
# CPU, and may be one too many where a job has used up all that it may start: so functions read with the shell alone, and set variables.
here=${here:-.}

# run_briefly runs a function for a second at most: a disk that does not answer must not delay the job. What the function prints goes to the log at
# once. What in it waits for a disk has to print elsewhere: a process that nothing can end would keep the runner's pipe open.
run_briefly() {
  ("$1") 2>/dev/null </dev/null &
  task=$!
  (
    trap 'kill "$pause" 2>/dev/null; exit 0' TERM
    sleep 1 &
    pause=$!
    wait "$pause"
    kill -9 "$task"
  ) >/dev/null 2>&1 </dev/null &
  watch=$!
  wait "$task" 2>/dev/null
  kill "$watch" 2>/dev/null
}

# fact sets told to the first line of a file that the cluster keeps beside the hooks, empty if there is none.
fact() {
  told=''
  IFS= read -r told 2>/dev/null <"$here/$1"
}

# read_facts sets pod, scale_set and node.
read_facts() {
  fact pod
  pod=$told
  fact namespace
  namespace=$told
  fact scale-set
  scale_set=$namespace/$told
  node=${ACTIONS_RUNNER_NODE_NAME:-unknown}
}

# is_number tells whether a word is a number that fits, without leading zeros, which a shell would take for octal.
is_number() {
  case $1 in
    '' | *[!0-9]* | 0?* | ???????????????????*) return 1 ;;
  esac
}

# read_wait sets wait_told to what the job waited for and how long, as "42 s: assigned 1 s, placed 30 s, started 11 s". A phase takes the time
# since the one before it, and none if it was reached before the job was queued. Without GitHub's times it is the runner that is told of.
read_wait() {
  wait_told='' last='' whole=0 parts='' at_queued='' at_assigned=''
  fact phases
  for word in $told; do
    case ${word%%=*} in
      queued | assigned | created | registered | placed | imagePulled | containerUp | started)
        is_number "${word#*=}" && eval "at_${word%%=*}=${word#*=}"
        ;;
    esac
  done
  for phase in queued assigned created registered placed imagePulled containerUp started; do
    eval "at=\${at_$phase:-}"
    [ -n "$at" ] || continue
    if [ -n "$last" ]; then
      took=$((at > last ? at - last : 0))
      whole=$((whole + took))
      parts="$parts${parts:+, }$phase $took s"
      at=$((last + took))
    fi
    last=$at
  done
  [ -n "$parts" ] || return
  if [ -n "$at_queued$at_assigned" ]; then
    wait_told="$whole s: $parts"
  else
    wait_told="$whole s since the runner was created: $parts"
  fi
}

print_start() {
  read_facts
  read_wait
  echo "Scale set: $scale_set"
  echo "Pod: $pod"
  echo "Node: $node"
  echo "Wait: ${wait_told:-not known yet; the end of the log has it}"
}
