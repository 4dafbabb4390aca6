#!/usr/bin/env bash
# Broken programs, each of another class: what is said of it must name the cause, and no false one. Every case runs on both
# wires of the simulated card.
#
#   broken_programs_test.sh MPIRUN PROGRAM
set -uo pipefail
mpirun=$1 program=$2
failed=0 passed=0

# check CASE RANKS "SETTING=VALUE ..." "WORDS|WORDS..." "FALSE WORDS|..."
check() {
  local name=$1 ranks=$2 settings=$3 wanted=$4 unwanted=${5:-} wire output word ok
  for wire in shm tcp; do
    output=$(env LANYARD_SIM_WIRE="$wire" LANYARD_SIM_INTERFACE=127.0.0.1 \
      LANYARD_DEADLINE_S=2 LANYARD_WARN_S=0 $settings timeout 40 "$mpirun" -n "$ranks" "$program" "$name" 2>&1)
    ok=true
    while IFS= read -r -d '|' word; do
      [[ $output == *"$word"* ]] || { ok=false; echo "$name, $wire: '$word' is not said"; }
    done <<<"$wanted|"
    if [[ -n $unwanted ]]; then
      while IFS= read -r -d '|' word; do
        [[ $output != *"$word"* ]] || { ok=false; echo "$name, $wire: '$word' is said"; }
      done <<<"$unwanted|"
    fi
    if $ok; then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      sed 's/^/    /' <<<"$output"
    fi
  done
}

check peer_never_starts 2 "" "recv, peer 1, tag 7|rank 1: it has enqueued 0 starts of its request (send, peer 0, tag 7" "deadlock"
check truncation 2 "" "MPIX_Match: recv, peer 1, tag 7, 8 B: the send has 32 bytes and its receive has room for 8" "deadline"
check opposite_orders 2 "" "a deadlock|opposite orders|MPIX_Matchall"
check tag_mismatch 2 "" "recv, peer 1, tag 5|offers a send with tag 6" "opposite orders|deadlock"
check start_twice 2 "" "the wait for the request's previous start was not enqueued" "deadline"
check start_unmatched 2 "" "MPIX_Enqueue_start: request 0 (recv, peer 1, tag 5, 8 B) is not matched (see MPIX_Match)" "deadline"
check collective_left_alone 2 "" "MPIX_Queue_wait: |of MPI_Barrier of 2 processes|rank 1: it has enqueued 0 starts" "deadlock"
check free_in_flight 2 "" "the last start of the request (recv, peer 1, tag 7, 8 B) has not completed"
check freed_by_peer 2 "" "send, peer 1, tag 7|freed its request" "has not reached|deadlock"
check too_few_entries 2 "LANYARD_OVERFLOW=off LANYARD_SIM_DWQ_DEPTH=8" "deferred-work entries, the NIC has 8, and overflow is off" "deadline"
check deadlock_of_two 2 "" "a deadlock: rank 1 waits for rank 0 waits for rank 1" "opposite orders"
check deadlock_of_all 3 "" "a deadlock: rank|rank 2|rank 1" "opposite orders"
check deadlock_over_queues 2 "" "a deadlock: rank|queue 2" "opposite orders"
check endless_kernel 2 "" "runs a kernel|broken_program|that has run for" "deadlock|has not landed|waits for something"
check endless_kernel_of_peer 2 "" "rank 1: start 1 of its request (send, peer 0, tag 7|runs a kernel" "deadlock"
check wait_in_kernel 2 "" "MPIX_Queue_wait: called by a kernel of a host stream" "deadline"
check unready_receive 2 "LANYARD_CHECK=on" "a ready send of rank 1 came before start 1 of its receive"
check unmapped_buffer 2 "" "not mapped any more" "deadlock|could not be reached"
check finalize_early 2 "" "MPI_Finalize drops what was enqueued|it has enqueued 0 starts" "deadlock"
# An Open MPI that goes on when a rank ends shows what the others say.
check peer_exits 2 "OMPI_MCA_orte_enable_recovery=1" "rank 1 has ended" "deadlock|has not reached"
check peer_stopped 2 "OMPI_MCA_orte_enable_recovery=1" "rank 1 has not answered for|stopped" "deadlock"
check no_such_setting 2 "LANYARD_DEADLINE=3" "LANYARD_DEADLINE|LANYARD_DEADLINE_S"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -ge 40 ]]
