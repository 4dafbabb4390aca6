"""CUDA's and HIP's toolkits as one Bazel repository, @gpu_toolkits, which loads on machines that have neither.

Only --config=cuda and --config=hip build anything that needs it; what is missing is then told by the failing action.
"""

_HEAD = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])
"""

def _library(name, **attributes):
    """The text of a library; `attributes` are expressions."""
    return "cc_library(name = %r, %s)\n" % (name, ", ".join(["%s = %s" % each for each in attributes.items()]))

def _missing(name, headers, message):
    """Headers that nobody can make."""
    folder = name + "_missing"
    outs = [folder + "/" + header for header in headers]
    rule = "genrule(name = %r, outs = %r, cmd = %r)\n" % (folder, outs, "echo >&2 '%s'; exit 1" % message)
    return rule + _library(name, hdrs = "[':%s']" % folder, includes = "['%s']" % folder)

def _first(ctx, candidates, file):
    for folder in candidates:
        if folder and ctx.path(folder + "/" + file).exists:
            return folder
    return ""

def _gpu_toolkits_impl(ctx):
    environ = ctx.os.environ
    cuda = _first(ctx, [environ.get("CUDA_HOME"), "/usr/local/cuda", "/opt/cuda"], "bin/nvcc")
    nvcc = cuda + "/bin/nvcc" if cuda else ""
    build = _HEAD
    nvcc_missing = "--config=cuda: no nvcc in CUDA_HOME, /usr/local/cuda or /opt/cuda: install the CUDA toolkit, 12 or newer"
    if cuda:
        ctx.symlink(cuda + "/include", "cuda")
        build += _library("cuda_headers", hdrs = "glob(['cuda/*.h'])", includes = "['cuda']")
    else:
        build += _missing("cuda_headers", ["cuda.h", "cudaTypedefs.h"], nvcc_missing)

    # Static, so that programs run where only the driver is installed.
    folder = ["-L" + cuda + "/lib64"] if cuda else []
    build += _library("cuda_runtime", linkopts = repr(folder + ["-lcudart_static", "-ldl", "-lrt", "-pthread"]))

    # Debian keeps HIP's headers on the compiler's own path, AMD in a folder of its own.
    rocm = _first(ctx, [environ.get("ROCM_PATH"), "/opt/rocm"], "bin/hipcc")
    hipcc = rocm + "/bin/hipcc" if rocm else str(ctx.which("hipcc") or "")
    hip_missing = "--config=hip: no hipcc in ROCM_PATH, /opt/rocm or PATH, or no HIP headers; on Debian: apt-get install hipcc libamdhip64-dev"
    headers = _first(ctx, [rocm, "/usr"], "include/hip/hip_runtime_api.h") if hipcc else ""
    if headers:
        ctx.symlink(headers + "/include/hip", "hip/hip")
        build += _library(
            "hip_headers",
            hdrs = "glob(['hip/**/*.h'])",
            defines = "['__HIP_PLATFORM_AMD__=1']",
            includes = "['hip']",
        )
    else:
        hipcc = ""
        build += _missing("hip_headers", ["hip/hip_runtime_api.h"], hip_missing)
    folder = ["-L" + rocm + "/lib", "-Wl,-rpath," + rocm + "/lib"] if rocm else []
    build += _library("hip_runtime", linkopts = repr(folder + ["-lamdhip64"]))
    ctx.file("BUILD.bazel", build)
    ctx.file("defs.bzl", "NVCC = %r\nHIPCC = %r\nNVCC_MISSING = %r\nHIPCC_MISSING = %r\n" % (
        nvcc,
        hipcc,
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
