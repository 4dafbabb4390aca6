#!/usr/bin/env bash
# bench/patterns says what a pattern is and what network cards allow it, refuses every mistake with one line and exit
# status 2, and finds messages that did not come, and names one.
#
#   patterns_test.sh TOOLS_MPIRUN PATTERNS PLOT UNREAD_MESSAGES
#
# UNREAD_MESSAGES is a library that lets messages be taken for read.
set -uo pipefail
mpirun=$1 patterns=$2 plot=$3 unread=$PWD/$4
work=$TEST_TMPDIR
export MPLCONFIGDIR=$work
failed=0 passed=0

fail() {
  echo "FAILED: $*" >&2
  failed=$((failed + 1))
}
one() { "$mpirun" -n 1 "$patterns" "$@"; }
# gives EXPECTED ARGUMENT...: one rank prints just that.
gives() {
  local expected=$1
  shift
  if one "$@" | diff - <(printf '%s\n' "$expected") >"$work/difference"; then
    passed=$((passed + 1))
  else
    fail "$*: $(cat "$work/difference")"
  fi
}
# refuses RANKS LINE ARGUMENT...: exit status 2, nothing on stdout, and that line, of the program, on stderr.
refuses() {
  local ranks=$1 line=$2 status=0
  shift 2
  "$mpirun" -n "$ranks" "$patterns" "$@" >"$work/out" 2>"$work/err" || status=$?
  if [[ $status == 2 && ! -s $work/out ]] && grep -qxF "patterns: $line (see --help)" "$work/err" &&
    [[ $(grep -c '^patterns: ' "$work/err") == 1 ]]; then
    passed=$((passed + 1))
  else
    fail "$*: exit status $status, $(cat "$work/out" "$work/err")"
  fi
}
# refuses_option WORDS ARGUMENT...: exit status 2, nothing on stdout, and those words where the option is refused.
refuses_option() {
  local words=$1 status=0
  shift
  one "$@" >"$work/out" 2>"$work/err" || status=$?
  if [[ $status == 2 && ! -s $work/out ]] && grep -qF -- "$words" "$work/err"; then
    passed=$((passed + 1))
  else
    fail "$*: exit status $status, $(cat "$work/out" "$work/err")"
  fi
}

gives '# 4 ranks, 2 messages in 1 steps, 131072 bytes
from\to       0       1       2       3      sent
      0       .       .   65536       .     65536
      1       .       .       .   65536     65536
      2       .       .       .       .         .
      3       .       .       .       .         .
    got       .       .   65536   65536    131.1k' --nodes 2 --group 2 --describe
gives 'step,source,destination,source_offset,destination_offset,bytes
0,0,1,6,0,5
1,0,2,0,64,6
1,1,3,0,0,5
2,3,2,0,70,5' --pattern striped --bytes 11 --nodes 2 --group 2 --describe --format csv
gives '# Bandwidth law: nodes of 12 ranks, 25 GB/s a network card and way
step cards binding      between nodes most of a card       GB/s           us
   0     6 packed             9000000        2000000     112.50        80.00
   0     6 round-robin        9000000        2000000     112.50        80.00
   0     8 packed             9000000        2000000     112.50        80.00
   0     8 round-robin        9000000        2000000     112.50        80.00' \
  --nodes 2 --group 12 --subgroup 9 --bytes 1000000 --law --nics 6,8

# What --describe prints in CSV is a pattern that --file takes.
one --pattern irregular16 --describe --format csv >"$work/irregular.csv"
gives "$(cat "$work/irregular.csv")" --pattern file --file "$work/irregular.csv" --describe --format csv
[[ $(wc -l <"$work/irregular.csv") == 170 ]] || fail "irregular16 has $(wc -l <"$work/irregular.csv") lines"

header=source,destination,source_offset,destination_offset,bytes
# file TEXT...: a line each.
file() { printf '%s\n' "$@" >"$work/pattern.csv"; }
file "$header" 0,1,0,0
refuses 1 "$work/pattern.csv:2: 4 fields, and the header has 5" --pattern file --file "$work/pattern.csv"
file "$header" 0,1,0,0,8 0,one,0,0,8
refuses 2 "$work/pattern.csv:3: destination is 'one', and no whole number from 0 on" \
  --pattern file --file "$work/pattern.csv"
file "$header" 0,1,0,0,8 0,1,8,4,8
conflict='message 0 writes and message 1 writes bytes 4 to 7 of rank 1'
refuses 1 "$work/pattern.csv: of step 0, messages counted from 0, $conflict" --pattern file --file "$work/pattern.csv"
file "$header" 0,2,0,0,8
refuses 2 'the pattern has 3 ranks, and the job 2' --pattern file --file "$work/pattern.csv"
refuses 1 "$work/none.csv: cannot be read" --pattern file --file "$work/none.csv"
refuses 2 "$work/none.csv: cannot be read" --pattern file --file "$work/none.csv"
refuses 1 "$work: cannot be read" --pattern file --file "$work"
refuses 1 '/dev/null: no message' --pattern file --file /dev/null
# A file that rank 0 alone can read is read by all.
file "$header" 0,1,0,0,8
status=0
"$mpirun" -n 2 /bin/sh -c 'rank=${PMI_RANK:-$OMPI_COMM_WORLD_RANK}
  [ "$rank" = 0 ] && cd "$1"
  exec "$2" --pattern file --file pattern.csv --mode mpi --iterations 2' sh "$work" "$PWD/$patterns" \
  >"$work/out" 2>"$work/err" || status=$?
if [[ $status == 0 ]] && grep -q '^mpi .* yes$' "$work/out"; then
  passed=$((passed + 1))
else
  fail "a file of rank 0 alone: exit status $status, $(cat "$work/out" "$work/err")"
fi
# What would take terabytes is refused before it is made.
file "$header" 0,1048575,0,0,1
refuses 1 '--describe: a matrix of 1048576 ranks, and as text it has at most 4096: --format csv gives the messages' \
  --pattern file --file "$work/pattern.csv" --describe
gives "step,$header
0,0,1048575,0,0,1" --pattern file --file "$work/pattern.csv" --describe --format csv
refuses 1 '--pattern dense: 2500000000 messages: 16777216 are the most' \
  --pattern dense --nodes 2 --group 50000 --law
refuses 1 '--pattern alltoall: 10000000000 messages: 16777216 are the most' \
  --pattern alltoall --nodes 2 --group 50000 --describe
refuses 2 '--nodes 2 of --group 500000: 1000000 ranks, and the job has 2' --nodes 2 --group 500000
for rate in nan inf 0 -1; do
  refuses 1 "--nic-rate $rate: a finite number above 0" --law --nic-rate "$rate"
done
none='is no whole number from 0 to 18446744073709551615'
refuses_option "--seed: '-3' $none" --pattern irregular16 --describe --seed -3
refuses_option "--seed: '99999999999999999999' $none" --pattern irregular16 --describe --seed 99999999999999999999
refuses_option "--total-bytes: '-3' $none" --pattern irregular16 --describe --total-bytes -3
refuses_option "--bytes: '-1' $none" --bytes -1 --describe
refuses_option "--stripes: '-4' $none" --pattern striped --nodes 2 --group 2 --stripes 8,-4 --describe
refuses 1 'a stripe of 18446744073709551615 bytes in --stripes: 2147483647 are the most' \
  --pattern direct --nodes 2 --group 2 --stripes 18446744073709551615,9 --describe
refuses 1 '--pattern file and --file go together' --file "$work/pattern.csv"
refuses 2 '--pattern fan: a fan goes out, in or bi: omni is of nodes that are alike' --pattern fan --direction omni
refuses 2 '--pattern rail: a subgroup of 2 ranks in a group of 1: it has 1 to 1' --subgroup 2
refuses 2 '2 --stripes, and a node has 1 ranks: one each' --pattern striped --stripes 4,5
refuses 2 '--part within: no message is such a one' --part within
refuses 2 '--part between: a reduction is of all its messages' --pattern reduce --part between

# Messages that are not read are not taken for right, and one is named. The MPI itself reads none so.
status=0
OMPI_MCA_btl_vader_single_copy_mechanism=none "$mpirun" -n 2 --env "LD_PRELOAD=$unread" "$patterns" --mode lanyard \
  --iterations 3 >"$work/out" 2>"$work/err" || status=$?
found='patterns: back end lanyard, iteration 1: byte 0 of rank 1 is 0x.. and should be 0x..'
message='message 0 of step 0, from rank 0 to rank 1, 65536 bytes'
if [[ $status == 1 ]] && grep -q '^lanyard .* NO$' "$work/out" && ! grep -q 'back end mpi' "$work/err" &&
  grep -q "^$found: $message$" "$work/err"; then
  passed=$((passed + 1))
else
  fail "unread messages: exit status $status, $(cat "$work/out" "$work/err")"
fi

# On the host there is no NCCL, so nothing has run that was asked for.
status=0
"$mpirun" -n 2 "$patterns" --mode nccl --iterations 2 --format json >"$work/out" 2>"$work/err" || status=$?
if [[ $status == 1 ]] && grep -qx 'patterns: no mode of --mode nccl could run' "$work/err" &&
  grep -q '"verified": false' "$work/out"; then
  passed=$((passed + 1))
else
  fail "no mode: exit status $status, $(cat "$work/out" "$work/err")"
fi

if /usr/bin/python3 -c 'import matplotlib' 2>/dev/null; then
  "$mpirun" -n 2 "$patterns" --iterations 3 --format csv >"$work/rows.csv" || fail "exit status $?"
  "$plot" --out "$work/pictures" "$work/rows.csv" "$work/irregular.csv" >"$work/names" || fail "plot: exit status $?"
  printf "$work/pictures/%s.png\n" pattern_matrix pattern_step | cmp - "$work/names" || fail "$(cat "$work/names")"
  while read -r picture; do
    [[ $(head -c 4 "$picture" | tail -c 3) == PNG ]] || fail "$picture is no picture"
  done <"$work/names"
fi
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
