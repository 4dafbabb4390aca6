#!/usr/bin/env bash
# Counts, with callgrind, the instructions that a start and its wait cost the calling thread.
set -euo pipefail

usage() {
  cat <<'END'
usage: bench/enqueue_instructions.sh [options] [PROGRAM]

  --pairs N       start+wait pairs to count over (default: 512)
  --live "A B.."  numbers of other matched requests, even (default: "0 16 128 1024")
  --exchange N    of an exchange of N sends and N receives in place of pairs
  --kind NAME     send or rsend (default: send)
  --mpi NAME      openmpi or mpich, as tools/mpirun takes it (default: openmpi)
  --keep DIR      leave callgrind's files there, for callgrind_annotate
  --help          this text

PROGRAM is //bench:enqueue_cost (default: bazel-bin/bench/enqueue_cost). Prints, tab-separated, a
line for each number of live requests: instructions per start+wait pair of a send, of a receive, and
their mean; or per start and wait of an exchange. Exit status: 0; 2 for wrong usage or something missing; else the program's.
END
}

die() {
  echo "enqueue_instructions.sh: $*" >&2
  exit 2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pairs=512 live="0 16 128 1024" kind=send mpi=openmpi keep='' each_way=''
program=$root/bazel-bin/bench/enqueue_cost
while [[ $# -gt 0 ]]; do
  case $1 in
    --pairs | --live | --kind | --mpi | --keep | --exchange)
      [[ $# -ge 2 ]] || die "$1 needs a value (see --help)" ;;&
    --pairs) pairs=$2; shift 2 ;;
    --live) live=$2; shift 2 ;;
    --kind) kind=$2; shift 2 ;;
    --exchange) each_way=$2; shift 2 ;;
    --mpi) mpi=$2; shift 2 ;;
    --keep) keep=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) die "unknown option $1 (see --help)" ;;
    *) program=$1; shift ;;
  esac
done
[[ $pairs =~ ^[1-9][0-9]*$ ]] || die "--pairs wants a positive number, not '$pairs'"
if [[ $mpi == mpich && -x ${program}_mpich ]]; then program=${program}_mpich; fi
[[ -x $program ]] || die "$program: no such program; build it with: bazel build //bench:all"
command -v valgrind >/dev/null || die "valgrind not found: apt-get install valgrind"

if [[ -n $keep ]]; then
  mkdir -p "$keep"
  work=$keep
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi

# Instructions per pair of one measurement; $1: live requests, $2: send, receive or exchange.
count() {
  local file=$work/callgrind.$kind.$2.live$1 log=$work/log.$kind.$2.live$1
  rm -f "$file"
  "$root/tools/mpirun" --mpi "$mpi" -n 1 \
    valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no \
    --callgrind-out-file="$file" \
    "$program" --pairs "$pairs" --live "$1" --kind "$kind" --measure "$2" --each-way "${each_way:-1}" >"$log" 2>&1 ||
    { local status=$?; cat "$log" >&2; return "$status"; }
  awk -v pairs="$pairs" '/^(totals|summary):/ { total = $2 }
    END { if (total + 0 == 0) exit 1; printf "%.1f", total / pairs }' "$file" ||
    die "$program counted nothing: was it built without valgrind's headers (apt: valgrind)?"
}

if [[ -n $each_way ]]; then
  printf 'live\texchange\n'
  for n in $live; do
    exchange=$(count "$n" exchange)
    printf '%d\t%s\n' "$n" "$exchange"
  done
  exit 0
fi
printf 'live\tsend\treceive\tmean\n'
for n in $live; do
  send=$(count "$n" send)
  receive=$(count "$n" receive)
  awk -v n="$n" -v s="$send" -v r="$receive" \
    'BEGIN { printf "%d\t%.1f\t%.1f\t%.1f\n", n, s, r, (s + r) / 2 }'
done
