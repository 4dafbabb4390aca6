#!/usr/bin/env bash
# Two hosts on one machine: a network namespace each with an address of its own, a cable between them, one rank in each.
# The ranks can reach each other over TCP alone. MPICH, because its launcher talks to ranks by inherited descriptors,
# which cross namespaces. Usage: two_hosts_test.sh PROGRAM [ARGUMENT...]
set -euo pipefail

skip() {
  echo "SKIPPED: $*"
  exit 0
}

a=lanyard-a-$$
b=lanyard-b-$$
cleanup() {
  ip netns delete "$a" 2>/dev/null || true
  ip netns delete "$b" 2>/dev/null || true
}
trap cleanup EXIT

command -v ip >/dev/null || skip "no ip command (Debian package iproute2)"
ip netns add "$a" 2>/dev/null && ip netns add "$b" 2>/dev/null || skip "network namespaces cannot be made here"
ip link add "veth-$$" netns "$a" type veth peer name "veth-$$" netns "$b" 2>/dev/null ||
  skip "virtual network cables cannot be made here"
for side in "$a 10.77.0.1" "$b 10.77.0.2"; do
  read -r host address <<<"$side"
  ip -n "$host" address add "$address/24" dev "veth-$$"
  ip -n "$host" link set "veth-$$" up
  ip -n "$host" link set lo up
done

# The kernel announces a new cable a little later than it makes it.
sleep 1

# Without these MPICH takes both ranks for neighbours and uses shared memory for its own messages.
export MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self UCX_NET_DEVICES=veth-$$ UCX_MEM_EVENTS=no UCX_LOG_LEVEL=error
export LANYARD_SIM_WIRE=tcp
# The MPI library leaks at exit.
export ASAN_OPTIONS="detect_leaks=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
timeout 120 mpirun.mpich -n 1 ip netns exec "$a" "$@" : -n 1 ip netns exec "$b" "$@"

received=$(ip netns exec "$b" cat "/sys/class/net/veth-$$/statistics/rx_bytes")
echo "host b received $received bytes"
[[ $received -gt 1000000 ]] || { echo "FAILED: the payload did not cross the cable"; exit 1; }
