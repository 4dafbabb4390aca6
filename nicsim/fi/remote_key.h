// Keys of regions, laid out as far as rules of the CXI provider depend on it (cxip.h: struct cxip_mr_key): an initiator
// reads from a key alone what it may do with it.
#ifndef LANYARD_NICSIM_FI_REMOTE_KEY_H_
#define LANYARD_NICSIM_FI_REMOTE_KEY_H_

#include <rdma/fabric.h>

#include <cstdint>

namespace lanyard::nicsim::fi {

class RemoteKey {
 public:
  static constexpr uint64_t kMaxUserKey = UINT32_MAX;  // of a region whose key its user chooses
  static constexpr uint64_t kOptimizedKeys = 100;      // such keys below are optimized

  // No region's ever.
  static constexpr uint64_t kNowhere = (uint64_t{1} << 63) | ((uint64_t{1} << 59) - 1);

  explicit RemoteKey(uint64_t raw) : raw_(raw) {}

  // What the provider chooses: numbers are never used again.
  struct Made {
    uint64_t number = 0;
    bool cached = false;     // one registration for all regions of the same memory: no counters, no events
    bool optimized = false;  // goes without matching
    bool events = false;     // the target counts, or wants events
  };
  static uint64_t make(const Made& made) {
    return kProvider | (made.cached ? kCached : 0) | (made.optimized ? kOptimized : 0) | (made.events ? kEvents : 0) |
           made.number;
  }

  bool is_provider() const { return (raw_ & kProvider) != 0; }
  // cxip_mr.c: cxip_generic_is_valid_mr_key()
  bool valid() const { return is_provider() || raw_ <= kMaxUserKey; }
  bool cached() const { return is_provider() && (raw_ & kCached) != 0; }
  // cxip_mr.c: cxip_generic_is_mr_key_opt()
  bool optimized() const { return is_provider() ? (raw_ & kOptimized) != 0 : raw_ < kOptimizedKeys; }
  // cxip_mr.c: cxip_generic_is_mr_key_events(). A user's key does not say; so the initiator's own capabilities do.
  bool events(uint64_t caps) const {
    return is_provider() ? !cached() && (raw_ & kEvents) != 0 : (caps & FI_RMA_EVENT) != 0;
  }

 private:
  static constexpr uint64_t kProvider = uint64_t{1} << 63;
  static constexpr uint64_t kCached = uint64_t{1} << 62;
  static constexpr uint64_t kOptimized = uint64_t{1} << 61;
  static constexpr uint64_t kEvents = uint64_t{1} << 60;

  uint64_t raw_;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_REMOTE_KEY_H_
