# Reads the benchmarks' CSV (columns by name, from each header line) and prints a short table.
# Prints "verified" and exits 0 only when every row says so and every needed mode has a row:
#   awk -f demo_table.awk -v need_pingpong="mpi send" -v need_game_of_life="mpi" \
#     -v need_jacobi="copy" -v need_cg="mpi" FILE...

function get(name) { return (name in column) ? $column[name] : "" }

function number(text) { return text == "" ? "-" : sprintf("%.2f", text) }

function ratio(value, base) { return base > 0 ? sprintf("%.2fx", value / base) : "-" }

function complain(text) { wrong[++wrongs] = text }

function check_modes(benchmark, needed,    modes, i, n) {
  n = split(needed, modes, " ")
  for (i = 1; i <= n; ++i)
    if (!((benchmark, modes[i]) in seen)) complain(benchmark " has no result for mode " modes[i])
}

# Keeps the largest value of the rows, because the counts are running totals.
function note_nic(key) {
  if (get("counters") + 0 > counters[key]) counters[key] = get("counters") + 0
  if (get("entries_posted") + 0 > posted[key]) posted[key] = get("entries_posted") + 0
  if (get("entries_overflowed") + 0 > overflowed[key]) overflowed[key] = get("entries_overflowed") + 0
  if (get("counters") != "" && !(key in uses_nic)) { uses_nic[key] = 1; nic[++nics] = key }
}

BEGIN { FS = "," }

{
  sub(/\r$/, "")
  while (match($0, /"[^"]*"/)) {  # a quoted cell may contain commas
    cell = substr($0, RSTART + 1, RLENGTH - 2)
    gsub(/,/, ";", cell)
    $0 = substr($0, 1, RSTART - 1) cell substr($0, RSTART + RLENGTH)
  }
}

$1 == "benchmark" {
  split("", column)
  for (i = 1; i <= NF; ++i) column[$i] = i
  next
}

$1 == "pingpong" || $1 == "game_of_life" || $1 == "jacobi" || $1 == "cg" {
  mode = $1 == "jacobi" ? get("variant") : $1 == "cg" ? get("backend") : get("mode")
  key = $1 " " mode
  seen[$1, mode] = 1
  if (mpi == "") mpi = get("mpi")
  note_nic(key)
  if (get("verified") != "true") complain($0)
}

$1 == "pingpong" {
  bytes = get("bytes")
  if (!(bytes in known)) { known[bytes] = 1; size[++sizes] = bytes }
  if (!(mode in known_mode)) { known_mode[mode] = 1; mode_name[++modes] = mode }
  time[bytes, mode] = number(get("half_trip_us_mean"))
}

$1 == "game_of_life" {
  life[++lives] = sprintf("%-10s %12s %14s  %s", mode, number(get("us_per_step")), \
    number(get("baseline_us_per_step")), ratio(get("us_per_step"), get("baseline_us_per_step")))
  board = get("rows") " x " get("columns") " cells, " get("steps") " steps, " get("ranks") " ranks"
}

$1 == "jacobi" {
  jacobi[++jacobis] = sprintf("%-10s %12s %14s  %.2fx", mode, number(get("us_per_step")), \
    number(get("entries_per_step")), get("ratio"))
  plate = get("ny") " x " get("nx") " cells, " get("steps") " steps, " get("ranks") " ranks"
}

$1 == "cg" {
  solve[++solves] = sprintf("%-10s %12d %16s  %s", mode, get("iterations"), number(get("us_per_iteration")), \
    number(get("ratio")) "x")
  equations = get("matrix") ", " get("ranks") " ranks"
}

END {
  print "Ping-pong, 2 ranks, " mpi ": half a round trip in us, by mode"
  printf "%10s", "bytes"
  for (m = 1; m <= modes; ++m) printf " %11s", mode_name[m]
  print ""
  for (s = 1; s <= sizes; ++s) {
    printf "%10d", size[s]
    for (m = 1; m <= modes; ++m)
      printf " %11s", ((size[s], mode_name[m]) in time) ? time[size[s], mode_name[m]] : "-"
    print ""
  }
  print ""
  print "Game of Life, " board ": time of a step"
  printf "%-10s %12s %14s  %s\n", "mode", "us per step", "plain MPI, us", "ratio"
  for (i = 1; i <= lives; ++i) print life[i]
  print ""
  print "Jacobi, " plate ": time of a step; overlap and copy are plain MPI"
  printf "%-10s %12s %14s  %s\n", "variant", "us per step", "entries", "ratio"
  for (i = 1; i <= jacobis; ++i) print jacobi[i]
  print ""
  print "Conjugate gradients, " equations ": time of an iteration"
  printf "%-10s %12s %16s  %s\n", "backend", "iterations", "us per iteration", "ratio"
  for (i = 1; i <= solves; ++i) print solve[i]
  print ""
  print "Used of the NIC"
  printf "%-24s %10s %16s %12s\n", "run", "counters", "entries posted", "overflowed"
  for (i = 1; i <= nics; ++i)
    printf "%-24s %10d %16d %12d\n", nic[i], counters[nic[i]], posted[nic[i]], overflowed[nic[i]]
  print ""
  check_modes("pingpong", need_pingpong)
  check_modes("game_of_life", need_game_of_life)
  check_modes("jacobi", need_jacobi)
  check_modes("cg", need_cg)
  for (i = 1; i <= wrongs; ++i) print "WRONG: " wrong[i]
  if (wrongs) exit 1
  print "verified: every run checked its own data"
}
