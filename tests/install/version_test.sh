#!/usr/bin/env bash
# The version number stands in many files; lanyard.h is the reference. Also checks the recipe for
# Spack. Run it in the tree's root.
#
#   version_test.sh
set -euo pipefail

header=api/include/lanyard/lanyard.h
number() { awk -v name="LANYARD_VERSION_$1" '$1 == "#define" && $2 == name {print $3}' "$header"; }
major=$(number MAJOR) minor=$(number MINOR) patch=$(number PATCH)
[[ $major.$minor.$patch =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "FAILED: $header has no valid version" >&2; exit 1; }
recipe=tools/installation/spack/package.py
checked=0 failed=0

# says FILE EXPRESSION WANTED [N]: all matches of sed's s/EXPRESSION/\1/ in FILE, or the first N,
# are WANTED, and there is at least one.
says() {
  local found
  found=$(sed -n -E "s|.*$2.*|\1|p" "$1" | head -n "${4:-1000}" | sort -u)
  checked=$((checked + 1))
  [[ $found == "$3" ]] && return
  echo "FAILED: $1 has '$found' where '$2' matches, expected '$3'" >&2
  failed=$((failed + 1))
}

# The whole version. The changelogs begin with the latest.
says CHANGELOG.md '^## ([^ ]*)' "$major.$minor.$patch" 1
says tools/installation/debian/changelog '^lanyard \(([^)]*)\)' "$major.$minor.$patch" 1

says "$recipe" '^ *version\("([^"]*)"\)' "$major.$minor.$patch"

# The version that programs request. Before version 1 a minor version may break compatibility.
says tests/install/installation_cmake_test.sh 'find_package\(Lanyard ([0-9.]+) REQUIRED' "$major.$minor"

# The version of the binary interface, in the library's name and the packages' names.
abi=$(sed -nE 's/.*soname = .*\.so\.([0-9]+).*/\1/p' tools/installation/BUILD.bazel)
says tests/install/installation_test.sh 'modversion .* == ([0-9]+)\.' "$major"
says tests/install/installation_test.sh 'LANYARD_([0-9]+)\$' "$abi"
says tests/install/installation_test.sh 'liblanyard-.*\.so\.([0-9]+)' "$abi"
says README.md 'liblanyard-openmpi\.so\.([0-9]+)' "$abi"
says tools/installation/exports.lds '^LANYARD_([0-9]+) ' "$abi"
for mpi in openmpi mpich; do
  says tests/install/package_test.sh "liblanyard-$mpi([0-9]+)" "$abi"
  says tools/installation/debian/control "Package: liblanyard-$mpi([0-9]+)" "$abi"
  says tools/installation/debian/control "Depends: .*liblanyard-$mpi([0-9]+) " "$abi"
  [[ -e tools/installation/debian/liblanyard-$mpi$abi.install ]] ||
    { echo "FAILED: there is no liblanyard-$mpi$abi.install" >&2; failed=$((failed + 1)); }
done

# Spack is not installed here. Its recipe must be valid Python, and tools/install must
# know its options.
python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$recipe" || failed=$((failed + 1))
usage=$(tools/install --help) options=0
while read -r option; do
  options=$((options + 1))
  [[ $usage == *"$option"* ]] && continue
  echo "FAILED: the recipe uses $option, which tools/install does not have" >&2
  failed=$((failed + 1))
done < <(grep -F '"tools/install"' "$recipe" | grep -oE -- '--[a-z-]+')
[[ $options -gt 0 ]] || { echo "FAILED: the recipe calls tools/install without options" >&2; failed=$((failed + 1)); }
echo "$checked places checked, $failed differ"
[[ $failed -eq 0 ]]
