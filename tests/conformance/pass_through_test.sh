#!/usr/bin/env bash
# Checks that each MPI function that the libraries define has a case PassThrough.NAME (or
# PassThroughTools.NAME).
#
#   pass_through_test.sh SOURCE... -- LIBRARY...   only shared libraries count
set -euo pipefail
sources=()
while [[ $1 != -- ]]; do sources+=("$1"); shift; done
shift
tested=$(sed -nE 's/^(TEST|TEST_F|CASE)\(PassThrough(Tools)?, ([A-Za-z_0-9]+)\).*/\3/p' "${sources[@]}" | sort -u)
symbols=$(for library in "$@"; do [[ $library != *.so* ]] || nm -D --defined-only "$library"; done |
  awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | grep '^MPI_' | sort -u)
[[ $(wc -l <<<"$symbols") -ge 36 ]] || { echo "FAILED: the libraries define too few MPI functions: $symbols"; exit 1; }
missing=$(comm -3 --output-delimiter='(no such symbol) ' <(echo "$symbols") <(echo "$tested"))
[[ -z $missing ]] || { echo "FAILED: functions without a case, cases without a function:"; echo "$missing"; exit 1; }
echo "$(wc -l <<<"$symbols") functions"
