"""Device code, compiled by the vendor's compiler.

gpu_kernels: an image as bytes in a C++ source, lanyard::gpu::kKernelImage, for programs that load it with the vendor's
driver. No host code of the vendor's compiler and no run-time library get in, so the result links anywhere.

gpu_libraries: libraries <vendor>_<name> of host and device code, for programs that use the vendor's run-time library.
It returns what to put into deps: the library of the build's configuration, or nothing.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")
load("@gpu_toolkits//:defs.bzl", "HIPCC", "HIPCC_MISSING", "NVCC", "NVCC_MISSING")

# Of each vendor, ascending.
_ARCHS = {
    "cuda": ["80", "90"],
    "hip": ["gfx90a"],
}

def _compile(ctx, result, cuda_options, hip_options, options):
    """Makes `result` of the rule's source, or says that there is no compiler."""
    archs = _ARCHS[ctx.attr.vendor]
    if ctx.attr.vendor == "cuda":
        # For today's devices their code, for later ones the newest as PTX.
        compiler, missing = NVCC, NVCC_MISSING
        vendors = cuda_options + ["-gencode=arch=compute_%s,code=sm_%s" % (a, a) for a in archs]
        vendors.append("-gencode=arch=compute_%s,code=compute_%s" % (archs[-1], archs[-1]))
    else:
        compiler, missing = HIPCC, HIPCC_MISSING
        vendors = ["-x", "hip"] + hip_options + ["--offload-arch=%s" % a for a in archs]
    if compiler:
        ctx.actions.run(
            executable = compiler,
            arguments = vendors + options + ["-std=c++20", "-O3", "-I.", ctx.file.src.path, "-o", result.path],
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

def _gpu_kernels_impl(ctx):
    image = ctx.actions.declare_file(ctx.label.name + ".image")
    source = ctx.actions.declare_file(ctx.label.name + ".cc")

    # Products and sums stay what they are on hosts (gpu/combine.h).
    _compile(ctx, image, ["--fatbin", "-fmad=false"], ["--genco", "-ffp-contract=off"], [])
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

def _gpu_objects_impl(ctx):
    result = ctx.actions.declare_file(ctx.label.name + ".pic.o")
    include_paths = depset(transitive = [dep[CcInfo].compilation_context.includes for dep in ctx.attr.deps]).to_list()
    _compile(ctx, result, ["-Xcompiler=-fPIC,-Wall"], ["-fPIC", "-Wall"], ["-c"] + ["-I" + path for path in include_paths])
    return [DefaultInfo(files = depset([result]))]

_ATTRIBUTES = {
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
}

gpu_kernels = rule(
    implementation = _gpu_kernels_impl,
    attrs = _ATTRIBUTES,
)

_gpu_objects = rule(
    implementation = _gpu_objects_impl,
    attrs = _ATTRIBUTES,
)

def gpu_libraries(name, src, deps, defines = []):
    choices = {"//conditions:default": []}

    # Only the vendors' own configurations build these (tag manual).
    for vendor in _ARCHS:
        _gpu_objects(
            name = "%s_%s_objects" % (vendor, name),
            src = src,
            tags = ["manual"],
            vendor = vendor,
            deps = deps,
        )
        cc_library(
            name = "%s_%s" % (vendor, name),
            srcs = [":%s_%s_objects" % (vendor, name)],
            defines = defines,
            tags = ["manual"],
            deps = ["@gpu_toolkits//:%s_runtime" % vendor],
        )
        choices["//tools/third_party/gpu:" + vendor] = [":%s_%s" % (vendor, name)]
    return select(choices)
