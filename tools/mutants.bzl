"""Libraries that exist twice: as they are shipped, and as NAME_mutants with known mistakes compiled in.

The second is for tests and tools alone, and has the tag "mutants": it compiles copies of the sources named in PATCHED, with the patches of
tools/mutants applied, and depends on the second form of the libraries named in _WITH_MUTANTS. A program links either
form of all of them. See tools/mutants/README.md.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")

# Each has a patch //tools/mutants:SOURCE.patch.
PATCHED = [
    "nicsim/deterministic/step_nic.cc",
    "nicsim/deterministic/step_stream.cc",
    "nicsim/model/entry_table.cc",
    "nicsim/model/nic_model.cc",
    "transport/core/control_channel.cc",
    "transport/core/control_plane.cc",
    "transport/core/endpoint.cc",
    "transport/core/exchange.cc",
    "transport/core/exchange_sets.cc",
    "transport/core/failure_book.cc",
    "transport/core/matcher.cc",
    "transport/core/merged_postings.cc",
    "transport/core/overflow.cc",
    "transport/core/plan.cc",
    "transport/core/posted_queue.cc",
    "transport/core/prepared_plan.cc",
    "transport/core/queue.cc",
    "transport/core/queue_capture.cc",
    "transport/core/queue_merged.cc",
    "transport/core/resources.cc",
    "transport/core/standing.cc",
    "transport/cxi/ofi_counter.cc",
    "transport/cxi/ofi_drive.cc",
    "transport/cxi/ofi_nic.cc",
    "transport/cxi/ofi_post.cc",
    "transport/cxi/ofi_region.cc",
    "transport/cxi/work.cc",
]

_WITH_MUTANTS = [
    "//nicsim/model:model",
    "//transport/core:core",
    "//transport/cxi:objects",
    "//transport/cxi:ofi_nic",
    ":deterministic",
    ":objects",
]

# --fuzz=0, --forward: a hunk whose lines have changed, or stand there already, is an error.
_APPLY = """
cp $(location {src}) $@
chmod u+w $@
patch --fuzz=0 --forward --silent --no-backup-if-mismatch --reject-file=- $@ $(location {patch}) >&2 || {{
  echo "tools/mutants/{path}.patch does not apply to {path}: see tools/mutants/README.md" >&2
  exit 1
}}
sed -i '1i #include "tools/mutants/mutant.h"' $@
"""

def _mutant_of(label):
    full = label if ":" in label or label.startswith("@") else "%s:%s" % (label, label.split("/")[-1])
    return full + "_mutants" if full in _WITH_MUTANTS else label

def _mutated(src):
    path = "%s/%s" % (native.package_name(), src)
    if path not in PATCHED:
        return src
    patch = "//tools/mutants:%s.patch" % path
    stem = src[:-len(".cc")]
    native.genrule(
        name = stem + "_mutated",
        testonly = True,
        srcs = [src, patch],
        outs = [stem + "_mutants.cc"],
        cmd = _APPLY.format(src = src, patch = patch, path = path),
        visibility = ["//visibility:private"],
    )
    return stem + "_mutants.cc"

def cc_library_with_mutants(name, srcs, deps = [], **kw):
    cc_library(name = name, srcs = srcs, deps = deps, **kw)
    cc_library(
        name = name + "_mutants",
        testonly = True,
        tags = ["mutants"],
        srcs = [_mutated(src) for src in srcs],
        deps = [_mutant_of(dep) for dep in deps] + ["//tools/mutants:mutant"],
        **kw
    )
