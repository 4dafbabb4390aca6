// BlockTeam: the threads of a block of a device, as the steps of lanes know them (lane_protocol.h).
#ifndef LANYARD_DETAIL_BLOCK_TEAM_H_
#define LANYARD_DETAIL_BLOCK_TEAM_H_

#include "lanyard/detail/device_team.h"

namespace lanyard::gpu {

struct BlockTeam : DeviceTeam {
  uint64_t* slot;  // shared by the block

  __device__ explicit BlockTeam(uint64_t* shared) : slot(shared) {}

  __device__ uint32_t members() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ uint32_t member() const { return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z); }
  __device__ bool leads() const { return member() == 0; }
  __device__ uint64_t share(uint64_t value) const {
    if (leads())
      *slot = value;
    __syncthreads();
    const uint64_t shared = *slot;
    __syncthreads();  // all have read it
    return shared;
  }
  __device__ bool all(bool whether) const { return __syncthreads_and(whether ? 1 : 0) != 0; }
  __device__ void barrier() const { __syncthreads(); }
  __device__ void copy(uint64_t to, uint64_t from, uint64_t bytes) const {
    copy_bytes(Copiers{member(), members()}, to, from, bytes);
  }
};

}  // namespace lanyard::gpu

#endif  // LANYARD_DETAIL_BLOCK_TEAM_H_
