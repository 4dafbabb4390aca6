#!/usr/bin/env bash
# Ten jobs at once on one host, half of them on each wire of the simulated NIC. Each checks its
# data and leaves nothing behind. Each has its own seed or message size, so that another job's data
# would be wrong.
#
#   ten_jobs_test.sh MPIRUN GAME_OF_LIFE PINGPONG
set -uo pipefail
mpirun=$1 game=$2 pingpong=$3
failed=0
output=${TEST_TMPDIR:-/tmp}/ten_jobs.$$
# Marks the environment of the processes of this test's jobs.
mark=TEN_JOBS_TEST=$$

processes() { grep -lszxF "$mark" /proc/[0-9]*/environ | grep -oE '[0-9]+'; }
ranks() { grep -lszxF "$mark" /proc/[0-9]*/environ | xargs -r grep -lsz '^OMPI_COMM_WORLD_RANK='; }
files() { find /dev/shm -maxdepth 1 -name 'lanyard*' | sort; }
cleanup() {
  processes | xargs -r kill -KILL
  rm -f "$output".*
}
trap cleanup EXIT

before=$(files)
jobs=()
for i in {0..9}; do
  [[ $((i % 2)) == 0 ]] && wire=shm || wire=tcp
  if [[ $i -lt 6 ]]; then
    command=("$game" --size $((40 + 10 * i)) --steps 600 --mode all --seed $((i + 1)) --format json)
  else
    command=("$pingpong" --mode send,rsend --max-bytes $((4 << (2 * i - 8))) --iterations 100 --trials 2 --format json)
  fi
  env "$mark" LANYARD_SIM_WIRE=$wire LANYARD_SIM_INTERFACE=127.0.0.1 LANYARD_DEADLINE_S=60 \
    timeout 240 "$mpirun" -n 2 "${command[@]}" >"$output.$i" 2>&1 &
  jobs[i]=$!
done

most=0
while [[ $(jobs -rp | wc -l) -gt 0 ]]; do
  now=$(ranks | wc -l)
  [[ $now -le $most ]] || most=$now
  sleep 0.2
done
for i in {0..9}; do
  wait "${jobs[i]}"
  status=$?
  if [[ $status -ne 0 ]] || ! grep -q '"verified": true' "$output.$i"; then
    echo "job $i exits with status $status or without \"verified\": true:"
    sed 's/^/    /' "$output.$i"
    failed=$((failed + 1))
  fi
done

left() { [[ -n $(processes) ]]; }
for ((tries = 0; tries < 50; ++tries)); do left && sleep 0.1 || break; done
left && { echo "processes left: $(processes | xargs ps -o pid,stat,args -p)"; failed=$((failed + 1)); }
[[ $(files) == "$before" ]] || { echo "files left: $(files)"; failed=$((failed + 1)); }
echo "$failed failed, at most $most ranks at once"
# At least the six Game of Life jobs must have run at the same time.
[[ $failed -eq 0 && $most -ge 12 ]]
