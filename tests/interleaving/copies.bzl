"""Copies of shipped sources that run under the scheduler; substitute.awk makes the changes."""

load("@rules_cc//cc:defs.bzl", "cc_library")

# All sources with threads, clocks or atomics, and all that include one of these.
COPIED = [
    "gpu/lane_protocol.h",
    "nicsim/threaded/device_mover.cc",
    "nicsim/threaded/device_mover.h",
    "nicsim/threaded/doorbell_words.h",
    "nicsim/threaded/threaded_drive.cc",
    "nicsim/threaded/threaded_nic.cc",
    "nicsim/threaded/threaded_nic.h",
    "nicsim/wire/bell.h",
    "nicsim/wire/inbox.cc",
    "nicsim/wire/inbox.h",
    "nicsim/wire/shm_bulk.cc",
    "nicsim/wire/shm_bulk.h",
    "nicsim/wire/shm_peers.cc",
    "nicsim/wire/shm_peers.h",
    "nicsim/wire/shm_wire.cc",
    "nicsim/wire/shm_wire.h",
    "nicsim/wire/wire.h",
    "transport/base/futex.h",
    "transport/base/mpsc_ring.h",
    "transport/base/service_thread.h",
    "transport/nic/drive_right.h",
]

_COPY = """
awk -v source={path} -v copied="{copied}" -f $(location substitute.awk) $(location substitutions.txt) \
    $(location {label}) > $@
"""

def copied_sources(name):
    """Makes the copies: the sources are NAME_srcs, the headers NAME_hdrs."""
    for path in COPIED:
        package, _, file = path.rpartition("/")
        label = "//%s:%s" % (package, file)
        native.genrule(
            name = path.replace("/", "_").replace(".", "_"),
            testonly = True,
            srcs = [label, "substitute.awk", "substitutions.txt"],
            outs = ["copies/" + path],
            cmd = _COPY.format(path = path, label = label, copied = " ".join(COPIED)),
        )

def copies(suffix):
    return ["copies/" + path for path in COPIED if path.endswith(suffix)]
