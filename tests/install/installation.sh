# Shared by the tests of an installation. Source it in the root of the runfiles, with $mpi
# and $ranks set.
tree=$PWD
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/installation.XXXXXX")
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
examples=$prefix/share/doc/lanyard/examples

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# stage OPTION...: stages an installation from the build.
stage() {
  tools/installation/stage --sources . --built . "$@" "$mpi"
}

# run WHAT PROGRAM [NAME=VALUE...]: runs it and requires the output "verified" and status 0.
run() {
  local what=$1 program=$2 settings=() said
  shift 2
  for setting in "$@"; do settings+=(--env "$setting"); done
  said=$("$tree/tools/mpirun" --mpi "$mpi" -n "$ranks" ${settings[@]+"${settings[@]}"} "$program") ||
    fail "$what: $program exits with status $?: $said"
  [[ $said == *verified* ]] || fail "$what: $program prints '$said', not 'verified'"
  echo "verified: $what"
}
