#!/usr/bin/env bash
# The manual and what it is about have the same names; each program in a page builds without a warning and runs with 2
# ranks; each Fortran synopsis is what the module lanyard_f08 has; and the pages are without troff's complaints.
#
#   manual_test.sh openmpi|mpich
set -euo pipefail
mpi=$1
tree=$PWD
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/manual.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# same WHAT FILE WHAT FILE: both have the same lines.
same() {
  local only
  only=$(comm -23 <(sort -u "$2") <(sort -u "$4"))
  [[ -z $only ]] || fail "in $1 but not in $3: "$only
  only=$(comm -13 <(sort -u "$2") <(sort -u "$4"))
  [[ -z $only ]] || fail "in $3 but not in $1: "$only
  [[ -s $2 ]] || fail "there is nothing in $1"
}

tools/installation/stage --sources . --built . --prefix "$work/prefix" --fortran "$mpi"
manual=$work/prefix/share/man
export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
read -ra flags <<<"$(pkg-config --cflags --libs "lanyard-$mpi")"
read -ra flags_f <<<"$(pkg-config --cflags "lanyard-$mpi-fortran")"

# Each function and each class of errors has a page, which names it, and each page is one's.
cd "$work"
sed -n -E 's/^(int|LANYARD_DEVICE_FUNCTION [a-z]+\*?) (MPIX_[A-Za-z_]+)\(.*/\2/p' prefix/include/lanyard/*.h >functions
{
  cat functions
  sed -n -E 's/^#define (MPIX_ERR_[A-Z_]+) .*/\1/p' prefix/include/lanyard/lanyard.h
} >named
(cd "$manual/man3" && printf '%s\n' *.3) | sed 's/\.3$//' >pages
same "the headers" named "section 3" pages
while read -r name; do
  page=$manual/man3/$name.3
  target=$(sed -n '1s/^\.so  *//p' "$page")
  [[ -z $target ]] || page=$manual/$target
  [[ -f $page ]] || fail "$name.3 is another page, which is not there: $target"
  awk '/^\.SH/ {is_name = $2 == "NAME"; next} is_name' "$page" | sed 's/\\-.*//' | tr -c 'A-Za-z_\n' '\n' >title
  grep -qx "$name" title || [[ $name == MPIX_ERR_* && -n $target ]] || fail "$name is not under NAME of $page"
  grep -qx "$name" functions || continue
  "$tree/api/man/example_of" "$page" | grep -qw "$name" || fail "the example of $name does not call it"
done <pages

# The variables: those of the library, and the same in lanyard(7).
grep -oE '"LANYARD_[A-Z_]+"' "$tree/api/settings.cc" | tr -d '"' | grep -v '^LANYARD_TEST_$' >variables
grep -oE 'LANYARD_[A-Z_]+' "$manual/man7/lanyard.7" | grep -vxE 'LANYARD_(TEST_|FI_)' >documented
same "api/settings.cc" variables "lanyard(7)" documented

# The public names of the module stand in the Fortran synopses, and these compile.
grep -E '\<public\>' prefix/share/lanyard/lanyard_f08.f90 | grep -oE 'MPIX_[A-Za-z_]+' >public
: >stated
module=$(tr '\n' '|' <prefix/share/lanyard/lanyard_f08.f90)
for page in "$manual"/man3/*.3; do
  name=$(basename "$page" .3)
  awk -f "$tree/tests/fortran_synopses.awk" "$page" >"$name.f90" || fail "$name: its Fortran synopsis is not understood"
  [[ -s $name.f90 ]] || continue
  "mpifort.$mpi" -std=f2008ts -ffree-line-length-none -fsyntax-only "${flags_f[@]}" "$name.f90" >log 2>&1 ||
    fail "$name: its Fortran synopsis is not the module's: $(cat log)"
  while read -r generic; do
    [[ $module == *"$generic"* ]] || fail "$name: the module has no $generic"
  done < <(sed -n 's/^! generic: //p' "$name.f90")
  grep -oE '\<MPIX_[A-Za-z_]+' "$name.f90" >>stated
done
same "the module lanyard_f08" public "the Fortran synopses" stated

# What lanyard(1) shows of a command is what it says.
sed -e 's/\\&//g; s/\\-/-/g' "$manual/man1/lanyard.1" | awk '/^\.EX/ {shown = 1} /^\.EE/ {shown = 0} shown' >shown
grep -q '^\$ lanyard ' shown || fail "lanyard(1) shows no command with its output"
while IFS= read -r line; do
  if [[ $line == '$ lanyard '* ]]; then
    read -ra arguments <<<"${line#\$ lanyard }"
    prefix/bin/lanyard "${arguments[@]}" --jobs 1 >said 2>log || true
  elif [[ $line == 'no findings in '* || $line == '1 finding in '* || $line == 'The program itself'* ]]; then
    grep -qxF -- "$line" said || fail "lanyard(1) shows '$line', but the command says: $(cat said log)"
  fi
done <shown

for page in "$manual"/man[13]/*.[13] "$manual/man7/lanyard.7"; do
  name=$(basename "$page")
  [[ -z $(cd "$manual" && LC_ALL=C.UTF-8 MANROFFOPT=-Wbreak man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null) ]] ||
    fail "$name: troff complains"
  grep -q '^\.so ' "$page" && continue  # another one's
  [[ $name != *.1 ]] || continue  # of commands
  "$tree/api/man/example_of" "$page" >"$name.c" || fail "$name has no example"
  "mpicc.$mpi" -std=c11 -Wall -Wextra -Wpedantic -Werror "$name.c" "${flags[@]}" -o "$name.run" ||
    fail "the example of $name does not build"
  "$tree/tools/mpirun" --mpi "$mpi" -n 2 --env LANYARD_WARN_S=5 "./$name.run" >log 2>&1 ||
    fail "the example of $name ended with $?: $(cat log)"
done
echo "the manual holds"
