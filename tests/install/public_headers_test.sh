#!/usr/bin/env bash
# Each public header compiles alone and without a warning, in every language that it supports, with
# every installed compiler and each MPI. So does a program that uses the headers and instantiates
# their templates. C++ headers also compile without exceptions.
#
#   public_headers_test.sh PROGRAM.cc HEADER...
#
# The MPI's headers come by -isystem, so that only Lanyard's can warn.
set -uo pipefail
program=$1
shift
warnings=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual -Werror)
compiled=0 failed=0

# Prints the folders of an MPI's headers, as its compiler wrapper names them.
folders() {
  case $1 in
    openmpi) mpicc.openmpi --showme:incdirs ;;
    mpich) mpicc.mpich -show ;;
  esac | tr ' ' '\n' | sed -n 's/^-I//p; /^\//p'
}

# compiles COMPILER LANGUAGE STANDARD FILE OPTION...: compiles FILE alone with $mpi.
compiles() {
  local options=(-x "$2" "-std=$3" "${warnings[@]}" -I "$include" "${@:5}")
  [[ $2 == c ]] || options+=(-Wold-style-cast)
  [[ $1 != g++* ]] || options+=(-Wuseless-cast)
  for folder in $folders; do options+=(-isystem "$folder"); done
  compiled=$((compiled + 1))
  # Optimized, because some warnings need that.
  "$1" "${options[@]}" -O1 -c -o /dev/null "$4" ||
    { echo "FAILED: $1 $mpi $3 ${4##*/} ${*:5}"; failed=$((failed + 1)); }
}

scratch=$(mktemp -d "${TEST_TMPDIR:-/tmp}/public_headers.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
include=$(cd "$(dirname "$1")/.." && pwd)
for header in "$@"; do
  name=lanyard/${header##*/}
  # Included twice, as in a program.
  printf '#include <%s>\n#include <%s>\nint nothing_else;\n' "$name" "$name" >"$scratch/${header##*/}.cc"
done
for mpi in openmpi mpich; do
  folders=$(folders "$mpi")
  [[ -n $folders ]] || { echo "FAILED: no headers of $mpi"; failed=$((failed + 1)); continue; }
  for family in 'gcc g++' 'clang clang++' gcc-{11..16}' g++' clang-{13..22}' clang++'; do
    read -r cc cxx <<<"$family"
    [[ $cc != *-* ]] || cxx+=-${cc#*-}
    command -v "$cxx" >/dev/null || { [[ $cc == *-* ]] || echo "skipped: $cxx is not installed"; continue; }
    for standard in c11 c17; do
      for source in "$scratch"/*.h.cc; do compiles "$cc" c "$standard" "$source"; done
    done
    for standard in c++17 c++20; do
      for source in "$scratch"/*.cc "$program"; do compiles "$cxx" c++ "$standard" "$source"; done
      for source in "$scratch"/*.hpp.cc; do compiles "$cxx" c++ "$standard" "$source" -fno-exceptions; done
    done
  done
done
echo "$compiled compiled, $failed failed"
[[ $compiled -gt 0 && $failed -eq 0 ]]
