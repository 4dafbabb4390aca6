#!/usr/bin/env bash
# Lanyard together with another tool that intercepts MPI calls, in every order: which calls each one
# sees, and the message if Lanyard misses a call that it needs. Built with the system's compiler
# wrappers, as users do.
#
#   stacking_test.sh openmpi|mpich [PREFIX]   PREFIX: an installation; default: stage this tree
set -euo pipefail
mpi=$1 prefix=${2:-}
tree=$PWD
sources=$tree/tests/conformance
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/stacking.XXXXXX")
trap 'rm -rf "$work"' EXIT
if [[ -z $prefix ]]; then
  prefix=$work/prefix
  tools/installation/stage --sources . --built . --prefix "$prefix" "$mpi"
fi
library=$prefix/lib/liblanyard-$mpi.so.0
lanyard=("$prefix/lib/liblanyard-$mpi.so" "-Wl,-rpath,$prefix/lib")
failed=0 passed=0

cd "$work"
compile=("mpicc.$mpi" -std=gnu11 -Wall -Wextra -Werror)
tool() { # NAME OPTION...
  "${compile[@]}" -fPIC -shared "${@:2}" "$sources/profiler.c" -ldl -o "libtool_$1.so"
}
tool next -DBY_NEXT
tool pmpi
tool messages -DONLY_MESSAGES
tool requests -DWITHOUT_INIT
program() { # NAME LIBRARY...: links the libraries in this order, before the MPI
  "${compile[@]}" -DLANYARD -I"$prefix/include" "$sources/profiled_program.c" -Wl,--no-as-needed "${@:2}" \
    "-Wl,-rpath,$work" -o "$1"
}
program with_lanyard "${lanyard[@]}"
"${compile[@]}" "$sources/profiled_program.c" -o plain

# stands CASE PROGRAM PRELOADED WANTED UNWANTED: runs it and checks its output; "verified"
# requires status 0
stands() {
  local name=$1 program=$2 preloaded=$3 wanted=$4 unwanted=$5 said status=0
  said=$(timeout 120 "$tree/tools/mpirun" --mpi "$mpi" -n 1 ${preloaded:+--env "LD_PRELOAD=$preloaded"} "./$program" \
    2>&1) || status=$?
  if [[ $said == *"$wanted"* && $said != *"$unwanted"* && ($status -eq 0 || $wanted != verified*) ]]; then
    passed=$((passed + 1))
    echo "passed: $name"
  else
    failed=$((failed + 1))
    printf 'FAILED: %s: status %d; wanted "%s" and not "%s" in the output:\n%s\n' "$name" "$status" "$wanted" "$unwanted" "$said"
  fi
}
all_seen="verified
profiler: 1 sends, 2 requests, 2 waits"
plain_seen="verified
profiler: 1 sends, 1 requests, 1 waits"
messages_seen="verified
profiler: 1 sends, 0 requests, 0 waits"
wrong="call failed"

# A tool before Lanyard that calls the next library sees all calls, and so does Lanyard.
program next_before ./libtool_next.so "${lanyard[@]}"
stands Stacking.ANextToolLinkedBefore next_before "" "$all_seen" "$wrong"
stands Stacking.ANextToolPreloaded with_lanyard "$work/libtool_next.so" "$all_seen" "$wrong"
stands Stacking.ANextToolAndLanyardPreloaded plain "$work/libtool_next.so:$library" "$plain_seen" "$wrong"

# A tool that calls PMPI_ functions and intercepts only what Lanyard does not sees all calls, before
# or after Lanyard.
program messages_before ./libtool_messages.so "${lanyard[@]}"
program messages_after "${lanyard[@]}" ./libtool_messages.so
stands Stacking.AToolOfOtherCallsLinkedBefore messages_before "" "$messages_seen" "$wrong"
stands Stacking.AToolOfOtherCallsLinkedAfter messages_after "" "$messages_seen" "$wrong"

# After Lanyard, a PMPI_ tool sees only the calls that Lanyard does not intercept. Lanyard sees all.
program pmpi_after "${lanyard[@]}" ./libtool_pmpi.so
stands Stacking.APmpiToolLinkedAfter pmpi_after "" "$messages_seen" "$wrong"
stands Stacking.APmpiToolPreloadedAfter plain "$library:$work/libtool_pmpi.so" "$messages_seen" "$wrong"

# Before Lanyard, it hides calls. Lanyard's first call reports that, or the match of a
# hidden request.
program pmpi_before ./libtool_pmpi.so "${lanyard[@]}"
program requests_before ./libtool_requests.so "${lanyard[@]}"
stands Stacking.APmpiToolThatHidesInit pmpi_before "" "MPI_Init bypassed Lanyard" "verified"
stands Stacking.APmpiToolThatHidesInitPreloaded with_lanyard "$work/libtool_pmpi.so" \
  "MPI_Init bypassed Lanyard" "verified"
stands Stacking.APmpiToolThatHidesRequests requests_before "" "bypassed Lanyard" "verified"

echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
