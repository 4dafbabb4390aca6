#!/usr/bin/env bash
# Compiles the halo's adaptor for Kokkos, outside of Bazel, and runs it, where Kokkos is installed.
#
#   kokkos_test.sh TOOLS_MPIRUN LIBRARY
set -euo pipefail
mpirun=$1 library=$2
kokkos=/usr/include/trilinos
if [[ ! -e $kokkos/Kokkos_Core.hpp ]]; then
  echo "SKIPPED: Kokkos is not installed (apt-get install libtrilinos-kokkos-dev)"
  exit 0
fi
program=$TEST_TMPDIR/kokkos_test
ln -s "$PWD/$library" "$TEST_TMPDIR/liblanyard-openmpi.so.0"
mpicxx.openmpi -std=c++20 -Wall -Wextra -Werror -DOMPI_SKIP_MPICXX -Iapi/include -Ibench -isystem "$kokkos" \
  tests/halo/kokkos_test.cc "$library" "-Wl,-rpath,$TEST_TMPDIR" -ltrilinos_kokkoscore -o "$program"
said=$("$mpirun" -n 4 "$program")
echo "$said"
[[ $said == *verified* ]]
