// See gpu_test_kernels.h. One source for CUDA and HIP.
#ifdef __HIP__
#include <hip/hip_runtime.h>
#endif

#include "tests/gpu_test_kernels.h"

namespace lanyard::api_test {
namespace {

using How = ExchangeArguments::How;

__device__ uint64_t word_of(uint64_t seed, uint64_t iteration, uint64_t i) {
  return (seed * 1000003 + iteration) * 1000003 + i;
}

__device__ void start(const ExchangeArguments& arguments, const MPIX_Device_requests* set) {
  if (arguments.how != How::kByThread)
    return MPIX_Device_block_startall(set, blockIdx.x, gridDim.x);
  __syncthreads();
  if (threadIdx.x == 0)
    MPIX_Device_startall(set);
}

__device__ void wait(const ExchangeArguments& arguments, const MPIX_Device_requests* set) {
  if (arguments.how != How::kByThread)
    return MPIX_Device_block_waitall(set, gridDim.x);
  if (threadIdx.x == 0)
    MPIX_Device_waitall(set);
  __syncthreads();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256) exchange(ExchangeArguments arguments) {
  const uint64_t first = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t iteration = arguments.begin; iteration < arguments.end; ++iteration) {
    start(arguments, arguments.receive);
    const bool stores = arguments.how == How::kStored && MPIX_Device_block_may_store(arguments.send, 0) != 0;
    uint64_t* const out = stores ? static_cast<uint64_t*>(MPIX_Device_remote(arguments.send, 0)) : arguments.out;
    for (uint64_t i = first; i < arguments.words; i += stride)
      out[i] = word_of(arguments.mine, iteration, i);
    if (stores)
      MPIX_Device_block_raiseall(arguments.send, gridDim.x);
    else
      start(arguments, arguments.send);
    wait(arguments, arguments.receive);
    wait(arguments, arguments.send);
    for (uint64_t i = first; i < arguments.words; i += stride)
      if (arguments.in[i] != word_of(arguments.theirs, iteration, i))
        atomicAdd(arguments.wrong, 1ull);
    if (stores && threadIdx.x == 0)
      atomicAdd(arguments.stored, 1ull);
  }
}

}  // namespace lanyard::api_test
