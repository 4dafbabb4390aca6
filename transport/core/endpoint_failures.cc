// FailureBook, and the part of Endpoint that handles failures: here, at peers, and of lost peers.
// With strategy B it also asks senders how their starts ended (api/doc/protocol.md, P3 and P14).
#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "transport/core/control_channel.h"
#include "transport/core/endpoint.h"
#include "transport/core/exchange.h"
#include "transport/core/queue.h"

namespace lanyard::core {

namespace {

// Returns a member that transfers something; null if none is left.
const Request* first_mover(const Exchange& exchange) {
  return exchange.first([](const Request& member) { return member.matched_peer != kNobody; });
}

}  // namespace

bool Endpoint::is_complete(const Request& request) const {
  return request.standing != nullptr ? standing_.has_transferred(request) : request.transferred();
}

bool Endpoint::is_beyond_peer(const Request& request) const {
  return request.peer_starts != UINT64_MAX && started(request) > request.peer_starts;
}

bool Endpoint::is_assured(Request& request, uint64_t iterations) {
  const bool owed =
      request.transfer.direction == Direction::kReceive && request.matched_peer != kNobody && request.lane == nullptr;
  if (!owed || request.failures > 0 || iterations <= request.assured)
    return true;
  if (request.asked <= request.assured) {
    request.asked = iterations;
    questions_.push_back(request.number);
  }
  return false;
}

bool Endpoint::has_sent(const Request& send, uint64_t iterations) {
  if (!send.written.valid())
    return send.iterations_done() >= iterations;
  // The threshold of the send's flag, but failures do not count.
  const auto flag = std::ranges::find(send.plan, send.written, &Post::trigger);
  return nic_.read(send.written).value().success >= flag->step * iterations + flag->base;
}

Request* Endpoint::take_question() {
  while (const std::optional<uint64_t> number = take_last(questions_))
    if (Request* request = find(*number); request != nullptr && request->failures == 0)
      return request;
  return nullptr;
}

void Endpoint::assure(Request& request, uint64_t starts) { request.assured = std::max(request.assured, starts); }

void Endpoint::give_up_asking(Request& request) {
  if (request.asked > request.assured && request.failures == 0)
    failures_.add(request, Code::kFailed);
}

Status Endpoint::end_standing(Request& request) {
  LANYARD_RETURN_IF_ERROR(standing_.end(request));
  if (request.ran_ahead)
    end_peer(request, request.starts, true);
  return {};
}

void Endpoint::end_peer(Request& request, uint64_t starts, bool failed) {
  if (request.failures > 0 || request.peer_starts != UINT64_MAX)
    return;  // it has ended already
  if (!failed) {
    assure(request, starts);  // a failed peer would have said so
    const bool beyond = started(request) > starts;
    if (!request.finds_out) {
      request.peer_starts = starts;
      ++ended_pairs_;
    }
    if (beyond && !is_complete(request))
      failures_.add(request, Code::kNotFound);
    return;
  }
  // The start that failed is not known. With strategy B a failed write raises the flag too (P3), so
  // a start that looks complete may be the one.
  const bool told_by_sender =
      request.transfer.direction == Direction::kReceive && raises_flags() && request.lane == nullptr;
  const uint64_t mine = started(request);
  request.peer_failed = true;
  request.peer_starts = std::min(mine, starts);
  ++ended_pairs_;
  if (!is_complete(request) || (told_by_sender && mine > 0))
    failures_.add(request, Code::kFailed);
}

void Endpoint::fail_requests_of_lost_peers() {
  const uint64_t lost = nic_.lost_peers();
  // Wait for one more call: what the peer's last message triggered here may still complete.
  const bool may_have_lost = std::exchange(lost_seen_, lost) == lost && lost > 0;
  if (!may_have_lost && ended_pairs_ == 0)
    return;
  for (const auto& [number, request] : requests_) {
    if (!request->matched() || request->failures > 0 || request->matched_peer == kNobody)
      continue;
    const bool lost_peer = may_have_lost && nic_.is_lost(request->matched_nic);
    if ((lost_peer || is_beyond_peer(*request)) && !is_complete(*request))
      failures_.add(*request, lost_peer ? Code::kFailed : Code::kNotFound);
  }
}

std::string Endpoint::explain_failure(const Request& request) const {
  const std::string peer = "rank " + std::to_string(request.matched_nic);
  if (request.failed_along)
    return "its exchange \"" + request.exchange->name + "\" has failed with (" + request.exchange->failure + ")";
  if (request.peer_starts != UINT64_MAX)
    return peer + (request.peer_failed ? " has found that an operation of its side failed" : " has freed its request");
  if (nic_.is_lost(request.matched_nic))
    return peer + " " + nic_.why_lost(request.matched_nic);
  if (request.failure_code == Code::kExhausted)
    return "more operations have failed than the NIC keeps records of, and this request's may be among them";
  if (request.failure_code == Code::kNotFound)
    return peer + " has freed its request, whose memory is not registered any more";
  if (request.failure_code == Code::kUnmapped)
    return "memory of its buffer, here or at " + peer + ", is not mapped any more";
  return peer + " could not be reached (" + code_name(request.failure_code) + ")";
}

void Endpoint::release(Request& request) {
  if (request.released || !request.done.valid())
    return;
  if (request.exchange != nullptr)
    return release_exchange(*request.exchange, request);
  request.released = true;
  if (request.lane != nullptr) {
    std::atomic_ref(*request.gone.address).fetch_add(1);
    return;
  }
  // Graphs and kernels may still start it any number of times.
  constexpr uint64_t kForEver = uint64_t{1} << 46;
  uint64_t starts = request.starts;
  if (request.standing != nullptr) {
    standing_.abandon(request);
    starts += kForEver / request.completions;
    cancel(request.standing->trigger);
  }
  // The NIC does not know overflowed operations: it would close counters and regions they name.
  overflow_.cancel(request.number);
  stop(request);
  raise_done_word(request, starts);
}

// Cancels what waits, or keeps it from firing (P4). Otherwise later rings of the stream would count
// as missing clear-to-sends, and writes would fire.
void Endpoint::stop(const Resources& resources) {
  if (nic_.caps().cancel) {
    cancel(resources.trigger);
    cancel(resources.completion);
  } else if (resources.trigger.valid()) {
    (void)nic_.reset(resources.trigger);
  }
}

void Endpoint::cancel(nic::CounterId counter) {
  if (counter.valid())
    (void)nic_.cancel(counter);
}

uint64_t Endpoint::triggered(const Resources& resources) {
  const uint64_t reached = nic_.read(resources.trigger).value().reached();
  return reached - std::min(reached, resources.trigger_base);
}

void Endpoint::raise_done_word(const Resources& resources, uint64_t starts) {
  // The NIC may increment the word at the same time.
  const std::atomic_ref<uint64_t> word(*resources.done.address);
  const uint64_t wanted = resources.done.base + starts;
  uint64_t now = word.load();
  while (now < wanted && !word.compare_exchange_weak(now, wanted)) {
  }
}

bool Endpoint::was_released(uint64_t number) {
  const Request* request = find(number);
  return request != nullptr ? request->released : failures_.was_told_and_freed(number);
}

// ---- Exchanges

// Only the failed request is reported to the program. The others cannot be started any more.
void Endpoint::release_set(Exchange& set, const Request& failed) {
  const Request* mover = first_mover(set);
  const bool complete = mover == nullptr || mover->transferred();
  if (!complete)
    set.failure = failed.describe();
  for (Request* member : set.members) {
    member->released = true;
    if (complete || member->failures > 0 || member->matched_peer == kNobody)
      continue;
    member->failed_along = true;
    failures_.add(*member, failed.failure_code);
  }
}

void Endpoint::release_exchange(Exchange& exchange, const Request& failed) {
  std::array<Exchange*, 2> sets{&exchange, exchange.other};
  const std::span<Exchange*> all(sets.data(), exchange.other != nullptr ? 2 : 1);
  for (Exchange* set : all)
    release_set(*set, failed);
  // Cancel the members' own operations first: they would still add to the shared counters.
  for (const Exchange* set : all) {
    for (const Request* member : set->members) {
      overflow_.cancel(member->number);
      if (nic_.caps().cancel)
        cancel(member->written);
    }
    stop(set->shared);
  }
  for (const Exchange* set : all)
    if (const Request* mover = first_mover(*set))
      raise_done_word(set->shared, mover->starts);
}

// ---- FailureBook

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
      ++orphaned_;  // its request was freed before the report
  }
}

void FailureBook::add(Request& request, Code code) {
  if (request.failures++ == 0)
    unannounced_.push_back(request.number);
  request.failure_code = code;
  if (!request.released)  // a released request reports nothing more
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
  // collect() may take records that are newer than its count. So lost() may be too low for a while,
  // but never too high.
  const uint64_t unrecorded = lost() + orphaned_;
  if (unrecorded <= told_)
    return 0;
  return unrecorded - std::exchange(told_, unrecorded);
}

}  // namespace lanyard::core
