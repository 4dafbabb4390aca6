// LocalFabric: the NICs of one job in this process: threaded NICs over a real wire.
#ifndef LANYARD_TESTS_LOCAL_FABRIC_H_
#define LANYARD_TESTS_LOCAL_FABRIC_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"
#include "nicsim/wire/wire.h"
#include "transport/base/check.h"
#include "transport/base/device_memory.h"
#include "transport/nic/checked_nic.h"
#include "transport/nic/nic.h"

namespace lanyard {

struct LocalOptions {
  enum class Wire { kShm, kTcp };

  nicsim::ModelLimits limits;
  Wire wire = Wire::kShm;
  bool use_cma = true;                       // kShm; false: long payloads travel through the inboxes
  uint32_t slots = 256;                      // kShm: per inbox
  bool checked = false;                      // each NIC is behind a CheckedNic
  bool connected = true;                     // false: the test calls set_peers()
  std::chrono::milliseconds spin_for{20};    // as in ThreadedOptions
  std::vector<DeviceMemory*> memories = {};  // by rank; none beyond its size; they outlive the fabric
};

// NIC i has rank i. The NICs have their own threads and end with the fabric, so registered memory
// must outlive it.
class LocalFabric {
 public:
  explicit LocalFabric(size_t nics, const LocalOptions& options = {}) {
    for (size_t rank = 0; rank < nics; ++rank)
      nics_.push_back(make_nic(options, rank));
    if (options.connected)
      connect();
  }

  size_t size() const { return nics_.size(); }
  nic::Nic& nic(size_t rank) { return *nics_[rank]; }
  size_t progress_all() {
    size_t steps = 0;
    for (auto& nic : nics_)
      steps += nic != nullptr ? nic->progress() : 0;
    return steps;
  }
  // Ends one NIC; its peers find out.
  void end(size_t rank) { nics_[rank].reset(); }

 private:
  static std::unique_ptr<nicsim::Wire> make_wire(const LocalOptions& options) {
    if (options.wire == LocalOptions::Wire::kTcp)
      return std::move(nicsim::make_tcp_wire({.interface = "127.0.0.1"}).value());
    return std::move(nicsim::make_shm_wire({.use_cma = options.use_cma, .slots = options.slots}).value());
  }
  static std::unique_ptr<nic::Nic> make_nic(const LocalOptions& options, size_t rank) {
    std::unique_ptr<nic::Nic> nic = std::make_unique<nicsim::ThreadedNic>(
        options.limits, make_wire(options),
        nicsim::ThreadedOptions{.spin_for = options.spin_for,
                                .memory = rank < options.memories.size() ? options.memories[rank] : nullptr});
    if (options.checked)
      nic = std::make_unique<nic::CheckedNic>(std::move(nic));
    return nic;
  }

  void connect() {
    std::vector<nic::Address> addresses;
    for (auto& nic : nics_)
      addresses.push_back(nic->address());
    for (uint32_t rank = 0; rank < nics_.size(); ++rank) {
      const Status status = nics_[rank]->set_peers(addresses, rank);
      LANYARD_CHECK(status.ok(), status.message().c_str());
    }
  }

  std::vector<std::unique_ptr<nic::Nic>> nics_;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_LOCAL_FABRIC_H_
