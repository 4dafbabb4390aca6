# A Spack recipe for a local source tree: Lanyard has no published address yet. Not yet tried with
# Spack; tests/install/version_test.sh checks its form.
#
#   spack repo create ~/lanyard-spack lanyard_spack && spack repo add ~/lanyard-spack
#   mkdir -p ~/lanyard-spack/packages/lanyard
#   cp tools/installation/spack/package.py ~/lanyard-spack/packages/lanyard/
#   spack dev-build lanyard@0.1.0        # in the root of Lanyard's tree
#
# Spack provides MPICH and libfabric. The system must provide Boost 1.81, CLI11, fmt, hwloc, Nettle,
# zlib and JSON for Modern C++: the build does not look elsewhere. tools/setup lists Debian's
# packages.
from spack.package import *


class Lanyard(Package):
    """CPU-free, stream-triggered MPI communication, with a simulated network card."""

    license("Apache-2.0")

    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")
    depends_on("bazel@4:5", type="build")
    depends_on("libfabric")
    depends_on("mpich")

    def setup_build_environment(self, env):
        env.set("MPICH_HOME", self.spec["mpich"].prefix)
        env.set("LIBFABRIC_HOME", self.spec["libfabric"].prefix)
        # The wrapper alone knows the MPI's libraries.
        env.set("CC", join_path(self.spec["mpich"].prefix.bin, "mpicc"))

    def install(self, spec, prefix):
        Executable("tools/install")("--no-setup", "--mpi", "mpich", "--prefix", str(prefix))
