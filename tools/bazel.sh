# Source this in the root of the tree. It sets $bazel. It also removes files that nobody has read
# for two weeks from the disk cache of .bazelrc. Debian's Bazel comes first, by its own name:
# another may come first in PATH.
bazel=$(command -v bazel-4 || command -v bazel) || { echo "bazel not found: apt-get install bazel-bootstrap" >&2; exit 1; }
cache=~/.cache/lanyard/bazel
if [[ -d $cache && -z $(find "$cache/cleaned" -mtime -1 2>/dev/null) ]]; then
  find "$cache" -type f -atime +14 -delete
  touch "$cache/cleaned"
fi
