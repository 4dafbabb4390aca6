#!/usr/bin/env bash
# Jobs of two programs, one of which is not linked with Lanyard. tests/api/coupled_program.c lists
# the cases.
#
#   several_programs_test.sh MPIRUN MPI COUPLED PLAIN WIRE...
set -uo pipefail
mpirun=$1 mpi=$2 coupled=$3 plain=$4
failed=0
for wire in "${@:5}"; do
  for what in none own any stranger received no-card two ends; do
    ranks=2
    [[ $what != two && $what != ends ]] || ranks=3
    output=$(LANYARD_SIM_WIRE=$wire LANYARD_SIM_INTERFACE=127.0.0.1 LANYARD_DEADLINE_S=3 timeout 120 \
      "$mpirun" --mpi "$mpi" -n $ranks "$coupled" "$what" : -n 1 "$plain" 2>&1)
    status=$?
    [[ $what == stranger || $what == received || $what == ends ]] || [[ $output != *deadline* ]] || status=deadline
    sum=$((ranks * (ranks + 1) / 2))
    if [[ $status != 0 || $(grep -c "sum $sum" <<<"$output") -ne $((ranks + 1)) ]]; then
      echo "case $what, wire $wire: status $status, or not all ranks printed 'sum $sum':"
      sed 's/^/    /' <<<"$output"
      failed=$((failed + 1))
    fi
  done
done
echo "$failed cases failed"
[[ $failed -eq 0 ]]
