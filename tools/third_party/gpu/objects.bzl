"""gpu_objects: an object file with host and device code, for programs that use the vendor's run-time library.

It is a source of a cc_library that depends on @gpu_toolkits//:cuda_runtime or :hip_runtime.
"""

load("@gpu_toolkits//:defs.bzl", "HIPCC", "HIPCC_MISSING", "NVCC", "NVCC_MISSING")

def _compile(ctx, result):
    """The command that makes the object, and what to say if there is no compiler."""
    include_paths = depset(transitive = [dep[CcInfo].compilation_context.includes for dep in ctx.attr.deps]).to_list()
    common = ["-c", "-std=c++20", "-O3", "-I."] + ["-I" + path for path in include_paths]
    common += [ctx.file.src.path, "-o", result.path]
    if ctx.attr.vendor == "cuda":
        # For today's devices their code, for later ones the newest as PTX.
        codes = ["-gencode=arch=compute_%s,code=sm_%s" % (a, a) for a in ctx.attr.archs]
        codes.append("-gencode=arch=compute_%s,code=compute_%s" % (ctx.attr.archs[-1], ctx.attr.archs[-1]))
        return [NVCC, "-Xcompiler=-fPIC,-Wall"] + codes + common if NVCC else None, NVCC_MISSING
    codes = ["--offload-arch=%s" % a for a in ctx.attr.archs]
    return [HIPCC, "-x", "hip", "-fPIC", "-Wall"] + codes + common if HIPCC else None, HIPCC_MISSING

def _gpu_objects_impl(ctx):
    result = ctx.actions.declare_file(ctx.label.name + ".pic.o")
    command, missing = _compile(ctx, result)
    if command:
        ctx.actions.run(
            executable = command[0],
            arguments = command[1:],
            inputs = depset(
                [ctx.file.src] + ctx.files.hdrs,
                transitive = [dep[CcInfo].compilation_context.headers for dep in ctx.attr.deps],
            ),
            outputs = [result],
            mnemonic = "GpuCompile",
            progress_message = "Compiling %s for %s" % (ctx.file.src.short_path, ctx.attr.vendor),
            use_default_shell_env = True,
        )
    else:
        ctx.actions.run_shell(
            command = "echo >&2 '%s'; exit 1" % missing,
            outputs = [result],
            mnemonic = "GpuCompile",
        )
    return [DefaultInfo(files = depset([result]))]

gpu_objects = rule(
    implementation = _gpu_objects_impl,
    attrs = {
        "archs": attr.string_list(mandatory = True),  # ascending
        "deps": attr.label_list(providers = [CcInfo]),  # for their headers
        "hdrs": attr.label_list(allow_files = True),
        "src": attr.label(
            allow_single_file = True,
            mandatory = True,
        ),
        "vendor": attr.string(
            mandatory = True,
            values = ["cuda", "hip"],
        ),
    },
)
