#!/usr/bin/env bash
# tests/README.md's list of cases and the cases themselves are the same, and every MPI function that the libraries stand
# before has one.
#
#   conformance_table_test.sh README API_SOURCES_DIR SOURCE... -- LIBRARY...   shared ones; others are passed over
#
# The reverse does not hold for the tests of API_SOURCES_DIR, of which the list names some.
set -euo pipefail
readme=$1 api=$2
shift 2
sources=()
while [[ $1 != -- ]]; do sources+=("$1"); shift; done
shift
failed=0
fail() {
  echo "FAILED: $*"
  failed=1
}

# Suite.Case of each test in files: of GoogleTest, of lives.h, of stacking_test.sh.
cases() {
  sed -nE -e 's/^(TEST|TEST_F|TEST_P|CASE)\(([A-Za-z_0-9]+), ([A-Za-z_0-9]+)\).*/\2.\3/p' \
    -e 's/^stands ([A-Za-z]+\.[A-Za-z]+) .*/\1/p' "$@" | sort
}
listed=$(sed -n '/^# MPI, rule by rule$/,$p' "$readme" | grep '^|' | grep -oE '`[A-Za-z_0-9]+\.[A-Za-z_0-9]+`' |
  tr -d '`' | sort)
ours=$(cases "${sources[@]}")
theirs=$(cases "$api"/api_*.cc)

for name in $(uniq -d <<<"$listed"); do fail "$name is listed twice"; done
for name in $(uniq -d <<<"$ours"); do fail "two cases are called $name"; done
for name in $(comm -23 <(sort -u <<<"$listed") <(sort -u <<<"$ours
$theirs")); do fail "$name is listed, and there is no such case"; done
for name in $(comm -13 <(sort -u <<<"$listed") <(sort -u <<<"$ours")); do fail "$name is not listed"; done
count=$(wc -l <<<"$listed")
[[ $count -ge 150 ]] || fail "only $count cases are listed"
said=$(sed -nE 's/^([0-9]+) cases.*/\1/p' "$readme")
[[ $said == "$count" ]] || fail "the list has $count cases, and README says $said"

symbols=$(for library in "$@"; do [[ $library != *.so* ]] || nm -D --defined-only "$library"; done |
  awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | grep '^MPI_' | sort -u)
[[ $(wc -l <<<"$symbols") -ge 36 ]] || fail "the libraries have too few symbols: $symbols"
tested=$(sed -n 's/^PassThrough\.//p' <<<"$ours" | sort -u)
for symbol in $(comm -23 <(echo "$symbols") <(echo "$tested")); do fail "no case PassThrough.$symbol"; done
for symbol in $(comm -13 <(echo "$symbols") <(echo "$tested")); do fail "$symbol is tested and no library has it"; done
echo "$count cases listed; $(wc -l <<<"$symbols") symbols"
exit "$failed"
