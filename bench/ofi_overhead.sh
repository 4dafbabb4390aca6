#!/usr/bin/env bash
# Counts, with callgrind, the instructions that posting a start's deferred work costs the calling thread: through the
# driver, and by libfabric's calls alone.
set -euo pipefail

usage() {
  cat <<'END'
usage: bench/ofi_overhead.sh [options] [PROGRAM]

  --starts N        starts to count over (default: 512)
  --provider NAME   cxi, sockets, or both (default: both)
  --keep DIR        leave callgrind's files there, for callgrind_annotate
  --help            this text

PROGRAM is //bench:ofi_overhead (default: bazel-bin/bench/ofi_overhead). The provider cxi is the simulated one, from
bazel-bin/nicsim/fi unless FI_PROVIDER_PATH says otherwise. Prints, tab-separated, a line for each provider and kind of
start: instructions a start by hand, through the driver, and the difference in percent. Exit status: 0; 2 for wrong
usage or something missing; else the program's.
END
}

die() {
  echo "ofi_overhead.sh: $*" >&2
  exit 2
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
starts=512 providers="cxi sockets" keep=''
program=$root/bazel-bin/bench/ofi_overhead
while [[ $# -gt 0 ]]; do
  case $1 in
    --starts | --provider | --keep)
      [[ $# -ge 2 ]] || die "$1 needs a value (see --help)" ;;&
    --starts) starts=$2; shift 2 ;;
    --provider) providers=$2; shift 2 ;;
    --keep) keep=$2; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) die "unknown option $1 (see --help)" ;;
    *) program=$1; shift ;;
  esac
done
[[ $providers != both ]] || providers="cxi sockets"
[[ $starts =~ ^[1-9][0-9]*$ ]] || die "--starts wants a positive number, not '$starts'"
[[ -x $program ]] || die "$program: no such program; build it with: bazel build //bench:ofi_overhead"
command -v valgrind >/dev/null || die "valgrind not found: apt-get install valgrind"
export FI_PROVIDER_PATH=${FI_PROVIDER_PATH:-$root/bazel-bin/nicsim/fi}

if [[ -n $keep ]]; then
  mkdir -p "$keep"
  work=$keep
else
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
fi

# Instructions a start; $1: provider, $2: hand or driver, $3: send or atomic.
count() {
  local file=$work/callgrind.$1.$2.$3 log=$work/log.$1.$2.$3
  rm -f "$file"
  FI_PROVIDER=$1 valgrind --tool=callgrind --instr-atstart=no --collect-atstart=no --callgrind-out-file="$file" \
    "$program" --provider "$1" --by "$2" --what "$3" --starts "$starts" >"$log" 2>&1 ||
    { local status=$?; cat "$log" >&2; return "$status"; }
  awk -v starts="$starts" '/^(totals|summary):/ { total = $2 }
    END { if (total + 0 == 0) exit 1; printf "%.1f", total / starts }' "$file" ||
    die "$program counted nothing: was it built without valgrind's headers (apt: valgrind)?"
}

printf 'provider\tstart\tby hand\tdriver\tmore\n'
for provider in $providers; do
  for what in send atomic; do
    hand=$(count "$provider" hand "$what")
    driver=$(count "$provider" driver "$what")
    awk -v p="$provider" -v w="$what" -v h="$hand" -v d="$driver" \
      'BEGIN { printf "%s\t%s\t%.1f\t%.1f\t%+.1f %%\n", p, w, h, d, 100 * (d - h) / h }'
  done
done
