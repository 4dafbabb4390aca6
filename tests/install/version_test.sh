#!/usr/bin/env bash
# The version stands in many places; lanyard.h is the one that counts. And what a recipe for Spack must be besides. From
# the tree's root.
#
#   version_test.sh
set -euo pipefail

header=api/include/lanyard/lanyard.h
number() { awk -v name="LANYARD_VERSION_$1" '$1 == "#define" && $2 == name {print $3}' "$header"; }
major=$(number MAJOR) minor=$(number MINOR) patch=$(number PATCH)
[[ $major.$minor.$patch =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || { echo "FAILED: $header has no version" >&2; exit 1; }
recipe=tools/installation/spack/package.py
checked=0 failed=0

# says FILE EXPRESSION WANTED [N]: all that sed's s/EXPRESSION/\1/ finds in FILE, or the first N, is WANTED, and there is
# something.
says() {
  local found
  found=$(sed -n -E "s|.*$2.*|\1|p" "$1" | head -n "${4:-1000}" | sort -u)
  checked=$((checked + 1))
  [[ $found == "$3" ]] && return
  echo "FAILED: $1 says '$found' by '$2', and not '$3'" >&2
  failed=$((failed + 1))
}

# The whole version, of which the latest stands first.
says CHANGELOG.md '^## ([^ ]*)' "$major.$minor.$patch" 1
says tools/installation/debian/changelog '^lanyard \(([^)]*)\)' "$major.$minor.$patch" 1

says "$recipe" '^ *version\("([^"]*)"\)' "$major.$minor.$patch"

# What programs ask for: before version 1 a minor version may break what the last one promised.
says tests/install/installation_cmake_test.sh 'find_package\(Lanyard ([0-9.]+) REQUIRED' "$major.$minor"

# The binary interface's, which programs are linked with and Debian's packages have.
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

# Spack itself is not asked: nobody has it here. Its recipe is Python, and tools/install takes its options.
python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$recipe" || failed=$((failed + 1))
usage=$(tools/install --help) options=0
while read -r option; do
  options=$((options + 1))
  [[ $usage == *"$option"* ]] && continue
  echo "FAILED: tools/install has no $option, which the recipe gives" >&2
  failed=$((failed + 1))
done < <(grep -F '"tools/install"' "$recipe" | grep -oE -- '--[a-z-]+')
[[ $options -gt 0 ]] || { echo "FAILED: the recipe gives tools/install no option" >&2; failed=$((failed + 1)); }
echo "$checked places looked at, $failed differ"
[[ $failed -eq 0 ]]
