"""gpu_kernels: device code as bytes in a C++ source, lanyard::gpu::kKernelImage, for programs that load it with the vendor's driver.

No host code of the vendor's compiler and no run-time library get in, so the result links anywhere.
"""

load("@gpu_toolkits//:defs.bzl", "HIPCC", "HIPCC_MISSING", "NVCC", "NVCC_MISSING")

def _compile(ctx, image):
    """The command that makes the image, and what to say if there is no compiler.

    Products and sums stay what they are on hosts (gpu/combine.h).
    """
    source = ctx.file.src.path
    common = ["-std=c++20", "-O3", "-I.", source, "-o", image.path]
    if ctx.attr.vendor == "cuda":
        # For today's devices their code, for later ones the newest as PTX.
        codes = ["-gencode=arch=compute_%s,code=sm_%s" % (a, a) for a in ctx.attr.archs]
        codes.append("-gencode=arch=compute_%s,code=compute_%s" % (ctx.attr.archs[-1], ctx.attr.archs[-1]))
        return [NVCC, "--fatbin", "-fmad=false"] + codes + common if NVCC else None, NVCC_MISSING
    codes = ["--offload-arch=%s" % a for a in ctx.attr.archs]
    return [HIPCC, "--genco", "-x", "hip", "-ffp-contract=off"] + codes + common if HIPCC else None, HIPCC_MISSING

def _gpu_kernels_impl(ctx):
    image = ctx.actions.declare_file(ctx.label.name + ".image")
    source = ctx.actions.declare_file(ctx.label.name + ".cc")
    command, missing = _compile(ctx, image)
    if command:
        ctx.actions.run(
            executable = command[0],
            arguments = command[1:],
            inputs = [ctx.file.src] + ctx.files.hdrs,
            outputs = [image],
            mnemonic = "GpuCompile",
            progress_message = "Compiling %s for %s" % (ctx.file.src.short_path, ctx.attr.vendor),
            use_default_shell_env = True,
        )
    else:
        ctx.actions.run_shell(
            command = "echo >&2 '%s'; exit 1" % missing,
            outputs = [image],
            mnemonic = "GpuCompile",
        )
    ctx.actions.run_shell(
        command = "{ echo '%s'; od -An -v -tu1 -w32 %s | sed 's/  */,/g; s/^,//; s/$/,/'; echo '%s'; } > %s" % (
            "namespace lanyard::gpu {\nextern const unsigned char kKernelImage[];\n" +
            "alignas(4096) const unsigned char kKernelImage[] = {",
            image.path,
            "};\n}",
            source.path,
        ),
        inputs = [image],
        outputs = [source],
        mnemonic = "GpuEmbed",
    )
    return [DefaultInfo(files = depset([source]))]

gpu_kernels = rule(
    implementation = _gpu_kernels_impl,
    attrs = {
        "archs": attr.string_list(mandatory = True),  # ascending
        "hdrs": attr.label_list(allow_files = True),
        "src": attr.label(allow_single_file = True, mandatory = True),
        "vendor": attr.string(
            mandatory = True,
            values = ["cuda", "hip"],
        ),
    },
)
