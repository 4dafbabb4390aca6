"""Targets that use MPI, built once per implementation because each has its own mpi.h.

  mpi_cc_library  <name>_openmpi, <name>_mpich
  mpi_cc_binary   <name> (Open MPI), <name>_mpich
  mpi_cc_test     <name>_openmpi_n2, <name>_openmpi_n4, <name>_mpich_n2, ...
  mpi_run_test    <name>: an existing mpi_cc_binary under one implementation

Tests of mpi_cc_test are for the night (tag "night"), but for Open MPI with two ranks.

`deps` are targets without MPI. Each label L of `mpi_deps` names an mpi_cc_library and becomes
L_openmpi or L_mpich.
"""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library")
load("@rules_shell//shell:sh_test.bzl", "sh_test")

IMPLEMENTATIONS = ["openmpi", "mpich"]

# MPICH busy-polls: with more ranks than cores one barrier takes 10 ms and more.
DEFAULT_RANKS = {
    "openmpi": [2, 4],
    "mpich": [2],
}

def _with_suffix(label, suffix):
    """":a" -> ":a_x", "//p:a" -> "//p:a_x", "//p/a" -> "//p/a:a_x"."""
    if ":" not in label and label.startswith(("//", "@")):
        label += ":" + label.split("/")[-1]
    return label + suffix

def _all_deps(impl, deps, mpi_deps):
    return deps + [_with_suffix(d, "_" + impl) for d in mpi_deps] + ["@%s//:mpi" % impl]

def mpi_cc_library(name, deps = [], mpi_deps = [], **kw):
    for impl in IMPLEMENTATIONS:
        cc_library(name = name + "_" + impl, deps = _all_deps(impl, deps, mpi_deps), **kw)

def mpi_cc_binary(name, deps = [], mpi_deps = [], **kw):
    for impl, target in [("openmpi", name), ("mpich", name + "_mpich")]:
        cc_binary(name = target, deps = _all_deps(impl, deps, mpi_deps), **kw)

def _mpirun_test(name, impl, ranks, program, args, env, data = [], tags = [], **kw):
    settings = []
    for key in sorted(env):
        settings += ["--env", "'%s=%s'" % (key, env[key])]
    sh_test(
        name = name,
        srcs = ["//tools:mpirun"],
        args = ["--mpi", impl, "-n", str(ranks)] + settings + ["$(location %s)" % program] + args,
        data = [program] + data,
        # external: mpirun lies outside Bazel's view, so no result may come from the cache.
        # exclusive: the ranks fill the machine.
        tags = tags + ["exclusive", "external"],
        **kw
    )

def mpi_cc_test(
        name,
        srcs,
        deps = [],
        mpi_deps = [],
        ranks = DEFAULT_RANKS,
        args = [],
        env = {},
        data = [],
        size = "medium",
        tags = [],
        **kw):
    """One program a test, run by tools/mpirun; `ranks` maps an implementation to rank counts.

    args are words for the program ($(location) and Bourne quoting as in sh_test), env is added to
    its environment; both reach every rank. Remaining arguments go to the cc_binary.
    """
    for impl in ranks:
        if impl not in IMPLEMENTATIONS:
            fail("%s: ranks names %r, not one of %s" % (name, impl, IMPLEMENTATIONS))
        program = "%s_%s" % (name, impl)
        cc_binary(
            name = program,
            testonly = True,
            srcs = srcs,
            data = data,
            deps = _all_deps(impl, deps, mpi_deps),
            tags = tags,
            **kw
        )
        for n in ranks[impl]:
            _mpirun_test(
                name = "%s_n%d" % (program, n),
                impl = impl,
                ranks = n,
                program = ":" + program,
                args = args,
                env = env,
                data = data,
                size = size,
                tags = tags + ([] if impl == "openmpi" and n == 2 else ["night"]),
            )

def mpi_run_test(
        name,
        binary,
        impl = "openmpi",
        ranks = 2,
        args = [],
        env = {},
        size = "medium",
        **kw):
    """Runs the mpi_cc_binary `binary` as a test; `impl` chooses between it and its MPICH twin."""
    program = binary if impl == "openmpi" else _with_suffix(binary, "_" + impl)
    _mpirun_test(name, impl, ranks, program, args, env, size = size, **kw)
