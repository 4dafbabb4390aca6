# A recipe for Spack, from a tree that you have: Lanyard has no published address yet. Checked for its form
# (tests/install/version_test.sh), not yet tried with Spack.
#
#   spack repo create ~/lanyard-spack lanyard_spack && spack repo add ~/lanyard-spack
#   mkdir -p ~/lanyard-spack/packages/lanyard && cp tools/installation/spack/package.py ~/lanyard-spack/packages/lanyard/
#   spack dev-build lanyard@0.1.0        # in the root of Lanyard's tree
#
# MPICH and libfabric are Spack's. Boost 1.81, CLI11, fmt, hwloc, Nettle and JSON for Modern C++ must be the system's
# (tools/setup says the names of Debian's packages): the build finds them nowhere else.
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
