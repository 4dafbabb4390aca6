// GpuProgram: what a program with CUDA or HIP does beside Lanyard, by the vendor's library: host functions in streams,
// graphs, kernels, and memory of other kinds than Lanyard's own. Found at run time, so that the tests run, and say why
// they skip, where there is no such library.
#ifndef LANYARD_TESTS_GPU_PROGRAM_H_
#define LANYARD_TESTS_GPU_PROGRAM_H_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "gpu/device/driver.h"
#include "transport/base/status.h"

namespace lanyard {

class GpuProgram {
 public:
  // For the driver's vendor. The driver outlives it; its calls want a context of the driver's to be current.
  explicit GpuProgram(const std::string& kind) : hip_(kind == "hip") {
    const char* const library = hip_ ? "libamdhip64.so" : "libcuda.so.1";
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    LANYARD_CHECK(handle != nullptr, "the driver has loaded it before");
    find(handle, hip_ ? "hipLaunchHostFunc" : "cuLaunchHostFunc", call_host_);
    find(handle, hip_ ? "hipStreamBeginCapture" : "cuStreamBeginCapture_v2", begin_capture_);
    find(handle, hip_ ? "hipStreamEndCapture" : "cuStreamEndCapture", end_capture_);
    find(handle, hip_ ? "hipGraphInstantiateWithFlags" : "cuGraphInstantiateWithFlags", instantiate_);
    find(handle, hip_ ? "hipGraphLaunch" : "cuGraphLaunch", launch_graph_);
    find(handle, hip_ ? "hipMemGetInfo" : "cuMemGetInfo_v2", memory_info_);
    find(handle, hip_ ? "hipMemsetD32Async" : "cuMemsetD32Async", fill_);
    find(handle, hip_ ? "hipMallocAsync" : "cuMemAllocAsync", allocate_in_order_);
    find(handle, hip_ ? "hipFreeAsync" : "cuMemFreeAsync", free_in_order_);
    find(handle, hip_ ? "hipMallocManaged" : "cuMemAllocManaged", allocate_managed_);
    find(handle, hip_ ? "hipModuleLoadData" : "cuModuleLoadData", load_module_);
    find(handle, hip_ ? "hipModuleGetFunction" : "cuModuleGetFunction", find_kernel_);
    find(handle, hip_ ? "hipModuleLaunchKernel" : "cuLaunchKernel", launch_kernel_);
  }

  Status call_host(gpu::StreamHandle stream, std::function<void()> body) {
    auto owned = std::make_unique<std::function<void()>>(std::move(body));
    const auto run = [](void* argument) {
      const std::unique_ptr<std::function<void()>> mine(static_cast<std::function<void()>*>(argument));
      (*mine)();
    };
    const Status status = status_of(call_host_(stream, run, owned.get()), "launch of a host function");
    if (status.ok())
      static_cast<void>(owned.release());
    return status;
  }

  Status begin_capture(gpu::StreamHandle stream) { return status_of(begin_capture_(stream, 0), "begin of a capture"); }
  // A graph that can be replayed, for good.
  Result<void*> end_capture(gpu::StreamHandle stream) {
    void* graph = nullptr;
    void* executable = nullptr;
    LANYARD_RETURN_IF_ERROR(status_of(end_capture_(stream, &graph), "end of a capture"));
    LANYARD_RETURN_IF_ERROR(status_of(instantiate_(&executable, graph, 0), "instantiation of a graph"));
    return executable;
  }
  Status replay(void* graph, gpu::StreamHandle stream) {
    return status_of(launch_graph_(graph, stream), "launch of a graph");
  }

  // In the stream, by kernels of the vendor's that take all of the device.
  Status fill(gpu::StreamHandle stream, gpu::DeviceAddress memory, uint32_t value, size_t words) {
    return status_of(fill_(memory, value, words, stream), "launch of a fill");
  }
  // Of the current context's device, whoever uses the rest.
  Result<size_t> free_bytes() {
    size_t free = 0;
    size_t all = 0;
    LANYARD_RETURN_IF_ERROR(status_of(memory_info_(&free, &all), "question about free memory"));
    return free;
  }
  // In stream order, from the device's pool (cudaMallocAsync).
  Result<gpu::DeviceAddress> allocate_in_order(gpu::StreamHandle stream, size_t bytes) {
    gpu::DeviceAddress memory = 0;
    LANYARD_RETURN_IF_ERROR(status_of(allocate_in_order_(&memory, bytes, stream), "allocation in stream order"));
    return memory;
  }
  Status free_in_order(gpu::StreamHandle stream, gpu::DeviceAddress memory) {
    return status_of(free_in_order_(memory, stream), "free in stream order");
  }
  // Memory that migrates; given back as the driver's own is.
  Result<gpu::DeviceAddress> allocate_managed(size_t bytes) {
    constexpr unsigned kByAnyStream = 1;  // CU_MEM_ATTACH_GLOBAL, hipMemAttachGlobal
    gpu::DeviceAddress memory = 0;
    LANYARD_RETURN_IF_ERROR(status_of(allocate_managed_(&memory, bytes, kByAnyStream), "allocation of managed memory"));
    return memory;
  }
  // A kernel of an image (tools/third_party/gpu/kernels.bzl), for good.
  Result<void*> load_kernel(const void* image, const char* name) {
    void* module = nullptr;
    void* kernel = nullptr;
    LANYARD_RETURN_IF_ERROR(status_of(load_module_(&module, image), "load of a module"));
    LANYARD_RETURN_IF_ERROR(status_of(find_kernel_(&kernel, module, name), name));
    return kernel;
  }
  template <typename Arguments>
  Status launch(gpu::StreamHandle stream, void* kernel, unsigned blocks, unsigned threads, Arguments arguments) {
    void* parameters[] = {&arguments};
    return status_of(launch_kernel_(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr),
                     "launch of a kernel");
  }

 private:
  template <typename Function>
  static void find(void* library, const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    LANYARD_CHECK(function != nullptr, name);
  }
  static Status status_of(int result, const char* what) {
    return result == 0 ? Status{} : Status(Code::kFailed, std::string(what) + ": error " + std::to_string(result));
  }

  const bool hip_;
  int (*call_host_)(void* stream, void (*function)(void*), void* argument) = nullptr;
  int (*begin_capture_)(void* stream, int mode) = nullptr;
  int (*end_capture_)(void* stream, void** graph) = nullptr;
  int (*instantiate_)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*launch_graph_)(void* executable, void* stream) = nullptr;
  int (*memory_info_)(size_t* free, size_t* all) = nullptr;
  int (*fill_)(gpu::DeviceAddress memory, uint32_t value, size_t words, void* stream) = nullptr;
  int (*allocate_in_order_)(gpu::DeviceAddress* memory, size_t bytes, void* stream) = nullptr;
  int (*free_in_order_)(gpu::DeviceAddress memory, void* stream) = nullptr;
  int (*allocate_managed_)(gpu::DeviceAddress* memory, size_t bytes, unsigned flags) = nullptr;
  int (*load_module_)(void** module, const void* image) = nullptr;
  int (*find_kernel_)(void** kernel, void* module, const char* name) = nullptr;
  int (*launch_kernel_)(void* kernel, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                        unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void* stream, void** parameters,
                        void** extra) = nullptr;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_GPU_PROGRAM_H_
