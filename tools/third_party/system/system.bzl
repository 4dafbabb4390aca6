"""The system's packages as Bazel repositories: nothing is downloaded.

One repository rule of our own rather than new_local_repository: it says which package is missing,
it takes several candidate folders, and it loads in every Bazel from 4 to 8 (the built-in rule went
in 8). A missing package is an error only for the targets that need it.
"""

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
    elif home and ctx.attr.home_build_file:
        ctx.symlink(ctx.attr.home_build_file, "BUILD.bazel")
    else:
        ctx.symlink(ctx.attr.build_file, "BUILD.bazel")

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        # An environment variable that names where a site has it; then links are `below_home`, and only there.
        "below_home": attr.string_dict(),
        "home": attr.string(),
        "home_build_file": attr.label(allow_single_file = True),
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

def _header_only(name, folder, package, **kw):
    """Headers on the compiler's own path; the repository only proves that they are there."""
    system_library(
        name = name,
        build_file = "//tools/third_party/system:%s.BUILD" % name,
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
        home_build_file = "//tools/third_party/system:mpich_home.BUILD",
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
    _header_only(
        "boost",
        "boost",
        "libboost1.81-dev (or any libboost-dev from 1.81 on)",
        version_header = "boost/version.hpp",
        version_define = "BOOST_VERSION",
        version_at_least = 108100,
    )
    _header_only("hwloc", "hwloc", "libhwloc-dev")
    _header_only("cli11", "CLI", "libcli11-dev")
    _header_only("fmt", "fmt", "libfmt-dev")
    _header_only("metis", "metis.h", "libmetis-dev")
    _header_only("nettle", "nettle", "nettle-dev")
    _header_only("nlohmann_json", "nlohmann", "nlohmann-json3-dev")
    _header_only("zlib", "zlib.h", "zlib1g-dev")
