"""Fortran programs and modules that use MPI, built once per implementation by its mpifort.

  mpi_fortran_library  <name>_openmpi, <name>_mpich: objects and a module file
  mpi_fortran_test     <name>_openmpi_n2, <name>_openmpi_n4, <name>_mpich_n2, ...

Bazel knows no Fortran: the compiler runs in a genrule, and what it makes is linked as C++ is.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("//tools/mpi:mpi.bzl", "DEFAULT_RANKS", "IMPLEMENTATIONS", "mpi_cc_test")

def _choose_compiler(impl):
    """Sets $fortran: Debian's name of the wrapper, or that of the MPICH which MPICH_HOME names (Cray's is ftn)."""
    choice = "fortran=mpifort.%s;" % impl
    if impl == "mpich":
        home = "$${MPICH_HOME:-}"
        choice += " [ -z \"%s\" ] || fortran=$$(command -v \"%s/bin/mpifort\" || echo ftn);" % (home, home)
    return choice

def _compile(name, impl, src, module, module_files, testonly):
    """The genrule `name`, its object file, and the module file where `module` is one."""
    outs = [name + ".pic.o"] + (["%s/%s.mod" % (impl, module)] if module else [])
    folder = "$(RULEDIR)/" + (impl if module else name + "_modules")
    native.genrule(
        name = name,
        testonly = testonly,
        srcs = [src] + module_files,
        outs = outs,
        # -J: the folder for module files. Each MPI has its own, and so has each program.
        cmd = " ".join(
            [_choose_compiler(impl), "mkdir -p {0} && \"$$fortran\" -J {0}".format(folder)] +
            ["-std=f2008ts -O2 -g -fPIC -Wall -Wextra -Werror -Wno-c-binding-type"] +
            ["-ffile-prefix-map=$$PWD=."] +  # hides the build folder
            ["-I $$(dirname $(location %s))" % m for m in module_files] +
            ["-c $(location %s) -o $(location %s)" % (src, outs[0])],
        ),
    )
    return outs[0]

def mpi_fortran_library(name, src, module, mpi_deps = [], testonly = False, **kw):
    """`src` defines the module `module`. Its file is the target <name>_<impl>_module."""
    for impl in IMPLEMENTATIONS:
        made = "%s_%s_compiled" % (name, impl)
        compiled = _compile(made, impl, src, module, [], testonly)
        native.filegroup(
            name = "%s_%s_module" % (name, impl),
            testonly = testonly,
            srcs = ["%s/%s.mod" % (impl, module)],
            **kw
        )
        cc_library(
            name = "%s_%s" % (name, impl),
            testonly = testonly,
            srcs = [compiled],
            linkopts = ["-lgfortran"],
            deps = ["%s_%s" % (d, impl) for d in mpi_deps] + ["@%s//:mpi_fortran" % impl],
            **kw
        )

def mpi_fortran_test(name, src, mpi_deps, ranks = DEFAULT_RANKS, **kw):
    """One program a test. `mpi_deps` are labels //package:name of mpi_fortran_library targets."""
    for impl in ranks:
        compiled = _compile(
            "%s_%s_compiled" % (name, impl),
            impl,
            src,
            None,
            ["%s_%s_module" % (d, impl) for d in mpi_deps],
            testonly = True,
        )
        mpi_cc_test(
            name = name,
            srcs = [compiled],
            mpi_deps = mpi_deps,
            ranks = {impl: ranks[impl]},
            **kw
        )
