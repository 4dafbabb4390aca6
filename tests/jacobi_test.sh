#!/usr/bin/env bash
# What bench/jacobi refuses, and that it finds a halo which came too late.
#
#   jacobi_test.sh TOOLS_MPIRUN JACOBI
set -uo pipefail
mpirun=$1 jacobi=$2
failed=0

# expect STATUS WORDS COMMAND...: it ends so and says so.
expect() {
  local wanted=$1 words=$2 output status
  shift 2
  output=$("$@" 2>&1)
  status=$?
  [[ $status == "$wanted" && $output == *"$words"* ]] && return
  echo "FAILED: $*: exit status $status for $wanted, '$words' expected in:"
  sed 's/^/    /' <<<"$output"
  failed=1
}

expect 0 "halo exchange" "$mpirun" -n 2 "$jacobi" --help
expect 2 "--dims" "$mpirun" -n 2 "$jacobi" --dims 4
expect 2 "--mode" "$mpirun" -n 2 "$jacobi" --mode fast
expect 2 "--type" "$mpirun" -n 2 "$jacobi" --type half
expect 2 "--size has 3 numbers" "$mpirun" -n 2 "$jacobi" --size 8 8 8
expect 2 "--split has 2 numbers, and --dims 3 takes 3" "$mpirun" -n 2 "$jacobi" --dims 3 --split 1 2
expect 2 "--split: 2 ranks cannot be placed so" "$mpirun" -n 2 "$jacobi" --split 3 0
expect 2 "--split is of 1 ranks, and there are 2" "$mpirun" -n 2 "$jacobi" --split 1 1
expect 2 "1 x 9 cells are too few for 2 x 1 ranks" "$mpirun" -n 2 "$jacobi" --size 1 9
expect 2 "2 rows are too few" "$mpirun" -n 2 "$jacobi" --size 2 9
expect 2 "bytes a rank: at most 1099511627776" "$mpirun" -n 2 "$jacobi" --size 2147483648
expect 2 "bytes a rank: at most 1099511627776" "$mpirun" -n 2 "$jacobi" --dims 3 --size 4194304
expect 2 "faces of 4294967328 bytes: a message has at most 2147483647" "$mpirun" -n 2 "$jacobi" \
  --size 4 1073741832 --type float --split 2 1
# Each field is of 6 GB. What sanitizers map for themselves is more than any limit.
if [[ -z ${ASAN_OPTIONS:-}${TSAN_OPTIONS:-} ]]; then
  (
    ulimit -v 8000000
    expect 1 "not enough memory for a problem of this size" "$mpirun" -n 2 "$jacobi" --size 40000 --steps 1
    exit $failed
  ) || failed=1
fi

# A card that counts messages before their bytes are there, and the strategy that such a card does not bear.
export FI_PROVIDER_PATH=nicsim/fi IPATH_NO_BACKTRACE=1
late=(--env LANYARD_NIC=cxi --env LANYARD_FI_VISIBILITY=late --env LANYARD_FI_FLUSH_MS=10)
expect 1 "should be" "$mpirun" -n 2 "${late[@]}" --env LANYARD_STRATEGY=target-counter "$jacobi" \
  --size 64 --steps 500 --mode send
expect 0 "yes" "$mpirun" -n 2 "${late[@]}" "$jacobi" --size 64 --steps 50 --mode send

[[ $failed == 0 ]] && echo passed
exit $failed
