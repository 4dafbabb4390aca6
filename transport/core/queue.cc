#include "transport/core/queue.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/core/prepared_plan.h"
#include "transport/core/request_checks.h"

namespace lanyard::core {

Result<std::unique_ptr<Queue>> Queue::create(Endpoint& endpoint, gpu::Stream& stream) {
  std::unique_ptr<Queue> queue(new Queue(endpoint, stream));
  Result<nic::CounterId> trigger = endpoint.nic().open_counter();
  if (!trigger.ok())
    return trigger.status();
  queue->shared_trigger_ = trigger.value();
  Result<nic::Doorbell> bell = queue->doorbell_for(queue->shared_trigger_);
  if (!bell.ok())
    return bell.status();
  queue->shared_bell_ = bell.value();
  queue->shared_base_ = nic::total_of(bell.value());
  endpoint.add_queue(*queue);
  return queue;
}

Queue::~Queue() {
  endpoint_.remove_queue(*this);
  endpoint_.change_reserved_entries(-static_cast<int64_t>(reserved_entries_));
  for (Request* request : under_way_)
    request->listed = nullptr;
  (void)dismiss();
  for (Request* request : standing_) {
    request->listed = nullptr;
    request->standing->give_counts();
  }
  endpoint_.close_counter(shared_trigger_);
}

// Registers are best, memory next; a host call only where the stream runs on host threads.
Result<nic::Doorbell> Queue::doorbell_for(nic::CounterId counter) {
  const nic::Caps& caps = endpoint_.nic().caps();
  if (caps.doorbell_host_call && stream_.can_call())
    return endpoint_.nic().doorbell(counter, nic::DoorbellKind::kHostCall);
  if (caps.doorbell_mmio_add)
    return endpoint_.nic().doorbell(counter, nic::DoorbellKind::kMmioAdd);
  if (caps.doorbell_atomic_add)
    return endpoint_.nic().doorbell(counter, nic::DoorbellKind::kAtomicAdd);
  return Status(Code::kUnsupported, std::string("a ") + stream_.kind() + " stream cannot ring the NIC " + caps.name);
}

// ---- Start

Status Queue::check_start(std::span<Request* const> requests) {
  return check_each(requests, [this](const Request& request) -> Status {
    if (!request.matched())
      return misuse(request, "the request is not matched");
    if (request.standing != nullptr)
      return misuse(request, "the request is started by a graph or a kernel, until it is freed");
    if (request.needs_wait())
      return misuse(request, "the wait for the request's previous start was not enqueued");
    // Another stream might get here before that of the last start has passed its wait, and the trigger counter could
    // then no longer tell the two starts apart.
    if (request.queue_number != number_ && !request.complete())
      return misuse(request, "the request's last start is on another queue and has not completed");
    if (request.failures > 0)
      return {Code::kFailed,
              "an operation of the request failed before: free it and match a new one (" + request.describe() + ")"};
    if (request.starts >= request.peer_starts)
      return {Code::kFailed,
              endpoint_.explain_failure(request) + ": free it and match a new one (" + request.describe() + ")"};
    if (endpoint_.options().check_ready_sends)
      LANYARD_RETURN_IF_ERROR(check_not_landed(request));
    if (request.starts >= request.most_starts)
      return misuse(request, "the request's counters cannot count another start: free it and match a new one");
    return {};
  });
}

// A ready send promises that its receive has been started (MPI 4.0 section 3.4). Nothing tells where a stream is
// without slowing it, so what is found is a message that has landed before the start was even enqueued. To a member of
// an exchange less is promised (exchange.h).
Status Queue::check_not_landed(const Request& request) const {
  const bool from_ready_send = request.transfer.direction == Direction::kReceive && request.ready;
  if (!from_ready_send || !request.done.valid() || request.exchange != nullptr)
    return {};
  const uint64_t next = request.starts + 1;
  bool landed = request.iterations_done() >= next;
  if (request.completion.valid()) {
    const Result<nic::CounterValue> value = endpoint_.nic().read(request.completion);
    landed = landed || (value.ok() && value.value().success > request.completion_value(request.starts));
  }
  if (!landed)
    return {};
  return {Code::kFailed, "a ready send of rank " + std::to_string(request.matched_nic) + " came before start " +
                             std::to_string(next) + " of its receive (" + request.describe() +
                             "): the sender must know that the receive was started, or use MPI_Send_init"};
}

// Without overflow: whether the entries exist, and are free now. Each queue keeps what its largest epoch needed, and
// beside other queues holds no more: so it waits for entries of its own earlier starts only, and two processes cannot
// give theirs to different queues and wait for each other for ever.
Status Queue::check_entries(uint64_t demand) {
  const uint64_t all = endpoint_.nic().caps().deferred_depth;
  const uint64_t depth = all - std::min(all, endpoint_.standing().held());
  const uint64_t epoch = epoch_entries_ + demand;
  const uint64_t wanted = std::max(epoch, reserved_entries_);
  if (endpoint_.reserved_entries() - reserved_entries_ + wanted > depth)
    endpoint_.for_each_queue([](Queue& queue) { queue.release_reserve(); });
  bool alone = true;
  uint64_t others = 0;
  endpoint_.for_each_queue([&](Queue& queue) {
    if (&queue == this)
      return;
    alone = false;
    others += std::max(queue.reserved_entries_, queue.held_entries());
  });
  if (others + epoch > depth) {
    const std::string theirs = others == 0 ? ""
                                           : " and those of other queues " + std::to_string(others) + ", together " +
                                                 std::to_string(others + epoch);
    return {Code::kExhausted, "the starts of this epoch need " + std::to_string(epoch) + " deferred-work entries" +
                                  theirs + ", the NIC has " + std::to_string(depth) + ", and overflow is off"};
  }
  const uint64_t most = alone ? depth : std::max(epoch, reserved_entries_);
  if (held_entries() + demand > most || demand > endpoint_.nic().free_entries())
    return {Code::kAgain, "too few deferred-work entries are free"};
  return {};
}

uint64_t Queue::held_entries() const {
  uint64_t held = 0;
  for (const Request* request : under_way_)
    held += request->entries * (request->starts - std::min(request->starts, request->iterations_done()));
  return held;
}

void Queue::release_reserve() {
  if (epoch_entries_ > 0 || first_under_way() != nullptr)
    return;
  endpoint_.change_reserved_entries(-static_cast<int64_t>(reserved_entries_));
  reserved_entries_ = 0;
}

void Queue::append_lane(const Request& request, gpu::StreamOp::Kind kind) {
  gpu::StreamOp& op = stream_ops_.emplace_back();
  op.kind = kind;
  op.object = request.lane.get();
}

// Appends what the request's next iteration needs to the scratch lists.
Status Queue::lower(Request& request) {
  const uint64_t iteration = request.starts + 1;
  if (request.lane != nullptr) {
    append_lane(request, gpu::StreamOp::Kind::kStartLane);
    return {};
  }
  if (!request.is_prepared)
    LANYARD_RETURN_IF_ERROR(prepare_plan(endpoint_.nic(), request));
  append_postings(request, iteration, shared_trigger_, shared_rings_ + 1, postings_);
  if (request.exchange != nullptr)
    return request.exchange->lead == &request ? ring_exchange(*request.exchange, iteration) : Status();
  if (!request.trigger.valid())
    return {};
  if (request.doorbell_queue != number_)
    LANYARD_RETURN_IF_ERROR(find_bell(request));
  ring(request.doorbell, request.doorbell_base + iteration, 1);
  return {};
}

// Gives postings_, which are those of the requests, to the NIC. Behind an overflow nothing overtakes.
void Queue::hand_over(std::span<Request* const> requests) {
  endpoint_.count_posted(postings_.size());
  if (!endpoint_.overflow().empty() || !endpoint_.nic().post_prepared(postings_).ok())
    overflow(requests);
}

// A start has been enqueued.
void Queue::note_start(Request& request) {
  ++request.starts;
  request.queue_number = number_;
  if (!request.rings.empty())
    request.rings[request.starts % Request::kRings] = shared_rings_;
  if (request.listed != this)
    list(request);
  if (request.transfer.direction == Direction::kSend)
    figures_.bytes += request.matched_bytes;
}

void Queue::list(Request& request) {
  if (request.listed != nullptr)
    request.listed->forget(request, request.starts - 1);
  request.listed = this;
  under_way_.push_back(&request);
}

Status Queue::start(std::span<Request* const> requests) {
  if (const uint64_t capture = stream_.capturing(); capture != 0)
    return record_start(requests, capture);
  endpoint_.collect_failures();
  LANYARD_RETURN_IF_ERROR(check_start(requests));
  LANYARD_RETURN_IF_ERROR(check_exchanges(requests));
  LANYARD_RETURN_IF_ERROR(check_turns(requests, number_));
  if (shared_rings_ == nic::kMaxSuccess)
    return {Code::kInvalidState, "the queue's counter cannot count another start: make a new queue"};
  postings_.clear();
  stream_ops_.clear();
  LANYARD_RETURN_IF_ERROR(pack(requests));
  const size_t moves = stream_ops_.size();
  bool shared = false;
  uint64_t entries = 0;
  for (Request* request : requests) {
    LANYARD_RETURN_IF_ERROR(lower(*request));
    entries += request->entries;
    shared = shared || request->shares_trigger;
  }
  if (shared)
    ring(shared_bell_, shared_base_ + shared_rings_ + 1, 1);

  if (!endpoint_.options().overflow)
    LANYARD_RETURN_IF_ERROR(check_entries(entries));
  // The stream comes first, because it may refuse. That it may ring before the entries are there does no harm: a
  // condition that is met when an entry is posted fires at once.
  LANYARD_RETURN_IF_ERROR(stream_.enqueue(stream_ops_));

  shared_rings_ += shared ? 1 : 0;
  for (Request* request : requests)
    note_start(*request);
  note_starts(requests.size(), entries, stream_ops_.size() - moves);
  hand_over(requests);
  return {};
}

// What sends need before they may be rung for.
Status Queue::pack(std::span<Request* const> requests) {
  for (const Request* request : requests) {
    if (request->packing == nullptr)
      continue;
    // Of a receive too, whose wait could never be enqueued.
    LANYARD_RETURN_IF_ERROR(stream_.can_pack(*request->packing));
    if (request->transfer.direction == Direction::kSend)
      move(*request, gpu::StreamOp::Kind::kPack, request->starts + 1);
  }
  for (const Request* request : requests)
    if (request->transfer.direction == Direction::kSend)
      move(*request, gpu::StreamOp::Kind::kWrite64, request->starts + 1);
  return {};
}

// Appends one operation of the request's iteration: the packing or unpacking, or (kWrite64) that it has been made.
// Where all copies come first devices store all words by one kernel.
void Queue::move(const Request& request, gpu::StreamOp::Kind kind, uint64_t iteration) {
  if (request.packing == nullptr)
    return;
  gpu::StreamOp& op = stream_ops_.emplace_back();
  op.kind = kind;
  if (kind == gpu::StreamOp::Kind::kWrite64) {
    op.word = request.moved.address;
    op.value = request.moved_base + iteration;
  } else {
    op.object = request.packing.get();
    op.value = request.matched_bytes;
  }
}

// The kind of doorbell depends on the stream.
Status Queue::find_bell(Request& request) {
  Result<nic::Doorbell> bell = doorbell_for(request.trigger);
  if (!bell.ok())
    return bell.status();
  request.doorbell = bell.value();
  request.doorbell_queue = number_;
  request.doorbell_base = nic::total_of(bell.value()) - request.starts;
  return {};
}

Status Queue::ring_exchange(Exchange& exchange, uint64_t iteration) {
  if (!exchange.rings)
    return {};
  const uint64_t value = exchange.ring_value();
  if (exchange.doorbell_queue != number_) {
    Result<nic::Doorbell> bell = doorbell_for(exchange.shared.trigger);
    if (!bell.ok())
      return bell.status();
    exchange.doorbell = bell.value();
    exchange.doorbell_queue = number_;
    exchange.doorbell_base = nic::total_of(bell.value()) - value * exchange.lead->starts;
  }
  ring(exchange.doorbell, exchange.doorbell_base + value * iteration, value);
  return {};
}

// Gives the NIC what it takes, and the rest to the overflow.
void Queue::overflow(std::span<Request* const> requests) {
  size_t posted = 0;
  if (endpoint_.overflow().empty()) {
    Status status;
    while (posted < postings_.size() && (status = endpoint_.nic().post_prepared({&postings_[posted], 1})).ok())
      ++posted;
    LANYARD_CHECK(status.ok() || status.code() == Code::kAgain || status.code() == Code::kExhausted,
                  status.message().c_str());
  }
  if (posted == postings_.size())
    return;
  overflowing_.clear();
  for (const Request* request : requests)
    append_deferred(*request, postings_.data() + overflowing_.size(), overflowing_);
  endpoint_.overflow().add(std::span(overflowing_).subspan(posted));
}

// ---- Wait

Status Queue::check_wait(std::span<Request* const> requests) {
  return check_each(requests, [this](const Request& request) -> Status {
    if (request.standing != nullptr)
      return misuse(request, "the request is waited for by a graph or a kernel, until it is freed");
    if (!request.needs_wait())
      return misuse(request, "the request has no start to wait for");
    if (request.queue_number != number_)
      return misuse(request, "the request was started on another queue");
    return {};
  });
}

void Queue::append_wait(const Request& request) {
  if (request.lane != nullptr) {
    // Where the queue has waited by itself nobody may find the request complete, and free it, with a wait to come.
    if (request.followed != request.starts)
      append_lane(request, gpu::StreamOp::Kind::kWaitLane);
    return;
  }
  gpu::StreamOp& op = stream_ops_.emplace_back();
  op.word = request.done.address;
  op.kind = gpu::StreamOp::Kind::kWait64;
  op.value = request.done_base + request.starts;
}

void Queue::note_wait(Request& request) {
  ++request.waits;
  epoch_entries_ -= request.entries;
}

Status Queue::wait(std::span<Request* const> requests) {
  if (const uint64_t capture = stream_.capturing(); capture != 0)
    return record_wait(requests, capture);
  stream_ops_.clear();
  LANYARD_RETURN_IF_ERROR(check_wait(requests));
  LANYARD_RETURN_IF_ERROR(check_exchanges(requests));
  for (const Request* request : requests) {
    if (!request->done.valid())
      continue;  // nobody to wait for
    if (request->exchange != nullptr && request->exchange->lead != request)
      continue;  // one waits for all
    append_wait(*request);
  }
  unpack(requests);
  LANYARD_RETURN_IF_ERROR(stream_.enqueue(stream_ops_));
  for (Request* request : requests)
    note_wait(*request);
  note_waits(requests.size());
  return {};
}

// What follows the waits of receives.
void Queue::unpack(std::span<Request* const> requests) {
  using Kind = gpu::StreamOp::Kind;
  for (const Kind kind : {Kind::kUnpack, Kind::kWrite64})
    for (const Request* request : requests)
      if (request->transfer.direction == Direction::kReceive)
        move(*request, kind, request->waits + 1);
}

// ---- State

// That a start of a lane has completed is told by a wait alone, which may also have to copy the message; and a queue is
// waited for, too, whose starts have no wait yet. So it waits by itself, in place of the program.
void Queue::follow_lanes() {
  for (Request* request : under_way_) {
    if (request->lane == nullptr || !request->needs_wait() || request->followed == request->starts)
      continue;
    stream_ops_.clear();
    append_lane(*request, gpu::StreamOp::Kind::kWaitLane);
    if (stream_.capturing() == 0 && stream_.enqueue(stream_ops_).ok())
      request->followed = request->starts;
  }
}

bool Queue::settled() {
  follow_lanes();
  std::erase_if(under_way_, [&](Request* request) {
    if (!request->complete())
      return false;
    request->listed = nullptr;
    owe(*request, request->starts);
    return true;
  });
  if (!under_way_.empty())
    return false;
  const bool assured = is_all_assured();  // so that the senders are asked meanwhile
  return is_all_confirmed() && assured;
}

// Writes down that so many starts of a request have ended here, and not yet how.
void Queue::owe(const Request& request, uint64_t starts) {
  const auto put = [&](std::vector<nic::ContextStarts>& owed) {
    const auto known = std::find_if(owed.begin(), owed.end(),
                                    [&](const nic::ContextStarts& each) { return each.context == request.number; });
    if (known != owed.end())
      known->starts = starts;
    else
      owed.push_back({request.number, starts});
  };
  if (endpoint_.nic().caps().failures_lag && request.lane == nullptr)
    put(unconfirmed_);
  if (endpoint_.raises_flags() && request.transfer.direction == Direction::kReceive && request.lane == nullptr)
    put(unassured_);
}

bool Queue::owes(uint64_t number) const {
  const auto is_it = [number](const nic::ContextStarts& each) { return each.context == number; };
  return std::any_of(unconfirmed_.begin(), unconfirmed_.end(), is_it) ||
         std::any_of(unassured_.begin(), unassured_.end(), is_it);
}

// What has been started on another queue since is told here if its failure is found here first.
bool Queue::has_untold_elsewhere(uint64_t number) {
  const Request* request = endpoint_.find(number);
  return request != nullptr && request->queue_number != number_ && endpoint_.failures().is_untold(number);
}

bool Queue::is_all_confirmed() {
  // Of what was released there is nothing more to tell, and what waits for its counters may wait there for ever.
  std::erase_if(unconfirmed_, [this](const auto& each) { return endpoint_.was_released(each.context); });
  if (!unconfirmed_.empty() && endpoint_.nic().confirms(unconfirmed_)) {
    endpoint_.collect_failures();
    std::erase_if(unconfirmed_, [this](const auto& each) { return !has_untold_elsewhere(each.context); });
  }
  return unconfirmed_.empty();
}

bool Queue::is_all_assured() {
  // Who frees a receive does not ask what came of it.
  std::erase_if(unassured_, [this](const auto& each) {
    Request* request = endpoint_.find(each.context);
    return request == nullptr || (endpoint_.is_assured(*request, each.starts) && !has_untold_elsewhere(each.context));
  });
  if (!endpoint_.raises_flags() || standing_.empty())
    return unassured_.empty();
  // While graphs and kernels go on every answer would be followed by another question. (Whoever asked a stream that is
  // being captured would end the capture.)
  if (stream_.capturing() != 0 || !stream_.is_empty())
    return false;
  bool standing = true;
  for (Request* request : standing_)
    standing = endpoint_.is_assured(*request, request->iterations_done()) && standing;
  return unassured_.empty() && standing;
}

void Queue::forget(Request& request, uint64_t starts) {
  const bool was_under_way = std::erase(under_way_, &request) > 0;
  const bool stood = std::erase(standing_, &request) > 0;
  if (was_under_way || stood)
    owe(request, starts);
  // The wait that a capture lacks will not come any more.
  if (request.standing != nullptr && request.standing->capture != 0) {
    request.standing->capture = 0;
    --recorded_unwaited_;
    --unwaited_;
  }
  request.listed = nullptr;
}

}  // namespace lanyard::core
