#!/usr/bin/env bash
# find_package(Lanyard) of an installation builds README's program: in C, C++ and both, with the
# targets in either order, with the MPI's wrapper as compiler, in Fortran with the compiled module
# or from its source. When it refuses, it names what is missing.
#
#   installation_cmake_test.sh openmpi|mpich RANKS
set -euo pipefail
mpi=$1 ranks=$2
# shellcheck source=tests/install/installation.sh
source tests/install/installation.sh

stage --prefix "$prefix" --fortran
stage --prefix "$work/a b & c"
cd "$work"
export CMAKE_PREFIX_PATH=$prefix
wrapped=("-DMPI_C_COMPILER=mpicc.$mpi" "-DMPI_CXX_COMPILER=mpicxx.$mpi" "-DMPI_Fortran_COMPILER=mpifort.$mpi")

# project FOLDER LANGUAGES SOURCE LIBRARIES [OPTION...]: builds and runs a project.
project() {
  local folder=$1 languages=$2 source=$3 libraries=$4
  shift 4
  mkdir "$folder"
  cp "$examples/$source" "$folder/" 2>/dev/null || cp "$source" "$folder/"
  cat >"$folder/CMakeLists.txt" <<EOF
cmake_minimum_required(VERSION 3.13)
project(outside $languages)
find_package(Lanyard 0.1 REQUIRED)
find_package(MPI REQUIRED)
add_executable(program $source)
target_link_libraries(program PRIVATE $libraries)
if(NOT CMAKE_MINIMUM_REQUIRED_VERSION STREQUAL "3.13")
  message(FATAL_ERROR "find_package(Lanyard) changes what the project requires")
endif()
EOF
  cmake -S "$folder" -B "$folder/build" "$@" >"$folder.log" 2>&1 &&
    cmake --build "$folder/build" --verbose >>"$folder.log" 2>&1 || { cat "$folder.log"; fail "CMake, $folder"; }
  run "CMake, $folder" "$folder/build/program"
}

cmake -S "$examples" -B examples -DFORTRAN=ON "${wrapped[@]}" >examples.log 2>&1 &&
  cmake --build examples >>examples.log 2>&1 || { cat examples.log; fail "CMake, the examples"; }
for program in ring ring_cpp heat solver halo; do run "CMake, the examples, $program" "examples/$program"; done
cp "$examples/example.c" example.cc  # valid C++ too
project c C example.c "Lanyard::Lanyard" "${wrapped[@]}"
project c-after-the-mpi C example.c "MPI::MPI_C Lanyard::Lanyard" "${wrapped[@]}"
project c++ CXX example.cc "Lanyard::Lanyard MPI::MPI_CXX" "${wrapped[@]}"
# A C++ program also gets the C++ bindings of the MPI's headers, if there are any.
project c++-beside-c "C CXX" example.cc "Lanyard::Lanyard" "${wrapped[@]}"
project wrapper-as-compiler C example.c "Lanyard::Lanyard" "-DCMAKE_C_COMPILER=mpicc.$mpi"
project fortran Fortran halo.f90 "MPI::MPI_Fortran Lanyard::Fortran" "${wrapped[@]}"
project fortran-from-source "C Fortran" halo.f90 "Lanyard::Fortran" -DLanyard_FORTRAN_SOURCE=ON "${wrapped[@]}"
project fortran-wrapper-as-compiler Fortran halo.f90 "Lanyard::Fortran" "-DCMAKE_Fortran_COMPILER=mpifort.$mpi"
ln -s "$prefix/lib/cmake/Lanyard" elsewhere
CMAKE_PREFIX_PATH='' project found-by-a-link C example.c "Lanyard::Lanyard" "-DLanyard_DIR=$work/elsewhere" "${wrapped[@]}"
CMAKE_PREFIX_PATH="$work/a b & c" project strange-letters C example.c "Lanyard::Lanyard" "${wrapped[@]}"

# refused LANGUAGES ARGUMENTS REASON [OPTION...]: find_package fails and prints REASON, but with
# QUIET prints nothing.
refused() {
  local languages=$1 arguments=$2 reason=$3
  shift 3
  rm -rf refused
  mkdir refused
  printf '%s\n' 'cmake_minimum_required(VERSION 3.13)' "project(refused $languages)" \
    "find_package(Lanyard $arguments QUIET)" 'message(STATUS "from here on")' 'if(Lanyard_FOUND)' \
    '  message(FATAL_ERROR "found")' 'endif()' "find_package(Lanyard $arguments)" >refused/CMakeLists.txt
  cmake -S refused -B refused/build "$@" >refused.log 2>&1 || fail "find_package(Lanyard $arguments): $(cat refused.log)"
  sed '/from here on/,$d' refused.log | grep -iq lanyard && fail "find_package prints in spite of QUIET: $(cat refused.log)"
  tr -s ' \n' ' ' <refused.log | grep -qF -- "$reason" || fail "find_package(Lanyard $arguments): expected '$reason', got $(cat refused.log)"
  echo "refused: $reason"
}
other=openmpi
[[ $mpi == mpich ]] || other=mpich
refused C 9.0 'requested version "9.0"' "${wrapped[@]}"
refused C 0.1 "the MPI is $other, but there is no" "-DMPI_C_COMPILER=mpicc.$other"
refused C 0.1 "the MPI is $other, but there is no" "-DCMAKE_C_COMPILER=mpicc.$other"
refused NONE 0.1 'project(... LANGUAGES CXX)'
refused C "0.1 COMPONENTS Fortran" 'the language is not enabled' "${wrapped[@]}"
refused C "0.1 COMPONENTS Ada" 'no component Ada' "${wrapped[@]}"
CMAKE_PREFIX_PATH="$work/a b & c" refused Fortran "0.1 COMPONENTS Fortran" "there is no $work/a b & c/lib/liblanyard_fortran" \
  "${wrapped[@]}"
echo "everything holds"
