#!/usr/bin/env bash
# bench/cg: how it ends, and what it says in one line, when the input is bad or the solution wrong.
#
#   cg_exit_test.sh TOOLS_MPIRUN CG
set -euo pipefail
mpirun=$1 cg=$2 work=$TEST_TMPDIR

# ends STATUS WORDS OPTION...: a line of stderr that begins with "cg: " has the words.
ends() {
  local expected=$1 words=$2 status=0
  shift 2
  "$mpirun" -n 2 "$cg" --trials 1 "$@" >"$work/out" 2>"$work/err" || status=$?
  if [[ $status != "$expected" ]] || ! grep '^cg: ' "$work/err" | grep -qF -- "$words"; then
    echo "FAILED: $*: status $status, not $expected with \"$words\":" && cat "$work/out" "$work/err"
    exit 1
  fi
  [[ $expected != 2 || $(grep -c '^cg: ' "$work/err") == 1 && ! -s $work/out ]] || { cat "$work/err"; exit 1; }
}
file() {
  printf "%%%%MatrixMarket matrix coordinate real symmetric\n$1" >"$work/matrix.mtx"
}

file '2 2 2\n1 1 2\n3 2 1\n'
ends 2 "matrix.mtx:4: row 3, expected 1 to 2" --matrix "$work/matrix.mtx"
printf '0\n1\n' >"$work/parts"
ends 2 "parts:3: the file ends after 2 lines" --poisson 1d --n 3 --partition "$work/parts"
file '2 2 3\n1 1 1\n2 1 2\n2 2 1\n'
ends 1 "p.A p is not positive after 1 iterations" --matrix "$work/matrix.mtx"
ends 1 "converged by its recursion only" --poisson 1d --n 2000 --rhs ones --solver pipelined --backend exchange
echo passed
