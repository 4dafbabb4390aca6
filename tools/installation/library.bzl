"""installed_library: one shared library and one archive out of a C++ library and all of ours that it depends on.

Users link one file, whatever the tree is cut into. The objects are joined into one first: whoever takes it takes all of it,
so a program that names no function of Lanyard's but links the archive still has its MPI calls followed. Of the joined
object's symbols only those that match `keep` stay global: a program may have functions of its own by the names of ours,
and another version of a library that is compiled in.

Outputs: lib<NAME>.a, and, where there is a `soname`, lib<NAME>.so. What `beside` has is left out: users link that, too.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _parts(dep):
    """Archives of this tree, others' shared libraries, and flags for the linker, in the order of linking."""
    archives, shared, flags = [], [], []
    for linked in dep[CcInfo].linking_context.linker_inputs.to_list():
        flags += linked.user_link_flags
        for library in linked.libraries:
            archive = library.pic_static_library or library.static_library
            if archive:
                archives.append(archive)
            else:
                shared.append(library.resolved_symlink_dynamic_library or library.dynamic_library)
    return archives, shared, flags

def _strictness(linkopts):
    """-z defs: what is missing is an error here, and not of the user's program. Sanitizers' functions are missing by design."""
    return [] if [flag for flag in linkopts if flag.startswith("-fsanitize")] else ["-Wl,-z,defs"]

def _installed_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    archives, shared, flags = _parts(ctx.attr.dep)
    name = "lib" + ctx.attr.installed_name
    if ctx.attr.beside:
        others = _parts(ctx.attr.beside)[0]
        archives = [archive for archive in archives if archive not in others]
    whole = ctx.actions.declare_file(name + ".whole.o")
    joined = ctx.actions.declare_file(name + ".o")
    archive = ctx.actions.declare_file(name + ".a")

    ctx.actions.run(
        # Not the compiler: an MPI's compiler wrapper would add the MPI's archive to the object.
        executable = toolchain.ld_executable,
        # Resolve COMDAT groups here. Else a program's linker may replace one of our groups by the
        # program's of the same name, and references to our local symbols break.
        arguments = ["-r", "--force-group-allocation", "-o", whole.path, "--whole-archive"] + [f.path for f in archives],
        inputs = archives,
        outputs = [whole],
        mnemonic = "JoinObjects",
        use_default_shell_env = True,
    )
    # objcopy cannot hide gcc's unique symbols (static variables of inline functions): make them
    # weak first.
    ctx.actions.run_shell(
        command = """set -euo pipefail
            unique=$({nm} --defined-only {whole} | awk '$2 == "u" {{print "--weaken-symbol=" $3}}')
            {objcopy} $unique {whole} {joined}.weak
            {objcopy} --wildcard {keep} {joined}.weak {joined}
            rm {joined}.weak""".format(
            joined = joined.path,
            keep = " ".join(["'--keep-global-symbol=%s'" % symbol for symbol in ctx.attr.keep]),
            nm = toolchain.nm_executable,
            objcopy = toolchain.objcopy_executable,
            whole = whole.path,
        ),
        inputs = [whole],
        outputs = [joined],
        mnemonic = "HideSymbols",
        use_default_shell_env = True,
    )
    ctx.actions.run_shell(
        command = "rm -f %s && ar rcsD %s %s" % (archive.path, archive.path, joined.path),
        inputs = [joined],
        outputs = [archive],
        mnemonic = "Archive",
    )
    if not ctx.attr.soname:
        return [DefaultInfo(files = depset([archive]))]

    library = ctx.actions.declare_file(name + ".so")
    ctx.actions.run(
        executable = toolchain.compiler_executable,
        arguments = ["-shared", "-o", library.path, joined.path] + [f.path for f in shared] + [
            "-Wl,-soname," + ctx.attr.soname,
            "-Wl,--version-script," + ctx.file.exports.path,
            "-Wl,-z,relro,-z,now,--gc-sections,--as-needed",
            "-lstdc++",
            "-lm",
        ] + flags + ctx.fragments.cpp.linkopts + _strictness(ctx.fragments.cpp.linkopts),
        inputs = [joined, ctx.file.exports] + shared,
        outputs = [library],
        mnemonic = "LinkInstalled",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([library, archive]), runfiles = ctx.runfiles([library, archive]))]

installed_library = rule(
    implementation = _installed_library_impl,
    attrs = {
        "beside": attr.label(providers = [CcInfo]),
        "dep": attr.label(
            mandatory = True,
            providers = [CcInfo],
        ),
        "exports": attr.label(allow_single_file = True),  # a version script for the shared library
        "installed_name": attr.string(mandatory = True),
        "keep": attr.string_list(mandatory = True),  # with wildcards
        "soname": attr.string(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
