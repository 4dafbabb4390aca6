#!/usr/bin/env bash
# The files that tools/install installs suffice to build and run README's program outside of this
# tree: by pkg-config, with the archive, in Fortran, and under LD_PRELOAD. (CMake:
# installation_cmake_test.sh.)
#
#   installation_test.sh openmpi|mpich RANKS
set -euo pipefail
mpi=$1 ranks=$2
# shellcheck source=tests/install/installation.sh
source tests/install/installation.sh

stage --prefix "$prefix" --fortran
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
[[ $(pkg-config --modversion "lanyard-$mpi") == 0.*.* ]] || fail "pkg-config gives no version"
different=$(diff <(cd api/include/lanyard && ls) <(cd "$prefix/include/lanyard" && ls)) ||
  fail "the installed public headers differ from those of the tree: $different"

cd "$work"  # from here on the compilers find nothing of the tree
compile=("mpicc.$mpi" -std=c11 -Wall -Wextra -Wpedantic -Werror)
read -ra flags <<<"$(pkg-config --cflags --libs "lanyard-$mpi")"
"${compile[@]}" "$examples/example.c" "${flags[@]}" -o ring || fail "pkg-config's flags do not build the program"
run "pkg-config" ./ring

# Lanyard must intercept MPI calls also in a program that names none of its functions, so the whole
# archive is linked.
read -ra private <<<"$(pkg-config --libs --static "lanyard-$mpi")"
"${compile[@]}" "$examples/example.c" -I"$prefix/include" "$prefix/lib/liblanyard-$mpi.a" \
  $(printf '%s\n' "${private[@]}" | grep -v -e "-llanyard" -e "^-L" -e "^-Wl") -o ring-static ||
  fail "the archive does not build the program"
ldd ring-static | grep -q liblanyard && fail "the program linked with the archive needs the shared library"
run "archive" ./ring-static

read -ra flags_f <<<"$(pkg-config --cflags --libs "lanyard-$mpi-fortran")"
"mpifort.$mpi" "$examples/halo.f90" "${flags_f[@]}" -o halo || fail "pkg-config's flags do not build the halo exchange"
run "Fortran, pkg-config" ./halo

# Lanyard must also intercept calls under the MPI's own names for functions that MPI 3 lacks.
[[ $mpi != openmpi ]] || [[ $(nm "$prefix/lib/liblanyard_fortran-$mpi.a" | grep -c ' T mpix_bcast_init_') -gt 0 ]] ||
  fail "Lanyard's Fortran library does not intercept Open MPI's MPIX_Bcast_init"
  # A program without the module links the routines alone. A program may also compile the
  # module's source.
printf '%s\n' 'use mpi_f08' 'call MPI_Init()' 'print *, "verified"' 'call MPI_Finalize()' 'end' >plain.f90
read -ra flags_r <<<"$(pkg-config --cflags --libs "lanyard-$mpi-fortran-routines")"
"mpifort.$mpi" plain.f90 "${flags_r[@]}" -o plain || fail "the routines' flags do not build a program"
[[ $(nm plain | grep -c ' T mpi_init_f08_$') == 1 && -z $(nm plain | grep __lanyard_f08_own_MOD || true) ]] ||
  fail "a program without the module links the module, or does not call Lanyard's mpi_init_f08_"
run "Fortran without the module" ./plain
"mpifort.$mpi" "$prefix/share/lanyard/lanyard_f08.f90" "$examples/halo.f90" "${flags_r[@]}" -o halo-source ||
  fail "the module's source does not build with the program"
run "Fortran, the module from its source" ./halo-source

make -s -C "$examples" MPI="$mpi" all halo || fail "the examples' Makefile"
for program in ring ring_cpp heat solver halo; do run "the examples' Makefile, $program" "$examples/$program"; done

# Wrong link order: the program finds the MPI first, and Lanyard reports that.
"mpicc.$mpi" "$examples/example.c" -I"$prefix/include" "$("mpicc.$mpi" -show | grep -o -e '-L[^ ]*' | sed -n '1s/-L//p')/$(
  [[ $mpi == mpich ]] && echo libmpich.so || echo libmpi.so)" "${flags[@]}" -o ring-late
if "$tree/tools/mpirun" --mpi "$mpi" -n 1 ./ring-late >late.log 2>&1; then fail "a program linked in the wrong order runs"; fi
grep -q 'before' late.log || fail "no message about the wrong link order: $(cat late.log)"
run "the wrong order with LD_PRELOAD" ./ring-late "LD_PRELOAD=$prefix/lib/liblanyard-$mpi.so.0"

# The library for the other MPI reports that too.
other=$([[ $mpi == mpich ]] && echo openmpi || echo mpich)
"mpicc.$other" "$examples/example.c" -I"$prefix/include" "${flags[@]}" -o ring-other
if OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 "mpirun.$other" -n 1 ./ring-other >other.log 2>&1; then fail "the library for $mpi runs with $other"; fi
grep -q "this is liblanyard-$mpi, .*: link lanyard-$other in its place" other.log ||
  fail "no message about the library for another MPI: $(cat other.log)"

# The library and the archives export only what users call. The library has no build folder in
# its search path, and its dependencies define all that it calls, so that no user's program
# fails to load.
strange=$(nm -D --defined-only "$prefix/lib/liblanyard-$mpi.so" | awk '{print $3}' |
  grep -vE '^(MPI_|[Ll]anyard_|LANYARD_0$)' || true)
[[ -z $strange ]] || fail "the library exports other symbols: $strange"
for archive in "$prefix"/lib/*.a; do
  strange=$(nm --defined-only "$archive" | awk '$2 ~ /[A-Zuvw]/ {print $3}' |
    grep -vE '^(MPI_|[Ll]anyard_|mpix?_[a-z0-9_]*_$|__lanyard_f08_own_MOD_)' || true)
  [[ -z $strange ]] || fail "$archive exports other symbols: $strange"
  [[ $(nm --defined-only "$archive" | grep -c ' T ') -gt 0 ]] || fail "$archive is empty"
done
readelf -d "$prefix/lib/liblanyard-$mpi.so" | grep -qE 'RPATH|RUNPATH' && fail "the library has a search path (RPATH)"
missing=$(ldd -r "$prefix/lib/liblanyard-$mpi.so" 2>&1 | grep -E 'undefined symbol|not found' || true)
[[ -z $missing ]] || fail "the library has undefined symbols: $missing"
# $work may lie in the build folder, so this looks at a prefix that does not.
(cd "$tree" && stage --prefix /opt/lanyard --destdir "$work/opt" --fortran)
built_at=$(grep -rlaE 'execroot|processwrapper-sandbox' "$work/opt" || true)
[[ -z $built_at ]] || fail "these files contain the build folder's path: $built_at"

"$prefix/bin/lanyard" fuzz --seconds 1 --jobs 1 >/dev/null || fail "the installed lanyard fuzz exits with status $?"
for page in installing guide gpus porting; do
  [[ -s $prefix/share/doc/lanyard/$page.md ]] || fail "$page.md is not installed"
done
dangling=$(cd "$prefix/share/doc/lanyard" && grep -ohE '\]\([^)#]+' -- *.md | cut -c3- | grep -v '^https:' | sort -u |
  while read -r file; do [[ -e $file ]] || echo "$file"; done)
[[ -z $dangling ]] || fail "the installed documents have broken links: $dangling"
FI_PROVIDER_PATH=$prefix/lib/lanyard fi_info -p cxi >/dev/null || fail "libfabric does not find the installed provider"

cd "$tree"
# A site's MPICH without its compiler wrapper is refused before anything is built: the linker
# would not find it.
status=0
said=$(env -u CC MPICH_HOME="$work/none" tools/install --no-setup --mpi mpich --prefix "$work/none" 2>&1) || status=$?
[[ $status == 2 && $said == *"CC=$work/none/bin/mpicc"* ]] || fail "MPICH_HOME without CC: $status, $said"

# Prefixes with characters that sed, the shell and pkg-config interpret.
odd=$work/"a b & c|d\\"
status=0
stage --prefix "$odd" 2>/dev/null || status=$?
[[ $status == 2 && ! -e $odd ]] || fail "a prefix with a final backslash is not refused: status $status"
odd=${odd%\\}
stage --prefix "$odd" --libdir 'lib&|64'
(
  cd "$work"
  export PKG_CONFIG_PATH="$odd/lib&|64/pkgconfig"
  eval "flags=($(pkg-config --cflags --libs "lanyard-$mpi"))"
  "${compile[@]}" "$examples/example.c" "${flags[@]}" -o ring-odd || fail "pkg-config's flags do not build with prefix $odd"
)
run "a prefix with special characters" "$work/ring-odd"
stage --prefix / --destdir "$(realpath --relative-to=. "$work")/root"
[[ -x $work/root/bin/lanyard && $(grep -h ^libdir "$work/root/lib/pkgconfig/lanyard-$mpi.pc") == "libdir=\${prefix}/lib" &&
  $(grep -h ^prefix= "$work/root/lib/pkgconfig/lanyard-$mpi.pc") == prefix= ]] || fail "--prefix /, below a folder"

# --remove removes all installed files and nothing else, also those of an earlier installation.
mkdir -p "$work/shared/share/man" "$work/shared/lib"
touch "$work/shared/lib/mine"
(cd "$work/shared" && find . | sort) >"$work/before"
stage --prefix "$work/shared" --fortran
rm "$work/shared/bin/lanyard"  # a file removed by hand does no harm
stage --prefix "$work/shared" --libdir other
[[ $(stat -c %a "$work/shared/share/lanyard/files") == 644 ]] || fail "other users cannot read the list of installed files"
tools/install --remove --prefix "$work/shared" >"$work/said" || fail "tools/install --remove exits with status $?"
[[ -d $work/shared ]] || fail "--remove removed a prefix that existed before the installation"
(cd "$work/shared" && find . | sort) | diff "$work/before" - || fail "--remove left installed files or removed others"
status=0
said=$(tools/install --remove --prefix "$work/shared" 2>&1) || status=$?
[[ $status == 1 && $said == *"nothing of Lanyard's is installed in $work/shared"* ]] || fail "a second --remove: status $status, $said"
stage --prefix "$work/own"
tools/install --remove --prefix "$work/own" >"$work/said" && [[ ! -e $work/own ]] ||
  fail "--remove left the prefix that the installation created"
  # A failed installation leaves the existing one unchanged.
stage --prefix "$work/shared"
(cd "$work/shared" && find . -type f -exec md5sum {} + | sort) >"$work/before"
if (tools/installation/stage --sources . --built "$work" --prefix "$work/shared" "$mpi") 2>"$work/said"; then
  fail "an installation without a build succeeds"
fi
(cd "$work/shared" && find . -type f -exec md5sum {} + | sort) | diff "$work/before" - || fail "a failed installation changed the existing one"
echo "everything holds"
