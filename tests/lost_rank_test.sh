#!/usr/bin/env bash
# A rank of a Game of Life is lost in the middle of its steps: killed, stopped, or ended by exit(0) without MPI_Finalize.
# The others end with an error that names it, in time; nothing is left behind, and the next job is right. On both wires of
# the simulated card.
#
#   lost_rank_test.sh MPIRUN GAME_OF_LIFE EXIT_AT_PROGRESS
#
# EXIT_AT_PROGRESS is a library that ends the process by exit(0) once it has printed a line about its progress.
set -uo pipefail
mpirun=$1 game=$2 exit_at_progress=$3
deadline_s=3
failed=0 passed=0
output=${TEST_TMPDIR:-/tmp}/lost_rank.$$
# The processes of this test's jobs have it in their environment.
mark=LOST_RANK_TEST=$$

say() { echo "$kind, $wire: $*"; ok=false; }
# The processes of our jobs, or of one rank of theirs.
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

# wait_for SECONDS COMMAND...: until the command says yes.
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
# Whether the job said so in the first third of its steps, and goes on for at least ten seconds: to find the victim among
# all processes takes seconds on a busy machine.
is_early() { awk '/mode send: [0-9]+ of [0-9]+ steps/ { exit !(3 * $4 <= $6) }' "$output"; }
has_ended() { ! kill -0 "$launcher" 2>/dev/null; }
none_is_left() { [[ -z $(processes) ]]; }

# start STEPS ARGUMENT...: a job of so many steps, or of as many more as it takes for the line about progress, which comes
# after five seconds, to come early.
start() {
  local steps=$1
  shift
  while [[ $steps -lt 10000000 ]]; do
    : >"$output"  # before the job does so, which is a moment away: what the job before said is not its
    # By its recovery Open MPI leaves it to the other ranks to notice.
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

# lose KIND RANK SECONDS "WORDS": the job must end within the seconds of the loss and the deadline.
lose() {
  local kind=$1 victim=$2 patience=$3 words=$4 wire launcher begin end before ok=true preload=()
  for wire in shm tcp; do
    ok=true
    before=$(files)
    [[ $kind != exited ]] || preload=(--env "LD_PRELOAD=$exit_at_progress")
    start 10000 ${preload[@]+"${preload[@]}"} || say "no step of the stream's was seen"
    case $kind in
      killed) kill -KILL $(of_rank "$victim") ;;
      stopped) kill -STOP $(of_rank "$victim") ;;
    esac
    begin=$SECONDS
    wait_for $((deadline_s + patience)) has_ended || say "the job goes on $((deadline_s + patience)) s after the loss"
    end=$SECONDS
    echo "$kind, $wire: $((end - begin)) s from the loss to the end of the job"
    kill -0 "$launcher" 2>/dev/null && processes | xargs -r kill -KILL
    wait "$launcher" 2>/dev/null
    grep -qE "^rank [0-3]: MPIX_Queue_wait: .*$words" "$output" || say "'$words' is not what the others were told"
    grep -qE 'deadlock|opposite orders' "$output" && say "a false cause is said"
    wait_for 5 none_is_left || say "left: $(processes | xargs -r ps -o pid,stat,args -p)"
    [[ $(files) == "$before" ]] || say "left: $(files)"
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
