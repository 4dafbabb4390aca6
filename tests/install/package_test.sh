#!/usr/bin/env bash
# The Debian packages: they are made from the build, lintian accepts them, they install below a
# separate root, README's program builds with them and runs, and their removal leaves nothing.
set -euo pipefail
tree=$PWD
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/package.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# Packages of an earlier run must not be taken.
mkdir "$work/packages"
echo "no package at all" >"$work/packages/liblanyard-old_0.0.1_amd64.deb"
(cd tools && ./package --no-setup --built .. --out "$(realpath --relative-to=. "$work/packages")") >"$work/log" ||
  fail "tools/package exits with status $?: $(cat "$work/log")"
mapfile -t packages < <(grep '[.]deb$' "$work/log")
[[ ${#packages[@]} == 5 && " ${packages[*]} " != *liblanyard-old* ]] || fail "tools/package lists $(cat "$work/log")"
root=$work/root
mkdir -p "$root/var/lib/dpkg"
touch "$root/var/lib/dpkg/status"
# dpkg needs ldconfig, which is often only in root's path. The packages' dependencies are in the
# machine's own root.
in_root=(env "PATH=$PATH:/usr/sbin:/sbin" dpkg "--root=$root" --force-depends --force-not-root
  --force-script-chrootless --log=/dev/null)
"${in_root[@]}" --install "${packages[@]}" >"$work/log" 2>&1 || fail "dpkg --install: $(cat "$work/log")"

cd "$work"
export PKG_CONFIG_SYSROOT_DIR=$root
PKG_CONFIG_PATH=$(echo "$root"/usr/lib/*/pkgconfig)
export PKG_CONFIG_PATH
libraries=$(dirname "$PKG_CONFIG_PATH")
for mpi in openmpi mpich; do
  ranks=4
  [[ $mpi == openmpi ]] || ranks=2
  read -ra flags <<<"$(pkg-config --cflags --libs "lanyard-$mpi")"
  [[ " ${flags[*]} " != *rpath* ]] || fail "a package must not set a search path: ${flags[*]}"
  "mpicc.$mpi" "$root/usr/share/doc/liblanyard-dev/examples/example.c" "${flags[@]}" -o "ring-$mpi" ||
    fail "pkg-config's flags do not build the program"
  said=$("$tree/tools/mpirun" --mpi "$mpi" -n "$ranks" --env "LD_LIBRARY_PATH=$libraries" "./ring-$mpi") ||
    fail "the program built with $mpi exits with status $?"
  [[ $said == *verified* ]] || fail "the program built with $mpi prints '$said', not 'verified'"
done
read -ra flags <<<"$(pkg-config --cflags --libs lanyard-openmpi-fortran)"
mpifort.openmpi "$root/usr/share/doc/liblanyard-fortran-dev/examples/halo.f90" "${flags[@]}" -o halo ||
  fail "pkg-config's flags do not build the program in Fortran"
said=$("$tree/tools/mpirun" -n 4 --env "LD_LIBRARY_PATH=$libraries" ./halo) || fail "the Fortran program exits with status $?"
[[ $said == *verified* ]] || fail "the Fortran program prints '$said', not 'verified'"
# Without gfortran a user takes the routines and the module's source; their package must
# not depend on it.
development=$(printf '%s\n' "${packages[@]}" | grep /liblanyard-dev_)
[[ $(dpkg-deb --field "$development" Depends) != *gfortran* ]] || fail "liblanyard-dev depends on gfortran"
for file in 'usr/lib/.*/liblanyard_fortran-openmpi\.a' 'usr/lib/.*/pkgconfig/lanyard-mpich-fortran-routines\.pc' \
  'usr/share/lanyard/lanyard_f08\.f90' 'usr/share/doc/liblanyard-dev/copyright' \
  'usr/share/doc/liblanyard-dev/guide\.md'; do
  [[ $(dpkg-deb --contents "$development" | grep -c "[.]/$file\$") == 1 ]] || fail "liblanyard-dev has no $file"
done
for holder in 'University of Cincinnati' 'Niels Lohmann' 'Intel Corporation' 'Victor Zverovich' 'Boost project'; do
  grep -q "$holder" "$root/usr/share/doc/lanyard/copyright" || fail "the copyright file does not name $holder"
done
for page in MPIX_Queue_wait.3 MPIX_Matchall.3 lanyard.1 lanyard.7; do
  [[ -e $root/usr/share/man/man${page##*.}/$page.gz ]] || fail "the manual page $page is not installed"
done
"$root/usr/bin/lanyard" --help >/dev/null || fail "lanyard --help exits with status $?"

"${in_root[@]}" --purge lanyard liblanyard-fortran-dev liblanyard-dev liblanyard-mpich0 liblanyard-openmpi0 >"$work/log" 2>&1 ||
  fail "dpkg --purge: $(cat "$work/log")"
left=$(find "$root" -name '*anyard*' ! -path '*/var/lib/dpkg/*')
[[ -z $left ]] || fail "dpkg --purge left: $left"
echo "everything holds"
