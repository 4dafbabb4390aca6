"""The system's packages as Bazel repositories: nothing is downloaded.

One repository rule of our own rather than new_local_repository: it says which package is missing,
it takes several candidate folders, and it loads in every Bazel from 4 to 8 (the built-in rule went
in 8). A missing package is an error only for the targets that need it.

Before them come stand-ins for the archives that Bazel 4.2.3 downloads before it builds or tests any C++.
"""

# By repository and file: Bazel's native rules under the names of the archive.
_SHIMS = {
    "rules_cc": (
        "cc/defs.bzl",
        "cc_binary cc_import cc_library cc_proto_library cc_test cc_toolchain cc_toolchain_suite objc_import objc_library",
    ),
    "rules_java": ("java/defs.bzl", "java_binary java_import java_library java_runtime java_test java_toolchain"),
    "rules_shell": ("shell/sh_test.bzl", "sh_test"),
}

def _shim_impl(ctx):
    if ctx.name not in _SHIMS:  # remote_coverage_tools
        ctx.file("nop.sh", "#!/bin/sh\n")
        ctx.file("BUILD.bazel", """package(default_visibility = ["//visibility:public"])
sh_binary(name = "coverage_report_generator", srcs = ["nop.sh"])
sh_binary(name = "lcov_merger", srcs = ["nop.sh"])
filegroup(name = "coverage_output_generator", srcs = ["nop.sh"])
""")
        return
    file, rules = _SHIMS[ctx.name]
    ctx.file(file.split("/")[0] + "/BUILD.bazel")
    ctx.file(file, "".join(["%s = native.%s\n" % (rule, rule) for rule in rules.split(" ")]))

_shim = repository_rule(implementation = _shim_impl)

def offline_shims():
    # Debian's bazel-bootstrap 4.2.3 calls itself "no_version" or ""; a release says "7.7.1".
    version = native.bazel_version
    major = version.split(".")[0] if version else ""
    if major.isdigit() and int(major) >= 8:
        return  # 8 and later bring their own
    names = ["rules_shell"]  # sh_test is still built in up to 7
    if not major.isdigit() or int(major) <= 4:
        names += ["rules_cc", "rules_java", "remote_coverage_tools"]
    for name in names:
        if not native.existing_rule(name):
            _shim(name = name)

def _define(ctx, path, name):
    """The integer that a header's `#define NAME value` gives, or 0."""
    for line in ctx.read(path).split("\n"):
        words = [w for w in line.replace("\t", " ").split(" ") if w]
        if len(words) >= 3 and words[0] == "#define" and words[1] == name and words[2].isdigit():
            return int(words[2])
    return 0

def _system_library_impl(ctx):
    problem = ""
    home = ctx.os.environ.get(ctx.attr.home, "") if ctx.attr.home else ""
    for link in ctx.attr.links:
        candidates = ctx.attr.links[link]
        if home:
            candidates = [home + "/" + ctx.attr.below_home[link]]
        found = [c for c in candidates if ctx.path(c).exists]
        if found:
            ctx.symlink(found[0], link)
        else:
            problem = "not found: " + " or ".join(candidates)
    if not problem and ctx.attr.version_header:
        version = _define(ctx, ctx.attr.version_header, ctx.attr.version_define)
        if version < ctx.attr.version_at_least:
            problem = "%s is %d, but %d or newer is needed" % (
                ctx.attr.version_define,
                version,
                ctx.attr.version_at_least,
            )
    if problem:
        message = "@%s: %s; on Debian: apt-get install %s" % (ctx.name, problem, ctx.attr.package)
        ctx.file("BUILD.bazel", "fail(%r)\n" % message)
    elif ctx.attr.build_text:
        ctx.file("BUILD.bazel", ctx.attr.build_text)
    else:
        ctx.file("home.bzl", "HOME = %r\n" % home)
        ctx.symlink(ctx.attr.build_file, "BUILD.bazel")

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "build_file": attr.label(allow_single_file = True),
        "build_text": attr.string(),  # in place of the file
        # An environment variable that names where a site has it; then links are `below_home`, and only there. A
        # build_file finds it as HOME in home.bzl.
        "below_home": attr.string_dict(),
        "home": attr.string(),
        "links": attr.string_list_dict(mandatory = True),  # name here -> candidate paths
        "package": attr.string(mandatory = True),
        "version_at_least": attr.int(),
        "version_define": attr.string(),
        "version_header": attr.string(),  # below a link, as in "boost/version.hpp"
    },
    environ = [
        "LIBFABRIC_HOME",
        "MPICH_HOME",
    ],
    local = True,
)

def _multiarch(pattern):
    return [pattern % arch for arch in ["x86_64-linux-gnu", "aarch64-linux-gnu"]]

def _headers(name, folder, package, targets = None, **kw):
    """Libraries whose headers are on the compiler's own path: the repository only proves that they are there.

    `targets`: their attributes by name; by default one that has the repository's name and no attributes."""
    lines = ['load("@rules_cc//cc:defs.bzl", "cc_library")', 'package(default_visibility = ["//visibility:public"])']
    for target, attributes in (targets or {name: {}}).items():
        lines.append("cc_library(name = %r, %s)" % (target, ", ".join(["%s = %r" % each for each in attributes.items()])))
    system_library(
        name = name,
        build_text = "\n".join(lines) + "\n",
        links = {folder: ["/usr/include/" + folder, "/usr/local/include/" + folder]},
        package = package,
        **kw
    )

def system_repositories():
    # Compiled from Debian's sources: sanitizers and clang get a gtest with the flags of the tests.
    system_library(
        name = "com_google_googletest",
        build_file = "//tools/third_party/system:googletest.BUILD",
        links = {
            "googlemock": ["/usr/src/googletest/googlemock"],
            "googletest": ["/usr/src/googletest/googletest"],
        },
        package = "googletest",
    )
    system_library(
        name = "mpich",
        build_file = "//tools/third_party/system:mpich.BUILD",
        below_home = {"include": "include"},
        home = "MPICH_HOME",
        links = {"include": _multiarch("/usr/include/%s/mpich")},
        package = "libmpich-dev",
    )
    system_library(
        name = "openmpi",
        build_file = "//tools/third_party/system:openmpi.BUILD",
        links = {
            "include": _multiarch("/usr/lib/%s/openmpi/include"),
            "lib": _multiarch("/usr/lib/%s/openmpi/lib"),
        },
        package = "libopenmpi-dev",
    )
    system_library(
        name = "libfabric",
        build_file = "//tools/third_party/system:libfabric.BUILD",
        below_home = {"rdma": "include/rdma"},
        home = "LIBFABRIC_HOME",
        links = {"rdma": ["/usr/include/rdma", "/usr/local/include/rdma"]},
        package = "libfabric-dev",
    )
    _headers(
        "boost",
        "boost",
        "libboost1.81-dev (or any libboost-dev from 1.81 on)",
        targets = {
            "asio": {
                "defines": ["BOOST_ASIO_NO_DEPRECATED", "BOOST_ASIO_HAS_CO_AWAIT=1"],
                "linkopts": ["-pthread"],
            },
            "headers": {},  # libraries that are headers and nothing else: Math, uBLAS, Unordered
        },
        version_header = "boost/version.hpp",
        version_define = "BOOST_VERSION",
        version_at_least = 108100,
    )
    _headers("cli11", "CLI", "libcli11-dev")

    # Header-only, so that sanitizers see it.
    _headers("fmt", "fmt", "libfmt-dev", {"fmt": {"defines": ["FMT_HEADER_ONLY=1"]}})
    _headers("hwloc", "hwloc", "libhwloc-dev", {"hwloc": {"linkopts": ["-lhwloc"]}})
    _headers("metis", "metis.h", "libmetis-dev", {"metis": {"linkopts": ["-lmetis"]}})
    _headers("nettle", "nettle", "nettle-dev", {"nettle": {"linkopts": ["-lnettle"]}})
    _headers("nlohmann_json", "nlohmann", "nlohmann-json3-dev", {"json": {}})
    _headers("zlib", "zlib.h", "zlib1g-dev", {"zlib": {"linkopts": ["-lz"]}})
