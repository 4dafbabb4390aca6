// GpuProgram: what a program with CUDA or HIP does beside Lanyard, by the vendor's library: host functions in streams,
// and graphs. Found at run time, so that the tests run, and say why they skip, where there is no such library.
#ifndef LANYARD_TESTS_GPU_PROGRAM_H_
#define LANYARD_TESTS_GPU_PROGRAM_H_

#include <dlfcn.h>

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
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_GPU_PROGRAM_H_
