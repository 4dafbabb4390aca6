// What a NIC can do and how much of it there is: data, so that the protocol chooses and never asks which driver it has.
#ifndef LANYARD_TRANSPORT_NIC_CAPS_H_
#define LANYARD_TRANSPORT_NIC_CAPS_H_

#include <cstdint>
#include <string>

namespace lanyard::nic {

// Counters hold 48 bits of success and 7 of failure, as on Slingshot (fi_cxi(7), writeback word).
inline constexpr uint64_t kMaxSuccess = (uint64_t{1} << 48) - 1;
inline constexpr uint32_t kMaxFailure = 127;

struct Caps {
  std::string name;      // implementation, for people: "sim/shm", "ofi/cxi"
  std::string provider;  // version or provider string, for people

  uint32_t deferred_depth = 0;     // deferred-work entries, shared by every user of the NIC
  uint32_t max_counters = 0;       // counters open at once
  uint32_t max_regions = 0;        // regions registered at once
  uint64_t max_message_bytes = 0;  // one write; longer messages are the caller's to cut
  bool doorbell_mmio_add = false;  // see DoorbellKind
  bool doorbell_atomic_add = false;
  bool doorbell_totals = false;  // kAtomicAdd's words may be stored to as well
  bool doorbell_host_call = false;
  bool deferred_counter_ops = false;
  bool flush = false;   // Nic::flush works
  bool cancel = false;  // Nic::cancel works
  // A remote-write counter that counted a message means that the message is visible to every reader of the memory.
  // Strategy A (target counter) is right only where this holds.
  bool target_count_means_visible = false;
  // One counter may be the completion counter of operations and count what lands in regions, too.
  bool counters_count_both = false;
  bool device_memory = false;  // regions may be GPU memory, for writes; atomics there are kUnsupported
  bool watches_peers = false;  // N12 without an operation under way
  // What a failed operation's chain did may be visible before the failure counts (N13): ask confirms().
  bool failures_lag = false;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_CAPS_H_
