#!/usr/bin/env bash
# Runs MPICH's own tests with and without Lanyard and compares the results: a program that never
# calls Lanyard must not notice it. Not part of tools/check, because the tests belong to MPICH.
#
#   tests/api/mpich_suite.sh MPICH_SOURCES PREFIX [FOLDER...]
#
# MPICH_SOURCES is MPICH's source tree (it needs test/mpi; 4.0.2 fits Debian 12's MPICH). PREFIX is
# an installed Lanyard (tools/install). FOLDERs of test/mpi; default: those about requests,
# messages, communicators, errors and attributes.
# Tests of up to 2 ranks run under MPICH, of up to 4 under Open MPI, each for at most a minute.
# Tests that MPICH expects to fail, or that need special settings or gigabytes, are left out.
# Lanyard is loaded by LD_PRELOAD. Prints a line for each difference, and counts. Exit status: 0 if
# all results are the same, 1 if not, 2 for wrong usage.
set -uo pipefail
[[ $# -ge 2 && -d $1/test/mpi/util && -d $2/lib ]] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tests=$(cd "$1/test/mpi" && pwd) prefix=$(cd "$2" && pwd) mpirun=$(cd "$(dirname "$0")/.." && pwd)/tools/mpirun
shift 2
[[ $# -gt 0 ]] || set -- pt2pt comm errhan attr init group topo session threads/pt2pt threads/comm part
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The results of MPICH's configure.
touch "$work/mtest_mpix.h"
for name in STDIO STDLIB STRING STDARG SYS_TIME SYS_RESOURCE UNISTD ERRNO SIGNAL STDINT INTTYPES PTHREAD; do
  echo "#define HAVE_${name}_H 1"
done >"$work/mpitestconf.h"
cat >>"$work/mpitestconf.h" <<'END'
#define HAVE_GETRUSAGE 1
#define HAVE_LONG_DOUBLE 1
#define HAVE_LONG_LONG 1
#define HAVE_LONG_LONG_INT 1
#define HAVE_USLEEP 1
#define THREAD_PACKAGE_POSIX 1
#define THREAD_PACKAGE_NAME THREAD_PACKAGE_POSIX
#define RESTRICT __restrict
END

# compiles MPI OUTPUT FILE...: compiles like MPICH's build.
compiles() {
  "mpicc.$1" -w -I"$work" -I"$tests/include" -I"$tests/dtpools/include" "${@:3}" -o "$2" >"$work/compile.log" 2>&1
}

# outcome MPI RANKS PROGRAM ARGUMENT...: prints the exit status and the number of "no errors" lines.
outcome() {
  timeout 60 "$mpirun" --mpi "$1" -n "$2" "${@:3}" >"$work/output" 2>&1 </dev/null
  echo "$? $(grep -ci 'no errors' "$work/output")"
}

same=0 different=0 not_built=0
for mpi in mpich openmpi; do
  [[ $mpi == mpich ]] && most=2 || most=4
  for part in mtest mtest_common mtest_thread; do
    compiles "$mpi" "$work/$part.o" -c "$tests/util/$part.c" || { cat "$work/compile.log" >&2; exit 1; }
  done
  for folder in "$@"; do
    while read -r -u 3 name ranks rest; do
      [[ -f $tests/$folder/$name.c && $ranks -le $most ]] || continue
      if ! compiles "$mpi" "$work/program" "$tests/$folder/$name.c" "$work"/mtest*.o -lpthread -lm; then
        not_built=$((not_built + 1))
        continue
      fi
      read -r -a arguments <<<"$(grep -oE 'arg=[^ ]+' <<<"$rest" | sed 's/^arg=//' | tr '\n' ' ')"
      plain=$(cd "$tests/$folder" && outcome "$mpi" "$ranks" "$work/program" "${arguments[@]}")
      with=$(cd "$tests/$folder" && LD_PRELOAD=$prefix/lib/liblanyard-$mpi.so outcome "$mpi" "$ranks" "$work/program" \
        "${arguments[@]}")
      if [[ $plain == "$with" ]]; then
        same=$((same + 1))
      else
        different=$((different + 1))
        echo "$mpi $folder/$name, $ranks ranks, ${arguments[*]}: $plain without Lanyard, $with with it"
      fi
    done 3< <(cat "$tests/$folder"/testlist "$tests/$folder"/testlist.in 2>/dev/null | sed 's/#.*//' |
      grep -vE 'mem=|MPIR_CVAR|xfail|cancelrecv' | awk 'NF > 1' | sort -u)
  done
done
echo "$same the same, $different different, $not_built not built"
[[ $same -gt 0 && $different -eq 0 ]]
