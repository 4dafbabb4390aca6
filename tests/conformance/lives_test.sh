#!/usr/bin/env bash
# Runs each case of lives.cc as its own job, except those named in WITHOUT.
#
#   lives_test.sh MPIRUN MPI RANKS PROGRAM [WITHOUT...]
set -uo pipefail
mpirun=$1 mpi=$2 ranks=$3 program=$4
shift 4
failed=0 passed=0
for name in $("$program" --list); do
  [[ " $* " != *" $name "* ]] || continue
  if output=$(timeout 120 "$mpirun" --mpi "$mpi" -n "$ranks" "$program" "$name" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $name:"
    sed 's/^/    /' <<<"$output"
  fi
done
echo "$passed passed, $failed failed"
[[ $failed -eq 0 && $passed -ge 8 ]]
