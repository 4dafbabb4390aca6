"""CUDA's and HIP's toolkits as one Bazel repository, @gpu_toolkits, which loads on machines that have neither.

Only --config=cuda and --config=hip build anything that needs it; what is missing is then told by the failing action.
"""

_HEAD = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])
"""

_MISSING = """
genrule(
    name = "{name}_missing",
    outs = ["{name}_missing/" + header for header in {headers}],
    cmd = "echo >&2 {message}; exit 1",
)

cc_library(
    name = "{name}",
    hdrs = [":{name}_missing"],
    includes = ["{name}_missing"],
)
"""

_FOUND = """
cc_library(
    name = "{name}",
    hdrs = glob({patterns}),
    defines = {defines},
    includes = {includes},
)
"""

_RUNTIME = """
cc_library(
    name = "{name}",
    linkopts = {linkopts},
)
"""

def _first(ctx, candidates, file):
    for folder in candidates:
        if folder and ctx.path(folder + "/" + file).exists:
            return folder
    return ""

def _hip_archs(ctx, hipcc):
    """MI200, and MI300 where the compiler knows it (LLVM 17, ROCm 6), which it is asked; without one, both."""
    if not hipcc:
        return ["gfx90a", "gfx942"]
    probe = ctx.execute([hipcc, "--genco", "-x", "hip", "--offload-arch=gfx942", "-o", "/dev/null", "/dev/null"])
    return ["gfx90a"] + (["gfx942"] if probe.return_code == 0 else [])

def _gpu_toolkits_impl(ctx):
    environ = ctx.os.environ
    cuda = _first(ctx, [environ.get("CUDA_HOME"), "/usr/local/cuda", "/opt/cuda"], "bin/nvcc")
    nvcc = cuda + "/bin/nvcc" if cuda else ""
    build = _HEAD
    nvcc_missing = "--config=cuda: no nvcc in CUDA_HOME, /usr/local/cuda or /opt/cuda: install the CUDA toolkit, 12 or newer"
    if cuda:
        ctx.symlink(cuda + "/include", "cuda")
        build += _FOUND.format(
            name = "cuda_headers",
            patterns = ["cuda/*.h"],
            defines = [],
            includes = ["cuda"],
        )
    else:
        build += _MISSING.format(
            name = "cuda_headers",
            headers = ["cuda.h", "cudaTypedefs.h"],
            message = "'%s'" % nvcc_missing,
        )

    # Static, so that programs run where only the driver is installed.
    build += _RUNTIME.format(
        name = "cuda_runtime",
        linkopts = (["-L" + cuda + "/lib64"] if cuda else []) + ["-lcudart_static", "-ldl", "-lrt", "-pthread"],
    )

    # Debian keeps HIP's headers on the compiler's own path, AMD in a folder of its own.
    rocm = _first(ctx, [environ.get("ROCM_PATH"), "/opt/rocm"], "bin/hipcc")
    hipcc = rocm + "/bin/hipcc" if rocm else str(ctx.which("hipcc") or "")
    hip_missing = "--config=hip: no hipcc in ROCM_PATH, /opt/rocm or PATH, or no HIP headers; on Debian: apt-get install hipcc libamdhip64-dev"
    headers = _first(ctx, [rocm, "/usr"], "include/hip/hip_runtime_api.h") if hipcc else ""
    if headers:
        ctx.symlink(headers + "/include/hip", "hip/hip")
        build += _FOUND.format(
            name = "hip_headers",
            patterns = ["hip/**/*.h"],
            defines = ["__HIP_PLATFORM_AMD__=1"],
            includes = ["hip"],
        )
    else:
        hipcc = ""
        build += _MISSING.format(
            name = "hip_headers",
            headers = ["hip/hip_runtime_api.h"],
            message = "'%s'" % hip_missing,
        )
    build += _RUNTIME.format(
        name = "hip_runtime",
        linkopts = (["-L" + rocm + "/lib", "-Wl,-rpath," + rocm + "/lib"] if rocm else []) + ["-lamdhip64"],
    )
    ctx.file("BUILD.bazel", build)
    ctx.file("defs.bzl", "NVCC = %r\nHIPCC = %r\nHIP_ARCHS = %r\nNVCC_MISSING = %r\nHIPCC_MISSING = %r\n" % (
        nvcc,
        hipcc,
        _hip_archs(ctx, hipcc),
        nvcc_missing,
        hip_missing,
    ))

gpu_toolkits = repository_rule(
    implementation = _gpu_toolkits_impl,
    environ = [
        "CUDA_HOME",
        "PATH",
        "ROCM_PATH",
    ],
    local = True,
)
