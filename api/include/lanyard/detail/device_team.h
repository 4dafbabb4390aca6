// DeviceTeam: what all teams of a device's threads do alike of what the steps of lanes want (lane_protocol.h).
#ifndef LANYARD_DETAIL_DEVICE_TEAM_H_
#define LANYARD_DETAIL_DEVICE_TEAM_H_

#include "lanyard/detail/device_copy.h"
#include "lanyard/detail/kernel_vendor.h"

namespace lanyard::gpu {

struct DeviceTeam {
  static constexpr uint32_t kEagerLooks = gpu::kEagerLooks;

  __device__ uint64_t load(uint64_t word) const { return load_word(word); }
  __device__ uint64_t acquire(uint64_t word) const { return acquire_word(word); }
  __device__ void store(uint64_t word, uint64_t value) const { store_word(word, value); }
  __device__ void fence() const { fence_system(); }
  __device__ uint64_t exchange(uint64_t word, uint64_t expected, uint64_t value) const {
    return exchange_word(word, expected, value);
  }
  __device__ bool claim(uint64_t word, uint64_t expected, uint64_t value) const {
    return claim_shared_word(word, expected, value);
  }
  __device__ uint64_t add(uint64_t word, uint64_t value) const { return add_to_shared_word(word, value); }
  __device__ void pause() const { gpu::pause(); }
  __device__ uint64_t load_bytes(uint64_t from, uint64_t bytes) const { return load_few_bytes(from, bytes); }
  __device__ void store_bytes(uint64_t to, uint64_t value, uint64_t bytes) const { store_few_bytes(to, value, bytes); }
  __device__ void load_unit(uint64_t address, uint64_t& first, uint64_t& second) const {
    load_words(address, first, second);
  }
  __device__ void store_unit(uint64_t address, uint64_t first, uint64_t second) const {
    store_words(address, first, second);
  }
};

}  // namespace lanyard::gpu

#endif  // LANYARD_DETAIL_DEVICE_TEAM_H_
