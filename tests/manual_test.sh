#!/usr/bin/env bash
# Each program in a manual page builds without a warning and runs with 2 ranks, each function and variable has its page,
# and the pages are without troff's complaints.
#
#   manual_test.sh openmpi|mpich
set -euo pipefail
mpi=$1
tree=$PWD
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/manual.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

tools/installation/stage --sources . --built . --prefix "$work/prefix" "$mpi"
manual=$work/prefix/share/man
export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs "lanyard-$mpi")"

for name in $(sed -n 's/^\(int\|LANYARD_DEVICE_FUNCTION [a-z]*\) \(MPIX_[A-Za-z_]*\)(.*/\2/p' \
  "$work"/prefix/include/lanyard/*.h); do
  [[ -e $manual/man3/$name.3 ]] || fail "$name has no page"
done
for variable in $(grep -oh '"LANYARD_[A-Z_]*"' api/settings.cc | tr -d '"' | sort -u); do
  grep -q "$variable" "$manual/man7/lanyard.7" || fail "lanyard(7) does not know $variable"
done

ran=0
for page in "$manual"/man3/*.3 "$manual/man7/lanyard.7"; do
  name=$(basename "$page")
  [[ -z $(cd "$manual" && LC_ALL=C.UTF-8 MANROFFOPT=-Wbreak man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null) ]] ||
    fail "$name: troff complains"
  grep -q '^\.so ' "$page" && continue  # another one's
  api/man/example_of "$page" >"$work/$name.c" || fail "$name has no example"
  "mpicc.$mpi" -std=c11 -Wall -Wextra -Wpedantic -Werror "$work/$name.c" "${flags[@]}" -o "$work/$name.run" ||
    fail "the example of $name does not build"
  "$tree/tools/mpirun" --mpi "$mpi" -n 2 --env LANYARD_WARN_S=5 "$work/$name.run" >"$work/log" 2>&1 ||
    fail "the example of $name ended with $?: $(cat "$work/log")"
  ran=$((ran + 1))
done
[[ $ran -ge 14 ]] || fail "only $ran examples ran"
echo "$ran examples hold"
