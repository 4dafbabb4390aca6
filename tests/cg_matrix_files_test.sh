#!/usr/bin/env bash
# bench/cg takes matrices from files, whose every mistake gives exit status 2 and a line that names it.
#
#   cg_matrix_files_test.sh TOOLS_MPIRUN CG
set -euo pipefail
mpirun=$1 cg=$2 work=$TEST_TMPDIR

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# tridiag(-1, 2, -1) of 4000 rows, as the built-in one: 930 iterations to 1e-6. One triangle, or both.
line() {
  awk -v n=4000 -v both="$2" 'BEGIN {
    print "%%MatrixMarket matrix coordinate real " (both ? "general" : "symmetric")
    print "% a line"
    print n, n, (both ? 3 * n - 2 : 2 * n - 1)
    for (i = 1; i <= n; ++i) {
      print i, i, "2.0"
      if (i > 1) print i, i - 1, "-1.0"
      if (i < n && both) print i, i + 1, "-1.0"
    }
  }' >"$1"
}
line "$work/symmetric.mtx" 0
line "$work/general.mtx" 1
gzip -c "$work/general.mtx" >"$work/general.mtx.gz"
run() { "$mpirun" -n "$1" "$cg" --trials 1 --measure 0 "${@:2}"; }
for options in "symmetric.mtx --partition rows" "general.mtx.gz --partition rows" "general.mtx.gz --partition metis"; do
  # shellcheck disable=SC2086
  run 3 --expect-iterations 930 --matrix "$work/"$options || fail "$options"
done
# A count that is expected and not reached is a wrong result.
status=0
run 2 --expect-iterations 929 --matrix "$work/symmetric.mtx" --mode stream >"$work/out" 2>&1 || status=$?
[[ $status == 1 ]] && grep -q '930 iterations, expected 929' "$work/out" || fail "status $status: $(cat "$work/out")"
real='%%%%MatrixMarket matrix coordinate real symmetric\n'
# wrong_result WORDS TEXT: both solvers find that nothing comes of a file with that text.
wrong_result() {
  local solver status
  printf "$2" >"$work/matrix.mtx"
  for solver in cg pipelined; do
    status=0
    run 2 --matrix "$work/matrix.mtx" --solver $solver >"$work/out" 2>&1 || status=$?
    [[ $status == 1 ]] && grep -qF -- "$1" "$work/out" || fail "status $status: $(cat "$work/out")"
  done
}
# Symmetric, and not positive definite: seen in the first iteration, and in the second.
wrong_result 'after 0 iterations p.A p is not positive' "${real}2 2 3\n1 1 0\n2 1 1\n2 2 0\n"
wrong_result 'after 1 iterations p.A p is not positive' "${real}2 2 3\n1 1 1\n2 1 2\n2 2 1\n"
wrong_result 'the right-hand side is 0, so nothing was solved' "${real}2 2 2\n1 1 0\n2 2 0\n"
# Where every mode is skipped nothing has been verified.
status=0
run 2 --matrix "$work/symmetric.mtx" --mode graph --format json >"$work/out" 2>"$work/err" || status=$?
[[ $status == 1 ]] && grep -qF 'nothing was run, as every mode of --mode graph was skipped' "$work/err" &&
  grep -q '"verified": *false' "$work/out" || fail "status $status: $(cat "$work/out" "$work/err")"

# refused WORDS OPTION...: exit status 2, and one line that says so.
refused() {
  local words=$1 status=0
  shift
  run 2 "$@" >"$work/out" 2>"$work/err" || status=$?
  [[ $status == 2 && ! -s $work/out ]] || fail "$words: status $status: $(cat "$work/out" "$work/err")"
  grep -qF -- "$words" "$work/err" || fail "did not say \"$words\" but: $(cat "$work/err")"
  [[ $(grep -c '^cg: ' "$work/err") == 1 ]] || fail "more than one line: $(cat "$work/err")"
}
# wrong WORDS TEXT: of a file with that text.
wrong() {
  printf "$2" >"$work/wrong.mtx"
  refused "wrong.mtx, $1" --matrix "$work/wrong.mtx"
}
wrong 'line 1: is "hello", expected %%MatrixMarket' 'hello\n'
wrong 'line 1: the header has "array", expected coordinate' '%%%%MatrixMarket matrix array real general\n'
wrong 'line 4: the file ends after 1 entries, expected 3' "${real}2 2 3\n1 1 2\n"
wrong 'line 4: one entry more, expected the 1 that' "${real}1 1 1\n1 1 2\n1 1 2\n"
wrong 'line 3: row "3", expected a whole number from 1 to 2' "${real}2 2 2\n3 1 2\n"
wrong 'line 3: column "0", expected a whole number from 1 to 2' "${real}2 2 2\n1 0 2\n"
wrong 'line 3: value "nan", expected a finite number' "${real}2 2 2\n1 1 nan\n"
wrong 'line 3: value "inf", expected a finite number' "${real}2 2 2\n1 1 inf\n"
wrong 'line 3: has a NUL byte, expected text' "${real}2 2 2\n1 1 2\\0\n2 2 2\n"
wrong 'line 2: 1 entries of 2000000000 rows, expected 2000000000 to' "${real}2000000000 2000000000 1\n1 1 2\n"
wrong 'line 5: the file ends without entry (2, 2) of row 2' "${real}2 2 2\n1 1 2\n2 1 -1\n"
wrong 'line 2: 2 rows and 3 columns, expected a square matrix' "${real}2 3 1\n1 1 2\n"
wrong 'line 4: entry (2, 1) without an entry (1, 2), expected a symmetric matrix' \
  '%%%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2\n2 1 1\n'
head -c 2000 "$work/general.mtx.gz" >"$work/cut.mtx.gz"
refused 'cut.mtx.gz: cannot be read to its end' --matrix "$work/cut.mtx.gz"
refused 'none.mtx: No such file or directory' --matrix "$work/none.mtx"
printf "${real}1 1 1\n1 1 2\n" >"$work/one.mtx"
refused '1 rows are too few for 2 ranks' --matrix "$work/one.mtx"
refused '--poisson or --matrix is needed'
refused '--size 46341 has more than 2147483647 rows' --poisson 2d --size 46341
for tolerance in nan inf 1 0 -1; do
  refused "--tolerance $tolerance, expected at least 1e-15 and below 1" --poisson 1d --tolerance=$tolerance
done
echo passed
