#!/usr/bin/env bash
# What tools/install lays out is enough to build and run README's program outside of this tree: by pkg-config, from the
# archive, in Fortran, and under LD_PRELOAD. (installation_cmake_test.sh has CMake.)
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
  fail "not all public headers are installed, or others: $different"

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

# Nor is a call lost that has the MPI's own name for what MPI 3 does not have.
[[ $mpi != openmpi ]] || [[ $(nm "$prefix/lib/liblanyard_fortran-$mpi.a" | grep -c ' T mpix_bcast_init_') -gt 0 ]] ||
  fail "MPIX_Bcast_init by the MPI's own bindings does not come by Lanyard"
# A program without the module takes the routines alone; and one may bring the module from its source.
printf '%s\n' 'use mpi_f08' 'call MPI_Init()' 'print *, "verified"' 'call MPI_Finalize()' 'end' >plain.f90
read -ra flags_r <<<"$(pkg-config --cflags --libs "lanyard-$mpi-fortran-routines")"
"mpifort.$mpi" plain.f90 "${flags_r[@]}" -o plain || fail "the routines' flags do not build a program"
[[ $(nm plain | grep -c ' T mpi_init_f08_$') == 1 && -z $(nm plain | grep __lanyard_f08_own_MOD || true) ]] ||
  fail "a program without the module has it, or calls the MPI's own routines"
run "Fortran without the module" ./plain
"mpifort.$mpi" "$prefix/share/lanyard/lanyard_f08.f90" "$examples/halo.f90" "${flags_r[@]}" -o halo-source ||
  fail "the module's source does not build with the program"
run "Fortran, the module from its source" ./halo-source

make -s -C "$examples" MPI="$mpi" all halo || fail "the examples' Makefile"
for program in ring ring_cpp halo; do run "the examples' Makefile, $program" "$examples/$program"; done

# The wrong order: the program's MPI is found first, and Lanyard says so instead of going wrong.
"mpicc.$mpi" "$examples/example.c" -I"$prefix/include" "$("mpicc.$mpi" -show | grep -o -e '-L[^ ]*' | sed -n '1s/-L//p')/$(
  [[ $mpi == mpich ]] && echo libmpich.so || echo libmpi.so)" "${flags[@]}" -o ring-late
if "$tree/tools/mpirun" --mpi "$mpi" -n 1 ./ring-late >late.log 2>&1; then fail "the wrong order went well"; fi
grep -q 'before' late.log || fail "the wrong order is not named: $(cat late.log)"
run "the wrong order with LD_PRELOAD" ./ring-late "LD_PRELOAD=$prefix/lib/liblanyard-$mpi.so.0"

# The library for the other MPI, too.
other=$([[ $mpi == mpich ]] && echo openmpi || echo mpich)
"mpicc.$other" "$examples/example.c" -I"$prefix/include" "${flags[@]}" -o ring-other
if OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 "mpirun.$other" -n 1 ./ring-other >other.log 2>&1; then fail "the library for $mpi took $other"; fi
grep -q "this is liblanyard-$mpi, .*: link lanyard-$other in its place" other.log ||
  fail "the library for another MPI is not named: $(cat other.log)"

# Only what users call is visible, in the library and in the archives. It needs no folder of the build's, and finds all
# that it calls: a shared library that lacks the MPI would say so in the user's program first.
strange=$(nm -D --defined-only "$prefix/lib/liblanyard-$mpi.so" | awk '{print $3}' |
  grep -vE '^(MPI_|[Ll]anyard_|LANYARD_0$)' || true)
[[ -z $strange ]] || fail "visible: $strange"
for archive in "$prefix"/lib/*.a; do
  strange=$(nm --defined-only "$archive" | awk '$2 ~ /[A-Zuvw]/ {print $3}' |
    grep -vE '^(MPI_|[Ll]anyard_|mpix?_[a-z0-9_]*_$|__lanyard_f08_own_MOD_)' || true)
  [[ -z $strange ]] || fail "visible in $archive: $strange"
  [[ $(nm --defined-only "$archive" | grep -c ' T ') -gt 0 ]] || fail "$archive has nothing in it"
done
readelf -d "$prefix/lib/liblanyard-$mpi.so" | grep -qE 'RPATH|RUNPATH' && fail "the library has a search path"
missing=$(ldd -r "$prefix/lib/liblanyard-$mpi.so" 2>&1 | grep -E 'undefined symbol|not found' || true)
[[ -z $missing ]] || fail "the library lacks: $missing"
# Of a prefix that has nothing of the build's folder, which $work may well be in.
(cd "$tree" && stage --prefix /opt/lanyard --destdir "$work/opt" --fortran)
built_at=$(grep -rlaE 'execroot|processwrapper-sandbox' "$work/opt" || true)
[[ -z $built_at ]] || fail "these name the folder they were built in: $built_at"

"$prefix/bin/lanyard" fuzz --seconds 1 --jobs 1 >/dev/null || fail "the installed command: lanyard fuzz ended with $?"
for page in installing guide gpus porting; do
  [[ -s $prefix/share/doc/lanyard/$page.md ]] || fail "there is no $page.md"
done
dangling=$(cd "$prefix/share/doc/lanyard" && grep -ohE '\]\([^)#]+' -- *.md | cut -c3- | grep -v '^https:' | sort -u |
  while read -r file; do [[ -e $file ]] || echo "$file"; done)
[[ -z $dangling ]] || fail "the installed documents link to what is not there: $dangling"
FI_PROVIDER_PATH=$prefix/lib/lanyard fi_info -p cxi >/dev/null || fail "libfabric does not find the installed provider"

cd "$tree"
# A site's MPICH without its wrapper, whose functions no linker finds, is refused before anything is built.
status=0
said=$(env -u CC MPICH_HOME="$work/none" tools/install --no-setup --mpi mpich --prefix "$work/none" 2>&1) || status=$?
[[ $status == 2 && $said == *"CC=$work/none/bin/mpicc"* ]] || fail "MPICH_HOME without CC: $status, $said"

# Prefixes that sed, the shell and pkg-config have views of their own on.
odd=$work/"a b & c|d\\"
status=0
stage --prefix "$odd" 2>/dev/null || status=$?
[[ $status == 2 && ! -e $odd ]] || fail "a prefix that no quoting takes: $status"
odd=${odd%\\}
stage --prefix "$odd" --libdir 'lib&|64'
(
  cd "$work"
  export PKG_CONFIG_PATH="$odd/lib&|64/pkgconfig"
  eval "flags=($(pkg-config --cflags --libs "lanyard-$mpi"))"
  "${compile[@]}" "$examples/example.c" "${flags[@]}" -o ring-odd || fail "$odd: its flags do not build the program"
)
run "a prefix of strange letters" "$work/ring-odd"
stage --prefix / --destdir "$(realpath --relative-to=. "$work")/root"
[[ -x $work/root/bin/lanyard && $(grep -h ^libdir "$work/root/lib/pkgconfig/lanyard-$mpi.pc") == "libdir=\${prefix}/lib" &&
  $(grep -h ^prefix= "$work/root/lib/pkgconfig/lanyard-$mpi.pc") == prefix= ]] || fail "--prefix /, below a folder"

# What was installed goes away again, and nothing else does; of an earlier installation, too.
mkdir -p "$work/shared/share/man" "$work/shared/lib"
touch "$work/shared/lib/mine"
(cd "$work/shared" && find . | sort) >"$work/before"
stage --prefix "$work/shared" --fortran
rm "$work/shared/bin/lanyard"  # whoever removed some by hand is no worse off
stage --prefix "$work/shared" --libdir other
[[ $(stat -c %a "$work/shared/share/lanyard/files") == 644 ]] || fail "others cannot read the list of files"
tools/install --remove --prefix "$work/shared" >"$work/said" || fail "tools/install --remove ended with $?"
[[ -d $work/shared ]] || fail "--remove took the prefix, which was there before"
(cd "$work/shared" && find . | sort) | diff "$work/before" - || fail "--remove left or took what it should not"
status=0
said=$(tools/install --remove --prefix "$work/shared" 2>&1) || status=$?
[[ $status == 1 && $said == *"nothing of Lanyard's is installed in $work/shared"* ]] || fail "--remove again: $status, $said"
stage --prefix "$work/own"
tools/install --remove --prefix "$work/own" >"$work/said" && [[ ! -e $work/own ]] ||
  fail "--remove left the prefix, which was made for it"
# An installation that cannot be laid out leaves the one that is there.
stage --prefix "$work/shared"
(cd "$work/shared" && find . -type f -exec md5sum {} + | sort) >"$work/before"
if (tools/installation/stage --sources . --built "$work" --prefix "$work/shared" "$mpi") 2>"$work/said"; then
  fail "nothing was built, and it was installed"
fi
(cd "$work/shared" && find . -type f -exec md5sum {} + | sort) | diff "$work/before" - || fail "a failed installation changed one"
echo "everything holds"
