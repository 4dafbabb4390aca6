// ThreadTeam: one thread, of a host or a device, as the steps of lanes know it (lane_protocol.h).
#ifndef LANYARD_DETAIL_THREAD_TEAM_H_
#define LANYARD_DETAIL_THREAD_TEAM_H_

#include "lanyard/detail/lane_protocol.h"

#if LANYARD_FOR_DEVICES
#include "lanyard/detail/device_team.h"
#else
#include <sched.h>
#include <string.h>
#endif

namespace lanyard::gpu {

#if LANYARD_FOR_DEVICES
struct ThreadTeam : DeviceTeam {
  __device__ void copy(uint64_t to, uint64_t from, uint64_t bytes) const { copy_bytes(Copiers{0, 1}, to, from, bytes); }
#else
struct ThreadTeam {
  static constexpr uint32_t kEagerLooks = 64;

  uint64_t load(uint64_t word) const { return __atomic_load_n(at(word), __ATOMIC_RELAXED); }
  uint64_t acquire(uint64_t word) const { return __atomic_load_n(at(word), __ATOMIC_ACQUIRE); }
  // What a fence before it orders, too: analysers of threads do not know fences.
  void store(uint64_t word, uint64_t value) const { __atomic_store_n(at(word), value, __ATOMIC_RELEASE); }
  void fence() const {}
  uint64_t exchange(uint64_t word, uint64_t expected, uint64_t value) const {
    __atomic_compare_exchange_n(at(word), &expected, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    return expected;
  }
  bool claim(uint64_t word, uint64_t expected, uint64_t value) const {
    return exchange(word, expected, value) == expected;
  }
  uint64_t add(uint64_t word, uint64_t value) const { return __atomic_fetch_add(at(word), value, __ATOMIC_ACQ_REL); }
  void pause() const { sched_yield(); }
  void copy(uint64_t to, uint64_t from, uint64_t bytes) const { memcpy(at(to), at(from), bytes); }
  uint64_t load_bytes(uint64_t from, uint64_t bytes) const {
    uint64_t value = 0;
    memcpy(&value, at(from), bytes);
    return value;
  }
  void store_bytes(uint64_t to, uint64_t value, uint64_t bytes) const { memcpy(at(to), &value, bytes); }
  void load_unit(uint64_t address, uint64_t& first, uint64_t& second) const {
    first = acquire(address);
    second = acquire(address + sizeof first);
  }
  void store_unit(uint64_t address, uint64_t first, uint64_t second) const {
    store(address, first);
    store(address + sizeof first, second);
  }
#endif
  LANYARD_LANE_STEP uint32_t members() const { return 1; }
  LANYARD_LANE_STEP uint32_t member() const { return 0; }
  LANYARD_LANE_STEP bool leads() const { return true; }
  LANYARD_LANE_STEP uint64_t share(uint64_t value) const { return value; }
  LANYARD_LANE_STEP bool all(bool whether) const { return whether; }
  LANYARD_LANE_STEP void barrier() const {}

#if !LANYARD_FOR_DEVICES
 private:
  static uint64_t* at(uint64_t address) { return reinterpret_cast<uint64_t*>(address); }
#endif
};

}  // namespace lanyard::gpu

#endif  // LANYARD_DETAIL_THREAD_TEAM_H_
