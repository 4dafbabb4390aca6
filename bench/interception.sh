#!/usr/bin/env bash
# Counts, with callgrind, the instructions that Lanyard adds to MPI's own calls.
set -euo pipefail

usage() {
  cat <<'END'
usage: bench/interception.sh [options] [PROGRAM]

  --times N   makes each call so often (default: 200)
  --mpi NAME  openmpi or mpich, as tools/mpirun takes it (default: openmpi)
  --help      this text

PROGRAM is //bench:interception (default: bazel-bin/bench/interception). Prints, tab-separated, for each call the
instructions that it takes more than by its profiling name: with nothing of Lanyard's alive, beside a persistent request
that was never matched, and beside matched ones. Exit status: 0; 2 for wrong usage or something missing; else the
program's.
END
}

die() {
  echo "interception.sh: $*" >&2
  exit 2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
times=200 mpi=openmpi program=$root/bazel-bin/bench/interception
while [[ $# -gt 0 ]]; do
  case $1 in
    --times | --mpi)
      [[ $# -ge 2 ]] || die "$1 needs a value (see --help)" ;;&
    --times) times=$2; shift 2 ;;
    --mpi) mpi=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) die "unknown option $1 (see --help)" ;;
    *) program=$1; shift ;;
  esac
done
[[ $times =~ ^[1-9][0-9]*$ ]] || die "--times wants a positive number, not '$times'"
if [[ $mpi == mpich && -x ${program}_mpich ]]; then program=${program}_mpich; fi
[[ -x $program ]] || die "$program: no such program; build it with: bazel build //bench:all"
command -v valgrind >/dev/null || die "valgrind not found: apt-get install valgrind"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/tools/mpirun" --mpi "$mpi" -n 1 \
  valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no --callgrind-out-file="$work/out" \
  "$program" --instructions "$times" >"$work/log" 2>&1 ||
  { status=$?; cat "$work/log" >&2; exit "$status"; }
compgen -G "$work/out.*" >/dev/null ||
  die "$program counted nothing: was it built without valgrind's headers (apt: valgrind)?"

# Each part is one loop: its label, as the program gave it, and its total.
awk -v times="$times" '
  /^desc: Trigger: Client Request: / { call = $5; alive = $6; layer = $7 }
  /^totals:/ {
    if (!(call in seen)) { seen[call] = 1; order[n++] = call }
    loops = call == "Comm_dup+free" ? int(times / 10) > 0 ? int(times / 10) : 1 : times
    total[call, alive, layer] = $2 / loops
  }
  END {
    split("nothing persistent matched", columns, " ")
    printf "call\tnothing\tpersistent\tmatched\n"
    for (i = 0; i < n; ++i) {
      printf "%s", order[i]
      for (c = 1; c <= 3; ++c)
        if ((order[i], columns[c], "mpi") in total)
          printf "\t%.1f", total[order[i], columns[c], "lanyard"] - total[order[i], columns[c], "mpi"]
        else
          printf "\t-"
      printf "\n"
    }
  }' $(ls "$work"/out.* | sort -t. -k2 -V)
