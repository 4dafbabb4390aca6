// WarpTeam: the threads of a warp of a one-dimensional block, as the steps of lanes know them
// (lanyard/detail/lane_protocol.h). They meet faster than those of a block, and the block's other warps go on
// meanwhile.
#ifndef LANYARD_GPU_DEVICE_WARP_TEAM_H_
#define LANYARD_GPU_DEVICE_WARP_TEAM_H_

#include "lanyard/detail/device_team.h"

namespace lanyard::gpu {

struct WarpTeam : DeviceTeam {
  __device__ uint32_t members() const { return kWarpThreads; }
  __device__ uint32_t member() const { return threadIdx.x % kWarpThreads; }
  __device__ bool leads() const { return member() == 0; }
  __device__ uint64_t share(uint64_t value) const { return share_in_warp(value); }
  __device__ bool all(bool whether) const { return all_of_warp(whether); }
  __device__ void barrier() const { sync_warp(); }
  __device__ void copy(uint64_t to, uint64_t from, uint64_t bytes) const {
    copy_bytes(Copiers{member(), members()}, to, from, bytes);
  }
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_WARP_TEAM_H_
