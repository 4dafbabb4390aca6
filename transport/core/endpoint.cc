#include "transport/core/endpoint.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/mutant.h"
#include "transport/core/control_channel.h"
#include "transport/core/queue.h"

namespace lanyard::core {

namespace {

// Of the first send that has one. For mutants.
nic::CounterId oldest_trigger(const auto& requests) {
  const Request* oldest = nullptr;
  for (const auto& [number, request] : requests)
    if (request->trigger.valid() && (oldest == nullptr || number < oldest->number))
      oldest = request.get();
  return oldest->trigger;
}

}  // namespace

Endpoint::Endpoint(nic::Nic& nic, uint32_t self, Options options)
    : nic_(nic),
      self_(self),
      options_(options),
      words_(nic, options.whole_pages),
      overflow_(nic, options.overflow_thread),
      standing_(nic, options.overflow ? &overflow_ : nullptr, options.overflow_thread) {}

Endpoint::~Endpoint() {
  // What was not freed lets go of memory that is about to go; errors say that a transfer is under way, which the NIC's
  // own end takes care of.
  standing_.stop();
  overflow_.stop();
  (void)nic_.flush();
  for (Remains& remains : remains_)
    if (!close(remains) && remains.written_back)
      words_.keep();
  for (const auto& [number, request] : requests_) {
    if (request->clear_to_send.valid())
      (void)nic_.deregister_region(request->clear_to_send);
    if (request->buffer.valid())
      (void)nic_.deregister_region(request->buffer);
    if (request->flag.valid())
      (void)nic_.deregister_region(request->flag);
    // A counter that stays open may yet be copied to its word.
    if (request->trigger.valid())
      (void)nic_.close_counter(request->trigger);
    if (request->completion.valid() && !nic_.close_counter(request->completion).ok() && request->written_back)
      words_.keep();
  }
}

Request* Endpoint::new_request(const Transfer& transfer) {
  auto request = std::make_unique<Request>();
  request->number = next_number_++;
  request->transfer = transfer;
  Request* plain = request.get();
  requests_.emplace(plain->number, std::move(request));
  return plain;
}

Request* Endpoint::find(uint64_t number) {
  const auto found = requests_.find(number);
  return found == requests_.end() ? nullptr : found->second.get();
}

Request* Endpoint::find_matched(uint32_t nic, uint64_t their_number) {
  for (const auto& [number, request] : requests_)
    if (request->matched() && request->matched_nic == nic && request->matched_number == their_number)
      return request.get();
  return nullptr;
}

Status Endpoint::free_request(Request* request) {
  if (request->state == Request::State::kMatching)
    return {Code::kInvalidState, "the request (" + request->describe() + ") is being matched"};
  if (request->needs_wait())
    return {Code::kInvalidState,
            "the wait for the last start of the request (" + request->describe() + ") was not enqueued"};
  if (request->standing != nullptr && request->standing->in_kernels)
    return {Code::kInvalidState, "the request (" + request->describe() + ") stands in a set that kernels start"};
  if (request->standing != nullptr) {
    LANYARD_RETURN_IF_ERROR(standing_.can_end(*request));
    if (request->listed != nullptr)
      request->listed->forget(*request);
    LANYARD_RETURN_IF_ERROR(standing_.end(*request));
  }
  if (!request->complete() && !LANYARD_MUTANT(17))
    return {Code::kInvalidState, "the last start of the request (" + request->describe() + ") has not completed"};
  if (request->listed != nullptr)
    request->listed->forget(*request);
  failures_orphaned_ += std::erase(failed_, request->number);
  close_resources(*request);
  requests_.erase(request->number);
  return {};
}

Status Endpoint::open_resources(Request& request) {
  std::erase_if(remains_, [this](Remains& remains) { return close(remains); });
  if (!one_.address) {
    Result<WordPool::Word> one = words_.take();
    if (!one.ok())
      return one.status();
    one_ = one.value();
    std::atomic_ref<uint64_t>(*one_.address).store(1);
  }
  Status status = request.transfer.direction == Direction::kSend ? open_send(request) : open_receive(request);
  if (!status.ok())
    close_resources(request);
  return status;
}

Status Endpoint::open_send(Request& request) {
  Result<nic::CounterId> completion = nic_.open_counter();
  if (!completion.ok())
    return completion.status();
  request.completion = completion.value();
  Result<nic::RegionId> buffer = nic_.register_region(request.transfer.buffer, request.transfer.bytes);
  if (!buffer.ok())
    return buffer.status();
  request.buffer = buffer.value();
  Result<WordPool::Word> done = words_.take();
  if (!done.ok())
    return done.status();
  request.done = done.value();
  request.done_base = request.done.read();
  if (options_.strategy == Strategy::kWriteBack)
    LANYARD_RETURN_IF_ERROR(give_word(request));
  if (request.transfer.ready)
    return {};

  Result<nic::CounterId> trigger = nic_.open_counter();
  if (!trigger.ok())
    return trigger.status();
  request.trigger = trigger.value();
  if (LANYARD_MUTANT(7))
    request.trigger = oldest_trigger(requests_);
  Result<WordPool::Word> word = words_.take();
  if (!word.ok())
    return word.status();
  request.clear_to_send_word = word.value();
  request.clear_to_send_base = word.value().read();
  Result<nic::RegionId> region = nic_.register_region(word.value().address, sizeof(uint64_t),
                                                      LANYARD_MUTANT(6) ? oldest_trigger(requests_) : request.trigger);
  if (!region.ok())
    return region.status();
  request.clear_to_send = region.value();
  return {};
}

// Makes the done word of a send its completion counter's. The counter goes on from what stands in the word.
Status Endpoint::give_word(Request& request) {
  request.written_back = true;
  request.done_base = nic::from_word(request.done_base).success;
  LANYARD_RETURN_IF_ERROR(nic_.add(request.completion, request.done_base));
  return nic_.set_word(request.completion, request.done.address);
}

Status Endpoint::open_receive(Request& request) {
  if (options_.strategy == Strategy::kTargetCounter) {
    Result<nic::CounterId> completion = nic_.open_counter();
    if (!completion.ok())
      return completion.status();
    request.completion = completion.value();
  }
  Result<nic::RegionId> buffer =
      nic_.register_region(request.transfer.buffer, request.transfer.bytes, request.completion);
  if (!buffer.ok())
    return buffer.status();
  request.buffer = buffer.value();
  Result<WordPool::Word> done = words_.take();
  if (!done.ok())
    return done.status();
  request.done = done.value();
  request.done_base = request.done.read();
  if (!raises_flags(options_.strategy))
    return {};
  // A region of its own: once the request is freed, who raises its flag late is refused, and the word's next user is
  // safe.
  Result<nic::RegionId> flag = nic_.register_region(request.done.address, sizeof(uint64_t));
  if (!flag.ok())
    return flag.status();
  request.flag = flag.value();
  return {};
}

void Endpoint::close_resources(Request& request) {
  Remains remains{.regions = {request.clear_to_send, request.buffer, request.flag},
                  .counters = {request.trigger, request.completion},
                  .words = {request.clear_to_send_word, request.done},
                  .written_back = request.written_back};
  if (!close(remains))
    remains_.push_back(remains);
  request.clear_to_send = request.buffer = request.flag = {};
  request.trigger = request.completion = {};
  request.clear_to_send_word = request.done = {};
  request.written_back = false;
  request.plan.clear();
}

// False where the NIC still has something to do with a part of it.
bool Endpoint::close(Remains& remains) {
  bool closed = true;
  for (nic::RegionId& region : remains.regions) {
    if (region.valid() && nic_.deregister_region(region).ok())
      region = {};
    closed = closed && !region.valid();
  }
  for (nic::CounterId& counter : remains.counters) {
    if (counter.valid() && nic_.close_counter(counter).ok())
      counter = {};
    closed = closed && !counter.valid();
  }
  if (!closed)
    return false;
  const auto& [clear_to_send, done] = remains.words;
  if (clear_to_send.valid())
    words_.give_back(clear_to_send);
  // A word that tells of failures, or would soon use up a counter, is larger than any that a new counter starts with.
  const nic::CounterValue last = remains.written_back ? nic::from_word(done.read()) : nic::CounterValue{};
  if (done.valid() && last.failure == 0 && last.success < kMostCountedBefore)
    words_.give_back(done);
  return true;
}

void Endpoint::bind(Request& request, const PeerKeys& keys) {
  request.matched_number = keys.request;
  const PlanContext context{.self = self_,
                            .max_message_bytes = std::min(nic_.caps().max_message_bytes, keys.longest),
                            .strategy = options_.strategy,
                            .one = one_,
                            .context = request.number};
  request.plan = make_plan(request, keys, context);
  request.completions = completions_of(request, context);
  request.most_starts =
      most_starts(options_.strategy, keys.ready, pieces_of(request.matched_bytes, context.max_message_bytes));
  request.entries = request.plan.size();
  for (const PlannedOp& planned : request.plan)
    request.entries += planned.op.op.write_back ? nic_.caps().write_back_entries : 0;
  request.shares_trigger =
      std::any_of(request.plan.begin(), request.plan.end(), [](const PlannedOp& op) { return op.shared; });
  request.rings.assign(request.shares_trigger ? Request::kRings : 0, 0);
  request.state = Request::State::kMatched;
}

void Endpoint::collect_new_failures() {
  failures_seen_ = nic_.failures();
  while (const std::optional<nic::FailureRecord> record = nic_.take_failure()) {
    ++failures_recorded_;
    if (record->context == ControlChannel::kContext) {
      unreachable_.push_back(record->peer);
      continue;
    }
    Request* request = find(record->context);
    if (request == nullptr) {
      failures_orphaned_ += record->context != 0 ? 1 : 0;  // its request was freed since; else nobody's
      continue;
    }
    ++request->failures;
    request->failure_code = record->code;
    failed_.push_back(request->number);
  }
}

std::optional<uint32_t> Endpoint::take_unreachable() {
  if (unreachable_.empty())
    return std::nullopt;
  const uint32_t peer = unreachable_.back();
  unreachable_.pop_back();
  return peer;
}

void Endpoint::fail_requests_of_lost_peers() {
  if (nic_.lost_peers() == 0)
    return;
  for (const auto& [number, request] : requests_) {
    if (!request->matched() || request->failures > 0 || request->matched_peer == kNobody || request->complete() ||
        !nic_.is_lost(request->matched_nic))
      continue;
    ++request->failures;
    request->failure_code = Code::kFailed;
    failed_.push_back(number);
  }
}

std::string Endpoint::explain_failure(const Request& request) const {
  const std::string peer = "rank " + std::to_string(request.matched_nic);
  if (nic_.is_lost(request.matched_nic))
    return peer + " has ended";
  if (request.failure_code == Code::kNotFound)
    return peer + " has freed its request, whose memory is not registered any more";
  if (request.failure_code == Code::kInvalidArgument)
    return "memory of its buffer, here or at " + peer + ", is not mapped any more";
  return peer + " could not be reached (" + code_name(request.failure_code) + ")";
}

void Endpoint::release(Request& request) {
  if (request.released || !request.done.valid())
    return;
  request.released = true;
  for (const nic::CounterId counter : {request.trigger, request.completion}) {
    if (!counter.valid() || !nic_.caps().cancel)
      continue;
    overflow_.cancel(counter);
    (void)nic_.cancel(counter);
  }
  if (request.written_back) {
    const uint64_t wanted = request.completion_value(request.starts);
    const Result<nic::CounterValue> value = nic_.read(request.completion);
    if (value.ok() && value.value().success < wanted)
      (void)nic_.add(request.completion, wanted - value.value().success);
    return;
  }
  // The NIC may add to it at this moment.
  const std::atomic_ref<uint64_t> word(*request.done.address);
  const uint64_t wanted = request.done_base + request.starts;
  uint64_t now = word.load();
  while (now < wanted && !word.compare_exchange_weak(now, wanted)) {
  }
}

uint64_t Endpoint::take_unrecorded_failures() {
  collect_failures();
  // A failure may have been recorded since it was counted, never the other way round.
  const uint64_t unrecorded =
      (failures_seen_ > failures_recorded_ ? failures_seen_ - failures_recorded_ : 0) + failures_orphaned_;
  if (unrecorded <= failures_told_)
    return 0;
  return unrecorded - std::exchange(failures_told_, unrecorded);
}

const Request* Endpoint::find_unwaited(const Queue& queue) const {
  const Request* oldest = nullptr;
  for (const auto& [number, request] : requests_) {
    const bool recorded = request->standing != nullptr && request->standing->capture != 0;
    const bool unwaited = request->queue_number == queue.number() && (request->needs_wait() || recorded);
    if (unwaited && (oldest == nullptr || number < oldest->number))
      oldest = request.get();
  }
  return oldest;
}

const Request* Endpoint::take_failed(const Queue& queue) {
  collect_failures();
  for (auto number = failed_.begin(); number != failed_.end(); ++number) {
    Request* request = find(*number);
    if (request == nullptr || request->queue_number != queue.number())
      continue;
    std::erase(failed_, uint64_t{*number});
    return request;
  }
  return nullptr;
}

}  // namespace lanyard::core
