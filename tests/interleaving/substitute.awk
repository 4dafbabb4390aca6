# Prints a copy of a shipped source with the threads, clocks and atomics of primitives.h. Line
# numbers stay the same, so that a fault names the right line of the source. An unknown
# primitive is an error.
#
#   awk -v source=PATH -v copied="PATH PATH ..." -f substitute.awk substitutions.txt PATH
#
# Table: "[PATH]" begins the rows of one source, "[*]" those of all. A row is "- OLD", then "+ NEW".
# OLD of one source must occur in exactly one of its lines; OLD of all is replaced everywhere.

function die(text) {
  print "tests/interleaving: " source ": " text > "/dev/stderr"
  failed = 1
  exit 1
}

function replaced(line, was, is,    at, done) {
  done = ""
  while ((at = index(line, was)) > 0) {
    done = done substr(line, 1, at - 1) is
    line = substr(line, at + length(was))
  }
  return done line
}

BEGIN {
  split(copied, list, " ")
  for (i in list)
    is_copied[list[i]] = 1
}

FNR == 1 { ++files; section = "" }

files < 2 && /^\[.*\]$/ { section = substr($0, 2, length($0) - 2); next }
files < 2 && /^- / && section == source { was[++rows] = substr($0, 3); uses[rows] = 0; next }
files < 2 && /^\+ / && section == source { is[rows] = substr($0, 3); next }
files < 2 && /^- / && section == "*" { everywhere_was[++all] = substr($0, 3); next }
files < 2 && /^\+ / && section == "*" { everywhere_is[all] = substr($0, 3); next }
files < 2 { next }

# Comments stay unchanged.
{
  line = $0
  for (i = 1; i <= rows; ++i)
    if (index(line, was[i]) > 0) {
      ++uses[i]
      line = replaced(line, was[i], is[i])
    }
  comment = ""
  if ((at = index(line, "//")) > 0) {
    comment = substr(line, at)
    line = substr(line, 1, at - 1)
  }
  for (i = 1; i <= all; ++i)
    line = replaced(line, everywhere_was[i], everywhere_is[i])
  if (line ~ /^#include "/) {
    split(line, part, "\"")
    if (part[2] in is_copied)
      line = "#include \"tests/interleaving/copies/" part[2] "\""
  }
  if (line ~ /std::(atomic|thread|jthread|this_thread|mutex|shared_mutex|condition_variable|call_once)/ ||
      line ~ /std::chrono::(steady|system)_clock|sched_yield|usleep|nanosleep|pthread_|SYS_futex|__atomic_/)
    die("line " FNR ": no row of substitutions.txt replaces this primitive: " line)
  print line comment
}

END {
  if (failed)
    exit 1
  for (i = 1; i <= rows; ++i)
    if (uses[i] != 1)
      die("must occur in one line, but occurs in " uses[i] ": " was[i])
}
