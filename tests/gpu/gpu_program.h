// GpuProgram: calls of the CUDA or HIP library that a user's program makes beside Lanyard:
// host functions in streams, and graphs. It loads the library at run time, so that tests can
// skip without one.
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
  // `kind` is the driver's vendor. The driver must outlive this object, and its context must be
  // current in each call.
  explicit GpuProgram(const std::string& kind) : hip_(kind == "hip") {
    const char* const library = hip_ ? "libamdhip64.so" : "libcuda.so.1";
    void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    LANYARD_CHECK(handle != nullptr, "cannot load the GPU library that the driver has loaded");
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
    const Status status = status_of(call_host_(stream, run, owned.get()), "launching a host function");
    if (status.ok())
      static_cast<void>(owned.release());
    return status;
  }

  Status begin_capture(gpu::StreamHandle stream) { return status_of(begin_capture_(stream, 0), "beginning a capture"); }
  // Returns a graph that can be replayed. It is never freed.
  Result<void*> end_capture(gpu::StreamHandle stream) {
    void* graph = nullptr;
    void* executable = nullptr;
    LANYARD_RETURN_IF_ERROR(status_of(end_capture_(stream, &graph), "ending a capture"));
    LANYARD_RETURN_IF_ERROR(status_of(instantiate_(&executable, graph, 0), "instantiating a graph"));
    return executable;
  }
  Status replay(void* graph, gpu::StreamHandle stream) {
    return status_of(launch_graph_(graph, stream), "launching a graph");
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
