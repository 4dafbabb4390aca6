// Captures: what was recorded of a stream into graphs, and whether any of it can still run.
#ifndef LANYARD_GPU_DEVICE_CAPTURES_H_
#define LANYARD_GPU_DEVICE_CAPTURES_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/device/driver.h"
#include "transport/base/status.h"

namespace lanyard::gpu {

// One thread at a time.
class Captures {
 public:
  // Something is about to be recorded in the capture under way on the stream. kInvalidState: no graph will come of it.
  Status add(Driver& driver, StreamHandle stream, uint64_t capture) {
    if (!is_gone(capture))
      return {};
    auto gone = std::make_shared<std::atomic<bool>>(false);
    const Status status = driver.follow_capture(stream, gone);
    if (status.code() == Code::kInvalidState || status.code() == Code::kFailed)
      return status;
    // Of others the driver does not tell: they may run for as long as the process.
    forget_gone();
    living_.emplace_back(capture, std::move(gone));
    return {};
  }
  // Whether nothing that was recorded in it can run any more.
  bool is_gone(uint64_t capture) const {
    return std::none_of(living_.begin(), living_.end(),
                        [capture](const Capture& each) { return each.first == capture && !each.second->load(); });
  }
  bool all_gone() {
    forget_gone();
    return living_.empty();
  }

 private:
  using Capture = std::pair<uint64_t, std::shared_ptr<std::atomic<bool>>>;
  void forget_gone() {
    std::erase_if(living_, [](const Capture& each) { return each.second->load(); });
  }

  std::vector<Capture> living_;
};

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_DEVICE_CAPTURES_H_
