#!/usr/bin/env bash
# Loses a rank of a Game of Life in the middle of its steps: killed, stopped, or ended by exit(0)
# without MPI_Finalize. The other ranks end in time with an error that names it, nothing is left
# behind, and the next job works. On both wires of the simulated NIC.
#
#   lost_rank_test.sh MPIRUN GAME_OF_LIFE EXIT_AT_PROGRESS
#
# EXIT_AT_PROGRESS is a library that calls exit(0) after the process has printed a line
# about its progress.
set -uo pipefail
mpirun=$1 game=$2 exit_at_progress=$3
deadline_s=3
failed=0 passed=0
output=${TEST_TMPDIR:-/tmp}/lost_rank.$$
# Marks the environment of the processes of this test's jobs.
mark=LOST_RANK_TEST=$$

say() { echo "$kind, $wire: $*"; ok=false; }
# Prints the processes of this test's jobs, or of one of their ranks.
processes() { grep -lszxF "$mark" /proc/[0-9]*/environ | xargs -r grep -lszxF "${1:-$mark}" | grep -oE '[0-9]+'; }
of_rank() { processes "OMPI_COMM_WORLD_RANK=$1"; }
job() {
  env "$mark" LANYARD_SIM_WIRE="$wire" LANYARD_SIM_INTERFACE=127.0.0.1 LANYARD_DEADLINE_S=$deadline_s LANYARD_WARN_S=0 \
    "$@"
}
cleanup() {
  processes | xargs -r kill -KILL
  rm -f "$output" "$output".*
}
trap cleanup EXIT
files() { find /dev/shm -maxdepth 1 -name 'lanyard*' | sort; }

# wait_for SECONDS COMMAND...: waits until the command succeeds.
wait_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [[ $SECONDS -lt $end ]] || return 1
    sleep 0.1
  done
}
has_progressed() { grep -qs 'mode send: [0-9]* of [0-9]* steps' "$output"; }
has_progressed_or_ended() { has_progressed || has_ended; }
# Whether the job has printed the line in the first third of its steps. It then runs for at least
# ten seconds more; finding the victim's process takes seconds on a busy machine.
is_early() { awk '/mode send: [0-9]+ of [0-9]+ steps/ { exit !(3 * $4 <= $6) }' "$output"; }
has_ended() { ! kill -0 "$launcher" 2>/dev/null; }
none_is_left() { [[ -z $(processes) ]]; }

# start STEPS ARGUMENT...: starts a job with STEPS steps, or with more, until the line about
# progress, which comes after five seconds, comes early enough.
start() {
  local steps=$1
  shift
  while [[ $steps -lt 10000000 ]]; do
    : >"$output"  # removes the last job's output
    # With recovery, Open MPI does not end the job: the other ranks must notice the loss.
    job OMPI_MCA_orte_enable_recovery=1 "$mpirun" -n 4 "$@" "$game" --size 60 --steps "$steps" --mode send \
      --verify none >"$output" 2>&1 &
    launcher=$!
    wait_for 120 has_progressed_or_ended
    has_progressed && { [[ $kind == exited ]] || is_early; } && return 0
    processes | xargs -r kill -KILL
    wait "$launcher" 2>/dev/null
    steps=$((4 * steps))
  done
  return 1
}

# lose KIND RANK SECONDS "WORDS": the job must end within SECONDS after the loss and the deadline.
lose() {
  local kind=$1 victim=$2 patience=$3 words=$4 wire launcher begin end before ok=true preload=()
  for wire in shm tcp; do
    ok=true
    before=$(files)
    [[ $kind != exited ]] || preload=(--env "LD_PRELOAD=$exit_at_progress")
    start 10000 ${preload[@]+"${preload[@]}"} || say "the job never reports progress"
    case $kind in
      killed) kill -KILL $(of_rank "$victim") ;;
      stopped) kill -STOP $(of_rank "$victim") ;;
    esac
    begin=$SECONDS
    wait_for $((deadline_s + patience)) has_ended || say "the job still runs $((deadline_s + patience)) s after the loss"
    end=$SECONDS
    echo "$kind, $wire: $((end - begin)) s from the loss to the end of the job"
    kill -0 "$launcher" 2>/dev/null && processes | xargs -r kill -KILL
    wait "$launcher" 2>/dev/null
    grep -qE "^rank [0-3]: MPIX_Queue_wait: .*$words" "$output" || say "no rank reports '$words'"
    grep -qE 'deadlock|opposite orders' "$output" && say "a report names a false cause"
    wait_for 5 none_is_left || say "processes left: $(processes | xargs -r ps -o pid,stat,args -p)"
    [[ $(files) == "$before" ]] || say "files left: $(files)"
    job timeout 60 "$mpirun" -n 4 "$game" --size 60 --steps 40 --mode all >"$output.next" 2>&1 ||
      { say "the next job failed"; cat "$output.next"; }
    if $ok; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      sed 's/^/    /' "$output"
    fi
  done
}

lose killed 2 10 'rank 2 has ended'
lose stopped 2 17 'rank 2 has not answered for'
lose exited 0 10 'rank 0 has ended'

echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -eq 6 ]]
