#!/usr/bin/env bash
# Checks what bench/jacobi refuses and dumps, and that it detects a halo that arrives too late. For
# that a card counts messages before their bytes are there, with a strategy that does not allow it.
#
#   jacobi_test.sh TOOLS_MPIRUN JACOBI
set -uo pipefail
mpirun=$1 jacobi=$2
failed=0

# expect STATUS WORDS ARGUMENT...: mpirun with these arguments ends so and says so.
expect() {
  local wanted=$1 words=$2 output status
  shift 2
  output=$("$mpirun" "$@" 2>&1)
  status=$?
  [[ $status == "$wanted" && $output == *"$words"* ]] && return
  printf 'FAILED: %s: exit status %s for %s, "%s" expected in:\n%s\n' "$*" "$status" "$wanted" "$words" "$output"
  failed=1
}

expect 0 "halo exchange" -n 2 "$jacobi" --help
expect 2 "--variant" -n 2 "$jacobi" --variant overlap,fast
expect 2 "--scaling" -n 2 "$jacobi" --scaling up
expect 2 "--nz is for --dims 3" -n 2 "$jacobi" --nz 8
expect 2 "after 21 steps an impulse is 6^21, more than 53 bits hold exactly" -n 2 "$jacobi" --dims 3 --steps 21 \
  --initial impulse
expect 2 "after 13 steps an impulse is 4^13, more than 24 bits hold exactly" -n 2 "$jacobi" --steps 13 \
  --initial impulse --type float
expect 2 "cannot be written" -n 2 "$jacobi" --dump "$TEST_TMPDIR/none/cells"

# One rank and four have the same bits: 9 rows of 20.
expect 0 "yes" -n 1 "$jacobi" --nx 20 --ny 9 --variant overlap --dump "$TEST_TMPDIR/one"
expect 0 "yes" -n 4 "$jacobi" --nx 20 --ny 9 --variant exchange --dump "$TEST_TMPDIR/four"
cmp "$TEST_TMPDIR/one" "$TEST_TMPDIR/four" && [[ $(stat -c %s "$TEST_TMPDIR/one") == 1440 ]] || failed=1

export FI_PROVIDER_PATH=nicsim/fi IPATH_NO_BACKTRACE=1
late=(--env LANYARD_NIC=cxi --env LANYARD_FI_VISIBILITY=late --env LANYARD_FI_FLUSH_MS=10)
late_run=("$jacobi" --nx 64 --ny 64 --variant stream --steps 500)
expect 1 "should be" -n 2 "${late[@]}" --env LANYARD_STRATEGY=target-counter "${late_run[@]}"
expect 0 "yes" -n 2 "${late[@]}" "${late_run[@]}"
exit $failed
