#!/usr/bin/env bash
# patterns refuses what it cannot do, with exit status 2 and one line.
# With --describe it runs nothing.
#
#   patterns_refusals_test.sh PATTERNS LANYARD
set -uo pipefail
patterns=$1 lanyard=$2
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
export ASAN_OPTIONS=detect_leaks=0  # MPI libraries leak at exit
cd "$TEST_TMPDIR" || exit 1
[[ $patterns == /* ]] || patterns=$OLDPWD/$patterns lanyard=$OLDPWD/$lanyard
failed=0

# refuses WORDS COMMAND...: exit status 2, nothing on stdout, and the words on stderr.
refuses() {
  local words=$1 status=0
  shift
  "$@" >out 2>err || status=$?
  [[ $status == 2 && ! -s out ]] && grep -qF -- "$words" err && return
  echo "FAILED: ${*:2}: status $status, $(cat out err)" >&2
  failed=1
}

printf '2\n0 1\n' >short.txt
refuses 'short.txt:3: ends after 1 of 2 rows' "$patterns" --pattern short.txt
refuses 'none.txt: No such file or directory' "$patterns" --pattern none.txt
refuses '.:1: cannot be read: Is a directory' "$patterns" --pattern .
refuses 'fan: a fan is not omni' "$patterns" --pattern fan --direction omni --describe csv
refuses 'rail: the pattern has 2 ranks, and the job 1' "$patterns"
refuses '--describe: one pattern, not 2' "$patterns" --pattern rail,dense --describe csv
refuses 'a collective has no stripes' "$patterns" --pattern reduce --stripe
refuses '--bytes' "$patterns" --bytes -1
refuses 'fan: a fan is not omni' "$lanyard" model --workload pattern --pattern fan --direction omni
refuses '12 ranks, 8 a node' "$lanyard" model --workload pattern --ranks 12
refuses '--strategy: one for patterns' "$lanyard" model --workload pattern --strategy target-counter,sender-flag
refuses 'none.txt: No such file or directory' "$lanyard" model --workload pattern --pattern none.txt

"$patterns" --pattern rail --group 2 --bytes 5 --describe csv | diff - <(
  printf '%s\n' step,source,destination,offset,bytes 0,0,2,0,5 0,1,3,5,5
) || failed=1
exit $failed
