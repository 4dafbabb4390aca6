#!/usr/bin/env bash
# bench/plot draws what the benchmarks print, by its columns' names, and nothing of what is wrong.
#
#   plot_test.sh TOOLS_MPIRUN PINGPONG GAME_OF_LIFE JACOBI CG COLLECTIVES PLOT
set -euo pipefail
mpirun=$1 pingpong=$2 game_of_life=$3 jacobi=$4 cg=$5 collectives=$6 plot=$7
/usr/bin/python3 -c 'import matplotlib' 2>/dev/null || { echo "skipped: matplotlib is not installed"; exit 0; }
work=$TEST_TMPDIR
export MPLCONFIGDIR=$work

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

"$mpirun" -n 2 "$pingpong" --mode sendrecv,mpi,send --max-bytes 16 --iterations 5 --trials 1 --overlap --format csv \
  >"$work/trips.csv"
"$mpirun" -n 2 "$game_of_life" --size 60 --steps 20 --format csv >"$work/steps.csv"
"$mpirun" -n 2 "$jacobi" --size 30 --steps 20 --format csv >"$work/jacobi.csv"
"$mpirun" -n 2 "$cg" --poisson 2d --size 10 --trials 1 --warmup 1 --measure 0 --format csv >"$work/cg.csv"
"$mpirun" -n 2 "$collectives" --bytes 8,64 --operations 20 --batch 10 --trials 1 --format csv >"$work/collectives.csv"
"$plot" --out "$work/pictures" "$work"/{trips,steps,jacobi,cg,collectives}.csv >"$work/names"
printf "$work/pictures/%s.png\n" half_round_trip ratio halo_step jacobi_step cg_iteration collective |
  cmp - "$work/names" || fail "$(cat "$work/names")"
while read -r picture; do
  [[ $(head -c 4 "$picture" | tail -c 3) == PNG ]] || fail "$picture is no picture"
done <"$work/names"

sed '2s/,true,/,false,/' "$work/steps.csv" >"$work/wrong.csv"
cmp -s "$work/steps.csv" "$work/wrong.csv" && fail "no row was made a wrong one"
status=0
"$plot" --out "$work/none" "$work/wrong.csv" || status=$?
[[ $status == 1 && ! -e $work/none ]] || fail "a wrong row: exit status $status"
head -n 1 "$work/steps.csv" >"$work/empty.csv"
status=0
"$plot" --out "$work/none" "$work/empty.csv" || status=$?
[[ $status == 2 && ! -e $work/none ]] || fail "no row: exit status $status"
echo passed
