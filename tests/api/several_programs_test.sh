#!/usr/bin/env bash
# A job of several programs, one of which is not linked with Lanyard (tests/api/coupled_program.c says what each does).
#
#   several_programs_test.sh MPIRUN MPI COUPLED PLAIN WIRE...
set -uo pipefail
mpirun=$1 mpi=$2 coupled=$3 plain=$4
failed=0
for wire in "${@:5}"; do
  for what in none own imatch any stranger received; do
    output=$(LANYARD_SIM_WIRE=$wire LANYARD_SIM_INTERFACE=127.0.0.1 LANYARD_DEADLINE_S=3 timeout 120 \
      "$mpirun" --mpi "$mpi" -n 2 "$coupled" "$what" : -n 1 "$plain" 2>&1)
    status=$?
    [[ $what == stranger || $what == received ]] || [[ $output != *deadline* ]] || status=deadline
    if [[ $status != 0 || $(grep -c 'sum 3' <<<"$output") -ne 3 ]]; then
      echo "$what over $wire ended with $status:"
      sed 's/^/    /' <<<"$output"
      failed=$((failed + 1))
    fi
  done
done
echo "$failed failed"
[[ $failed -eq 0 ]]
