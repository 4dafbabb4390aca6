// Whether the MPI takes addresses in GPU memory, as it says itself: by functions that not every MPI has, so they are
// looked for at run time.
#ifndef LANYARD_BENCH_GPU_AWARE_MPI_H_
#define LANYARD_BENCH_GPU_AWARE_MPI_H_

#include <dlfcn.h>

#include <span>
#include <string>

#include "bench/stream.h"

namespace lanyard::bench {

// Why it takes none of the stream's memory, empty if it does: the stream is the host's, or the MPI says so or nothing.
inline std::string why_not_gpu_aware(const Stream& stream) {
  if (stream.kind() == Stream::Kind::kHost)
    return "needs memory of a GPU";
  // Open MPI and MPICH call the one for HIP by different names.
  static constexpr const char* kForCuda[] = {"MPIX_Query_cuda_support"};
  static constexpr const char* kForHip[] = {"MPIX_Query_rocm_support", "MPIX_Query_hip_support"};
  const bool is_cuda = stream.kind() == Stream::Kind::kCuda;
  for (const char* name : is_cuda ? std::span<const char* const>(kForCuda) : std::span<const char* const>(kForHip)) {
    const auto query = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
    if (query != nullptr)
      return query() != 0 ? "" : std::string("the MPI takes no GPU memory, says its ") + name;
  }
  return "the MPI does not say whether it takes GPU memory";
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_GPU_AWARE_MPI_H_
