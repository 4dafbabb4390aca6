#!/usr/bin/env bash
# Broken programs that hang: Lanyard's report of each must name the cause, and no false one, on
# both wires of the simulated NIC. Also a correct program where a wire cannot work. For other
# mistakes see api_misuse*, api_stall_test.cc and lost_rank_test.sh.
#
#   broken_programs_test.sh MPIRUN PROGRAM
set -uo pipefail
mpirun=$1 program=$2
failed=0 passed=0

mpi=openmpi wires="shm tcp" under=
# check CASE RANKS "SETTING=VALUE ..." "WORDS|WORDS..." "FORBIDDEN WORDS|..."
check() {
  local name=$1 ranks=$2 settings=$3 wanted=$4 unwanted=${5:-} wire output word ok
  for wire in $wires; do
    output=$(env LANYARD_SIM_WIRE="$wire" LANYARD_SIM_INTERFACE=127.0.0.1 \
      LANYARD_DEADLINE_S=2 LANYARD_WARN_S=0 $settings timeout 40 "$mpirun" --mpi "$mpi" -n "$ranks" $under "$program" "$name" 2>&1)
    ok=true
    while IFS= read -r -d '|' word; do
      [[ $output == *"$word"* ]] || { ok=false; echo "$name, $wire: the report lacks '$word'"; }
    done <<<"$wanted|"
    if [[ -n $unwanted ]]; then
      while IFS= read -r -d '|' word; do
        [[ $output != *"$word"* ]] || { ok=false; echo "$name, $wire: the report wrongly has '$word'"; }
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

check tag_mismatch 2 "" "recv, peer 1, tag 5|offers a send with tag 6" "opposite orders|deadlock"
check collective_left_alone 2 "" "MPIX_Queue_wait: |of MPI_Barrier of 2 processes|rank 1: it has enqueued 0 starts" "deadlock"
check deadlock_of_all 2 "" "a deadlock: rank 1 waits for rank 0, which waits for rank 1" "opposite orders"
check deadlock_of_all 3 "" "a deadlock: rank|rank 2|rank 1" "opposite orders"
check deadlock_over_queues 2 "" "a deadlock: rank|queue 2" "opposite orders"
check endless_kernel 2 "" "runs a kernel|broken_program|that has run for" "deadlock|has not landed|waits for something"
check endless_kernel_of_peer 2 "" "rank 1: start 1 of its request (send, peer 0, tag 7|runs a kernel" "deadlock"
check unmapped_buffer 2 "" "not mapped any more" "deadlock|could not be reached"
check finalize_early 2 "" "MPI_Finalize drops what was enqueued|it has enqueued 0 starts" "deadlock"

# A correct program where shared memory between ranks does not work, neither for a wire nor for the
# MPI. `under` is the command that starts each rank there.
export OMPI_MCA_btl=self,tcp MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self
other=$program
for mpi in openmpi mpich; do
  [[ $mpi == openmpi ]] || program=${other}_mpich
  for under in "unshare -Ur" "prlimit --fsize=0"; do
    if ! $under true 2>/dev/null; then
      echo "SKIPPED: $under does not work here"
      passed=$((passed + 2))
      continue
    fi
    [[ $under == unshare* ]] && words="MPIX_Match: |is in another container (user namespace)" ||
      words="MPIX_Queue_init: |(ulimit -f)"
    wires=shm check none 2 "" "$words|LANYARD_SIM_WIRE=tcp" "has ended|all is well"
    wires=tcp check none 2 "" "all is well" "got an error"
  done
done

echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -ge 26 ]]
