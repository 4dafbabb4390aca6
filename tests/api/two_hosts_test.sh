#!/usr/bin/env bash
# Two hosts on one machine: a network namespace each with an address of its own, a cable between them, one rank in each.
# The ranks can reach each other over TCP alone. Each host has a bridge to containers besides, which comes first and has
# the same address on both. MPICH, because its launcher talks to ranks by inherited descriptors, which cross namespaces.
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
ip netns add "$a" 2>/dev/null && ip netns add "$b" 2>/dev/null || skip "network namespaces cannot be made here"
for host in "$a" "$b"; do
  ip -n "$host" link add docker0 type bridge 2>/dev/null || skip "bridges cannot be made here"
  ip -n "$host" link add container0 type veth peer name container1
  ip -n "$host" link set container0 master docker0
  for interface in container0 container1 docker0; do
    ip -n "$host" link set "$interface" up
  done
  ip -n "$host" address add 172.17.0.1/16 dev docker0
done
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
status=0
timeout 60 mpirun.mpich -n 1 ip netns exec "$a" "$@" : -n 1 ip netns exec "$b" "$@" >"$output" 2>&1 || status=$?
cat "$output"
# Over TCP the MPI_Finalize of MPICH 4.0.2 with UCX 1.13.1 hangs now and then: one rank waits for answers while its UCX
# closes connections, the other has closed its own and answers no more. A program of one to five MPI_Allreduce did in
# 12 of 240 runs. So what counts is that the program came to its end, and that nothing of ours complained.
if [[ $status == 124 ]] && grep -qE '^rsend +65536 .* yes$' "$output" && ! grep -qE '^lanyard:| no$' "$output"; then
  echo "the MPI library's own MPI_Finalize did not end"
elif [[ $status != 0 ]]; then
  echo "FAILED: mpirun ended with $status"
  exit 1
fi

received=$(ip netns exec "$b" cat "/sys/class/net/veth-$$/statistics/rx_bytes")
echo "host b received $received bytes"
[[ $received -gt 1000000 ]] || { echo "FAILED: the payload did not cross the cable"; exit 1; }
