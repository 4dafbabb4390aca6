"""Libraries that exist twice: as they are shipped, and as NAME_mutants with known mistakes compiled in.

The second is for tests and tools alone; it depends on the second form of the libraries named in _WITH_MUTANTS. A program
links either form of all of them. See transport/base/mutant.h.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")

_WITH_MUTANTS = [
    "//nicsim/model:model",
    "//transport/core:core",
    ":deterministic",
]

def _mutant_of(label):
    full = label if ":" in label or label.startswith("@") else "%s:%s" % (label, label.split("/")[-1])
    return full + "_mutants" if full in _WITH_MUTANTS else label

def cc_library_with_mutants(name, deps = [], **kw):
    cc_library(name = name, deps = deps, **kw)
    cc_library(
        name = name + "_mutants",
        testonly = True,
        defines = ["LANYARD_MUTANTS"],
        deps = [_mutant_of(dep) for dep in deps],
        **kw
    )
