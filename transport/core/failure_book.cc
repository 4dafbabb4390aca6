#include "transport/core/failure_book.h"

#include <algorithm>
#include <utility>

#include "transport/core/control_channel.h"
#include "transport/core/exchange.h"
#include "transport/core/queue.h"

namespace lanyard::core {

void FailureBook::collect_new() {
  seen_ = nic_.failures();
  while (const std::optional<nic::FailureRecord> record = nic_.take_failure()) {
    ++recorded_;
    if (const auto watched = watched_.find(record->context); watched != watched_.end())
      watched->second.failed = true;
    if (record->context == ControlChannel::kContext)
      unreachable_.push_back(record->peer);
    else if (Request* request = find_(record->context))
      add(*request, record->code);
    else if (record->context != 0 && !told_and_freed_.contains(record->context))
      ++orphaned_;  // its request was freed since
  }
}

void FailureBook::add(Request& request, Code code) {
  if (request.failures++ == 0)
    unannounced_.push_back(request.number);
  request.failure_code = code;
  if (!request.released)  // else what its other operations come to is no news
    untold_.push_back(request.number);
}

void FailureBook::forget(const Request& request) {
  std::erase(unannounced_, request.number);
  orphaned_ += std::erase(untold_, request.number);
  if (request.released)
    told_and_freed_.insert(request.number);
}

const Request* FailureBook::take_failed(const Queue& queue) {
  collect();
  for (const uint64_t number : untold_) {
    const Request* request = find_(number);
    if (request == nullptr || (request->queue_number != queue.number() && !queue.owes(number)))
      continue;
    std::erase(untold_, request->number);
    return request;
  }
  return nullptr;
}

uint64_t FailureBook::take_unrecorded() {
  collect();
  // A failure may have been recorded since it was counted, never the other way round.
  const uint64_t unrecorded = lost() + orphaned_;
  if (unrecorded <= told_)
    return 0;
  return unrecorded - std::exchange(told_, unrecorded);
}

Request* FailureBook::take_unannounced() {
  if (unannounced_.empty())
    return nullptr;
  const uint64_t number = unannounced_.back();
  unannounced_.pop_back();
  return find_(number);  // who was forgotten is not among them
}

std::optional<uint32_t> FailureBook::take_unreachable() {
  if (unreachable_.empty())
    return std::nullopt;
  const uint32_t peer = unreachable_.back();
  unreachable_.pop_back();
  return peer;
}

}  // namespace lanyard::core
