#include "transport/core/failure_book.h"

#include <algorithm>
#include <utility>

#include "transport/core/control_channel.h"
#include "transport/core/queue.h"

namespace lanyard::core {

void FailureBook::collect_new() {
  seen_ = nic_.failures();
  while (const std::optional<nic::FailureRecord> record = nic_.take_failure()) {
    ++recorded_;
    if (record->context == ControlChannel::kContext)
      unreachable_.push_back(record->peer);
    else if (Request* request = find_(record->context))
      add(*request, record->code);
    else
      orphaned_ += record->context != 0 ? 1 : 0;  // its request was freed since; else nobody's
  }
}

void FailureBook::add(Request& request, Code code) {
  ++request.failures;
  request.failure_code = code;
  untold_.push_back(request.number);
}

const Request* FailureBook::take_failed(const Queue& queue) {
  collect();
  for (const uint64_t number : untold_) {
    const Request* request = find_(number);
    if (request == nullptr || request->queue_number != queue.number())
      continue;
    std::erase(untold_, request->number);
    return request;
  }
  return nullptr;
}

uint64_t FailureBook::take_unrecorded() {
  collect();
  // A failure may have been recorded since it was counted, never the other way round.
  const uint64_t unrecorded = (seen_ > recorded_ ? seen_ - recorded_ : 0) + orphaned_;
  if (unrecorded <= told_)
    return 0;
  return unrecorded - std::exchange(told_, unrecorded);
}

std::optional<uint32_t> FailureBook::take_unreachable() {
  if (unreachable_.empty())
    return std::nullopt;
  const uint32_t peer = unreachable_.back();
  unreachable_.pop_back();
  return peer;
}

}  // namespace lanyard::core
