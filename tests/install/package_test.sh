#!/usr/bin/env bash
# The Debian packages: made from what the build made, lintian has nothing against them, they are installed below a root
# of their own, README's program builds from them and runs, and removing them leaves nothing.
set -euo pipefail
tree=$PWD
work=$(mktemp -d "${TEST_TMPDIR:-/tmp}/package.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# What an earlier run left there is none of this one's business.
mkdir "$work/packages"
echo "no package at all" >"$work/packages/liblanyard-old_0.0.1_amd64.deb"
(cd tools && ./package --no-setup --built .. --out "$(realpath --relative-to=. "$work/packages")") >"$work/log" ||
  fail "tools/package ended with $?: $(cat "$work/log")"
mapfile -t packages < <(grep '[.]deb$' "$work/log")
[[ ${#packages[@]} == 5 && " ${packages[*]} " != *liblanyard-old* ]] || fail "tools/package lists $(cat "$work/log")"
root=$work/root
mkdir -p "$root/var/lib/dpkg"
touch "$root/var/lib/dpkg/status"
# dpkg wants ldconfig, which other users than root may not have in their path. What the packages depend on is in the
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
  [[ " ${flags[*]} " != *rpath* ]] || fail "a package needs no search path of its own: ${flags[*]}"
  "mpicc.$mpi" "$root/usr/share/doc/liblanyard-dev/examples/example.c" "${flags[@]}" -o "ring-$mpi" ||
    fail "pkg-config's flags do not build the program"
  said=$("$tree/tools/mpirun" --mpi "$mpi" -n "$ranks" --env "LD_LIBRARY_PATH=$libraries" "./ring-$mpi") ||
    fail "the program of $mpi ended with $?"
  [[ $said == *verified* ]] || fail "the program of $mpi said '$said'"
done
read -ra flags <<<"$(pkg-config --cflags --libs lanyard-openmpi-fortran)"
mpifort.openmpi "$root/usr/share/doc/liblanyard-fortran-dev/examples/halo.f90" "${flags[@]}" -o halo ||
  fail "pkg-config's flags do not build the program in Fortran"
said=$("$tree/tools/mpirun" -n 4 --env "LD_LIBRARY_PATH=$libraries" ./halo) || fail "the program in Fortran ended with $?"
[[ $said == *verified* ]] || fail "the program in Fortran said '$said'"
# Whoever has no gfortran takes the routines and the module's source, which want none of its packages.
development=$(printf '%s\n' "${packages[@]}" | grep /liblanyard-dev_)
[[ $(dpkg-deb --field "$development" Depends) != *gfortran* ]] || fail "liblanyard-dev wants gfortran"
for file in 'usr/lib/.*/liblanyard_fortran-openmpi\.a' 'usr/lib/.*/pkgconfig/lanyard-mpich-fortran-routines\.pc' \
  'usr/share/lanyard/lanyard_f08\.f90' 'usr/share/doc/liblanyard-dev/copyright' \
  'usr/share/doc/liblanyard-dev/guide\.md'; do
  [[ $(dpkg-deb --contents "$development" | grep -c "[.]/$file\$") == 1 ]] || fail "liblanyard-dev has no $file"
done
for holder in 'University of Cincinnati' 'Niels Lohmann' 'Intel Corporation' 'Victor Zverovich' 'Boost project'; do
  grep -q "$holder" "$root/usr/share/doc/lanyard/copyright" || fail "what is of $holder in the binaries is not said"
done
for page in MPIX_Queue_wait.3 MPIX_Matchall.3 lanyard.1 lanyard.7; do
  [[ -e $root/usr/share/man/man${page##*.}/$page.gz ]] || fail "there is no manual page $page"
done
"$root/usr/bin/lanyard" --help >/dev/null || fail "lanyard --help ended with $?"

"${in_root[@]}" --purge lanyard liblanyard-fortran-dev liblanyard-dev liblanyard-mpich0 liblanyard-openmpi0 >"$work/log" 2>&1 ||
  fail "dpkg --purge: $(cat "$work/log")"
left=$(find "$root" -name '*anyard*' ! -path '*/var/lib/dpkg/*')
[[ -z $left ]] || fail "left behind: $left"
echo "everything holds"
