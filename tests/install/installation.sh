# What the tests of an installation share: to be sourced, with $mpi and $ranks set, in the root of the runfiles.
tree=$PWD
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/installation.XXXXXX")
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
examples=$prefix/share/doc/lanyard/examples

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# stage OPTION...: lays out what was built.
stage() {
  tools/installation/stage --sources . --built . "$@" "$mpi"
}

# run WHAT PROGRAM [NAME=VALUE...]: it says "verified" and ends with 0.
run() {
  local what=$1 program=$2 settings=() said
  shift 2
  for setting in "$@"; do settings+=(--env "$setting"); done
  said=$("$tree/tools/mpirun" --mpi "$mpi" -n "$ranks" ${settings[@]+"${settings[@]}"} "$program") ||
    fail "$what: $program ended with $?: $said"
  [[ $said == *verified* ]] || fail "$what: $program said '$said'"
  echo "verified: $what"
}
