// The abilities and limits of a NIC, as data. The protocol chooses by them and never asks for the
// driver's name.
#ifndef LANYARD_TRANSPORT_NIC_CAPS_H_
#define LANYARD_TRANSPORT_NIC_CAPS_H_

#include <cstdint>
#include <string>

namespace lanyard::nic {

// Counters hold 48 bits of success and 7 bits of failure, as on Slingshot (fi_cxi(7),
// writeback word).
inline constexpr uint64_t kMaxSuccess = (uint64_t{1} << 48) - 1;
inline constexpr uint32_t kMaxFailure = 127;

struct Caps {
  std::string name;      // implementation, for people: "sim/shm", "ofi/cxi"
  std::string provider;  // version or provider string, for people

  uint32_t deferred_depth = 0;     // deferred-work entries, shared by all users of the NIC
  uint32_t max_counters = 0;       // counters open at once
  uint32_t max_regions = 0;        // regions registered at once
  uint64_t max_message_bytes = 0;  // longest write; the caller cuts longer messages
  bool doorbell_mmio_add = false;  // see DoorbellKind
  bool doorbell_atomic_add = false;
  bool doorbell_totals = false;  // kAtomicAdd: the ringer may store the sum instead
  bool doorbell_host_call = false;
  bool deferred_counter_ops = false;
  bool flush = false;   // Nic::flush works
  bool cancel = false;  // Nic::cancel works
  // When a remote-write counter has counted a message, every reader of the memory sees its data.
  // Strategy A (target counter) requires this.
  bool target_count_means_visible = false;
  // One counter may count both completed operations and messages that land in regions.
  bool counters_count_both = false;
  bool device_memory = false;  // writes may use GPU memory; atomics there are kUnsupported
  bool watches_peers = false;  // N12 holds even without an operation in flight
  // The chain of a failed operation may have visible effects before the failure counts (N13).
  // Ask confirms().
  bool failures_lag = false;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_CAPS_H_
