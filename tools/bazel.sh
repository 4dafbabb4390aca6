# To be sourced in the root of the tree: sets $bazel, and removes from the disk cache of .bazelrc what nobody has read for
# two weeks. Debian's Bazel goes first, by its own name: another one may come first in PATH.
bazel=$(command -v bazel-4 || command -v bazel) || { echo "no bazel: apt-get install bazel-bootstrap" >&2; exit 1; }
cache=~/.cache/lanyard/bazel
if [[ -d $cache && -z $(find "$cache/cleaned" -mtime -1 2>/dev/null) ]]; then
  find "$cache" -type f -atime +14 -delete
  touch "$cache/cleaned"
fi
