# Reads the benchmarks' CSV (columns by name, from each header line) and prints a short table.
# Prints "verified" and exits 0 only when every row says so and every needed mode has a row:
#   awk -f demo_table.awk -v need="pingpong/mpi pingpong/send game_of_life/mpi" FILE...

function get(name) { return (name in column) ? $column[name] : "" }

function number(text) { return text == "" ? "-" : sprintf("%.2f", text) }

function ratio(value, base) { return base > 0 ? sprintf("%.2fx", value / base) : "-" }

function complain(text) { wrong[++wrongs] = text }

function check_modes(    pairs, parts, i, n) {
  n = split(need, pairs, " ")
  for (i = 1; i <= n; ++i) {
    split(pairs[i], parts, "/")
    if (!((parts[1], parts[2]) in seen)) complain(parts[1] " has no result for mode " parts[2])
  }
}

# A row of those that have one figure each.
function note(what, mode, figure, unit, relative) {
  row[++rows] = sprintf("%-28s %-18s %10s %-14s %s", what, mode, number(figure), unit, relative)
}

# Largest of the rows: the counts are those of a run so far.
function note_nic(key) {
  if (get("counters") + 0 > counters[key]) counters[key] = get("counters") + 0
  if (get("entries_posted") + 0 > posted[key]) posted[key] = get("entries_posted") + 0
  if (get("entries_overflowed") + 0 > overflowed[key]) overflowed[key] = get("entries_overflowed") + 0
  if (get("counters") != "" && !(key in uses_nic)) { uses_nic[key] = 1; nic[++nics] = key }
}

BEGIN { FS = "," }

{
  sub(/\r$/, "")
  while (match($0, /"[^"]*"/)) {  # a quoted cell may hold commas
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

{
  mode = get("mode")
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

$1 == "game_of_life" || $1 == "jacobi" {
  what = ($1 == "jacobi" ? "Jacobi, " : "Game of Life, ") get("rows") " x " get("columns")
  note(what, mode, get("us_per_step"), "us a step", ratio(get("us_per_step"), get("baseline_us_per_step")))
}

$1 == "cg" {
  what = get("solver") == "cg" ? "CG" : "pipelined CG"
  note(what ", " get("rows") " rows", mode, get("iterations_per_s"), "iterations/s", ratio(get("ratio_to_baseline"), 1))
}

$1 == "patterns" {
  note("pattern " get("pattern") ", " get("direction"), mode, get("us_median"), "us", ratio(get("ratio_to_baseline"), 1))
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
  print "Workloads, 4 ranks"
  printf "%-28s %-18s %10s %-14s %s\n", "workload", "mode", "", "", "time / plain MPI\047s"
  for (i = 1; i <= rows; ++i) print row[i]
  print ""
  print "Used of the NIC"
  printf "%-24s %10s %16s %12s\n", "run", "counters", "entries posted", "overflowed"
  for (i = 1; i <= nics; ++i)
    printf "%-24s %10d %16d %12d\n", nic[i], counters[nic[i]], posted[nic[i]], overflowed[nic[i]]
  print ""
  check_modes()
  for (i = 1; i <= wrongs; ++i) print "WRONG: " wrong[i]
  if (wrongs) exit 1
  print "verified: every run checked its own data"
}
