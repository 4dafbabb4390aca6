#!/usr/bin/env bash
# Two simulated hosts on one machine: two network namespaces with an address each, connected by a
# virtual cable, one rank in each. The ranks reach each other only over TCP. Each host also has a
# container bridge, which comes first and has the same address on both. Uses MPICH, whose launcher
# talks to ranks over inherited descriptors, which cross namespaces.
#
# Usage: two_hosts_test.sh PROGRAM [ARGUMENT...]
set -euo pipefail

skip() {
  echo "SKIPPED: $*"
  exit 0
}

a=lanyard-a-$$
b=lanyard-b-$$
output=${TEST_TMPDIR:-/tmp}/two_hosts.$$
cleanup() {
  rm -f "$output"
  ip netns delete "$a" 2>/dev/null || true
  ip netns delete "$b" 2>/dev/null || true
}
trap cleanup EXIT

command -v ip >/dev/null || skip "no ip command (Debian package iproute2)"
ip netns add "$a" 2>/dev/null && ip netns add "$b" 2>/dev/null || skip "needs the right to make network namespaces"
for host in "$a" "$b"; do
  ip -n "$host" link add docker0 type bridge 2>/dev/null || skip "needs the right to make bridges"
  ip -n "$host" link add container0 type veth peer name container1
  ip -n "$host" link set container0 master docker0
  for interface in container0 container1 docker0; do
    ip -n "$host" link set "$interface" up
  done
  ip -n "$host" address add 172.17.0.1/16 dev docker0
done
ip link add "veth-$$" netns "$a" type veth peer name "veth-$$" netns "$b" 2>/dev/null ||
  skip "needs the right to make virtual network cables"
for side in "$a 10.77.0.1" "$b 10.77.0.2"; do
  read -r host address <<<"$side"
  ip -n "$host" address add "$address/24" dev "veth-$$"
  ip -n "$host" link set "veth-$$" up
  ip -n "$host" link set lo up
done

# The kernel announces a new cable a moment after creating it.
sleep 1

# Without these, MPICH uses shared memory between the ranks for its own messages.
export MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=veth-$$ UCX_MEM_EVENTS=no UCX_LOG_LEVEL=error
export LANYARD_SIM_WIRE=tcp
# The MPI library leaks memory at exit.
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
status=0
timeout 60 mpirun.mpich -n 1 ip netns exec "$a" "$@" : -n 1 ip netns exec "$b" "$@" >"$output" 2>&1 || status=$?
cat "$output"
# Over TCP, MPI_Finalize of MPICH 4.0.2 with UCX 1.13.1 sometimes hangs: one rank waits for answers
# while its UCX closes connections; the other has closed its own. A program of a few MPI_Allreduce
# hung in 12 of 240 runs. So the test checks that the program reached its end and that Lanyard
# reported nothing.
if [[ $status == 124 ]] && grep -qE '^rsend +65536 .* yes$' "$output" && ! grep -qE '^lanyard:| no$' "$output"; then
  echo "note: MPI_Finalize of the MPI library did not return"
elif [[ $status != 0 ]]; then
  echo "FAILED: mpirun exits with status $status"
  exit 1
fi

received=$(ip netns exec "$b" cat "/sys/class/net/veth-$$/statistics/rx_bytes")
echo "host b received $received bytes"
[[ $received -gt 1000000 ]] || { echo "FAILED: the payload did not cross the cable"; exit 1; }
