#!/usr/bin/env bash
# What tools/install lays out is enough to build and run README's program outside of this tree: by pkg-config, from the
# archive, by CMake in C and in C++ and with the targets in either order, and under LD_PRELOAD.
#
#   installation_test.sh openmpi|mpich RANKS
set -euo pipefail
mpi=$1 ranks=$2
tree=$PWD
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/installation.XXXXXX")
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# run WHAT PROGRAM [NAME=VALUE...]: it says "verified" and ends with 0.
run() {
  local what=$1 program=$2 settings=() said
  shift 2
  for setting in "$@"; do settings+=(--env "$setting"); done
  said=$("$tree/tools/mpirun" --mpi "$mpi" -n "$ranks" ${settings[@]+"${settings[@]}"} "$program") ||
    fail "$what: $program ended with $?: $said"
  [[ $said == *verified* ]] || fail "$what: $program said '$said'"
  echo "verified: $what"
}

tools/installation/stage --sources . --built . --prefix "$prefix" --fortran "$mpi"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig CMAKE_PREFIX_PATH=$prefix
examples=$prefix/share/doc/lanyard/examples
[[ $(pkg-config --modversion "lanyard-$mpi") == 0.*.* ]] || fail "pkg-config gives no version"

cd "$work"  # nothing of the tree is in reach of the compilers from here on
compile=("mpicc.$mpi" -std=c11 -Wall -Wextra -Wpedantic -Werror)
read -ra flags <<<"$(pkg-config --cflags --libs "lanyard-$mpi")"
"${compile[@]}" "$examples/example.c" "${flags[@]}" -o ring || fail "pkg-config's flags do not build the program"
run "pkg-config" ./ring

# A program that names no function of Lanyard's still has its calls followed, so the archive is taken as a whole.
read -ra private <<<"$(pkg-config --libs --static "lanyard-$mpi")"
"${compile[@]}" "$examples/example.c" -I"$prefix/include" "$prefix/lib/liblanyard-$mpi.a" \
  $(printf '%s\n' "${private[@]}" | grep -v -e "-llanyard" -e "^-L" -e "^-Wl") -o ring-static ||
  fail "the archive does not build the program"
ldd ring-static | grep -q liblanyard && fail "the archive's program needs the shared library"
run "archive" ./ring-static

read -ra flags_f <<<"$(pkg-config --cflags --libs "lanyard-$mpi-fortran")"
"mpifort.$mpi" "$examples/halo.f90" "${flags_f[@]}" -o halo || fail "pkg-config's flags do not build the halo exchange"
run "Fortran, pkg-config" ./halo

make -s -C "$examples" MPI="$mpi" ring || fail "the examples' Makefile"
run "the examples' Makefile" "$examples/ring"

# The wrong order: the program's MPI is found first, and Lanyard says so instead of going wrong.
"mpicc.$mpi" "$examples/example.c" -I"$prefix/include" "$("mpicc.$mpi" -show | grep -o -e '-L[^ ]*' | sed -n '1s/-L//p')/$(
  [[ $mpi == mpich ]] && echo libmpich.so || echo libmpi.so)" "${flags[@]}" -o ring-late
if "$tree/tools/mpirun" --mpi "$mpi" -n 1 ./ring-late >late.log 2>&1; then fail "the wrong order went well"; fi
grep -q 'before' late.log || fail "the wrong order is not named: $(cat late.log)"
run "the wrong order with LD_PRELOAD" ./ring-late "LD_PRELOAD=$prefix/lib/liblanyard-$mpi.so.0"

cmake_project() {
  local folder=$1 language=$2 source=$3 libraries=$4
  mkdir "$folder"
  cp "$examples/example.c" "$folder/$source"
  cat >"$folder/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.13)
project(outside $language)
find_package(MPI REQUIRED)
find_package(Lanyard 0.1 REQUIRED)
add_executable(ring $source)
target_link_libraries(ring PRIVATE $libraries)
EOF
  cmake -S "$folder" -B "$folder/build" "-DMPI_C_COMPILER=mpicc.$mpi" "-DMPI_CXX_COMPILER=mpicxx.$mpi" \
    -DMPI_CXX_SKIP_MPICXX=ON >"$folder.log" 2>&1 && cmake --build "$folder/build" >>"$folder.log" 2>&1 ||
    { cat "$folder.log"; fail "CMake, $folder"; }
  run "CMake, $folder" "$folder/build/ring"
}
cmake_fortran() {
  mkdir f
  printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(outside Fortran)' 'find_package(Lanyard REQUIRED)' \
    "add_executable(halo $examples/halo.f90)" 'target_link_libraries(halo MPI::MPI_Fortran Lanyard::Fortran)' >f/CMakeLists.txt
  cmake -S f -B f/build "-DMPI_Fortran_COMPILER=mpifort.$mpi" >f.log 2>&1 && cmake --build f/build >>f.log 2>&1 ||
    { cat f.log; fail "CMake, Fortran"; }
  run "CMake, Fortran" f/build/halo
}
cmake_fortran
cmake_project c C ring.c "Lanyard::Lanyard"
cmake_project c-after-the-mpi C ring.c "MPI::MPI_C Lanyard::Lanyard"
cmake_project c++ CXX ring.cc "Lanyard::Lanyard MPI::MPI_CXX"

# Too new a version is refused, and so is an MPI that it was not installed for.
mkdir refused
other=openmpi
[[ $mpi == mpich ]] || other=mpich
for wanted in "9.0" "0.1 REQUIRED"; do
  printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' 'project(refused C)' "find_package(Lanyard $wanted)" \
    'if(NOT Lanyard_FOUND)' '  message(FATAL_ERROR "refused")' 'endif()' >refused/CMakeLists.txt
  compiler=$mpi
  [[ $wanted == 9.0 ]] || compiler=$other
  rm -rf refused/build
  if cmake -S refused -B refused/build "-DMPI_C_COMPILER=mpicc.$compiler" >refused.log 2>&1; then
    fail "find_package(Lanyard $wanted) with $compiler went well"
  fi
  [[ $wanted == 9.0 ]] || tr -s ' \n' ' ' <refused.log | grep -q "the MPI is $other, but there is no" ||
    fail "the missing library is not named: $(cat refused.log)"
done

# Only what users call is visible, and the library needs no folder of the build's.
strange=$(nm -D --defined-only "$prefix/lib/liblanyard-$mpi.so" | awk '{print $3}' |
  grep -vE '^(MPIX?_|lanyard_|LANYARD_0$)' || true)
[[ -z $strange ]] || fail "visible: $strange"
readelf -d "$prefix/lib/liblanyard-$mpi.so" | grep -qE 'RPATH|RUNPATH' && fail "the library has a search path"

"$prefix/bin/lanyard" fuzz --seconds 1 --jobs 1 >/dev/null || fail "the installed command: lanyard fuzz ended with $?"
FI_PROVIDER_PATH=$prefix/lib/lanyard fi_info -p cxi >/dev/null || fail "libfabric does not find the installed provider"
echo "everything holds"
