// FailureLog: the oldest failures of a NIC that take_failure() has not returned yet, and the
// total (N5).
#ifndef LANYARD_TRANSPORT_NIC_FAILURE_LOG_H_
#define LANYARD_TRANSPORT_NIC_FAILURE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "transport/nic/nic.h"

namespace lanyard::nic {

// Threads: one at a time. Allocates only in the constructor.
class FailureLog {
 public:
  explicit FailureLog(uint32_t kept) : records_(kept) {}

  // If the log is full, the failure is only counted.
  void add(const FailureRecord& record) {
    ++total_;
    if (count_ < records_.size())
      records_[(first_ + count_++) % records_.size()] = record;
  }
  // Removes and returns the oldest record.
  std::optional<FailureRecord> take() {
    if (count_ == 0)
      return std::nullopt;
    const FailureRecord record = records_[first_];
    first_ = (first_ + 1) % records_.size();
    --count_;
    return record;
  }
  uint64_t total() const { return total_; }

 private:
  std::vector<FailureRecord> records_;  // a ring buffer
  size_t first_ = 0;
  size_t count_ = 0;
  uint64_t total_ = 0;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_FAILURE_LOG_H_
