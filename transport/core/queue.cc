#include "transport/core/queue.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"

namespace lanyard::core {

Result<std::unique_ptr<Queue>> Queue::create(Endpoint& endpoint, gpu::Stream& stream) {
  std::unique_ptr<Queue> queue(new Queue(endpoint, stream));
  LANYARD_ASSIGN_OR_RETURN(queue->shared_trigger_, endpoint.nic().open_counter());
  LANYARD_ASSIGN_OR_RETURN(queue->shared_bell_, queue->doorbell_for(queue->shared_trigger_));
  queue->shared_base_ = nic::total_of(queue->shared_bell_);
  endpoint.add_queue(*queue);
  return queue;
}

Queue::~Queue() {
  endpoint_.remove_queue(*this);
  for (Request* request : under_way_)
    request->listed = nullptr;
  (void)dismiss();
  for (Request* request : standing_) {
    request->listed = nullptr;
    request->standing->give_counts();
  }
  endpoint_.close_counter(shared_trigger_);
}

// Prefers a host call if the stream runs on host threads, then a register, then memory.
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

// Appends a ring that adds `value` to the counter of any bell.
gpu::StreamOp& Queue::append_ring(const nic::Doorbell& bell, uint64_t value) {
  using Kind = gpu::StreamOp::Kind;
  gpu::StreamOp& op = stream_ops_.emplace_back();
  op.value = value;
  op.word = bell.word;
  if (bell.kind == nic::DoorbellKind::kHostCall) {
    op.kind = Kind::kCall;
    op.call = bell.call;
    op.object = bell.object;
    op.argument = bell.counter;
  } else {
    op.kind = bell.kind == nic::DoorbellKind::kMmioAdd ? Kind::kWrite64 : Kind::kAdd64;
  }
  return op;
}

// The same for a bell that only this queue rings. `total` is the sum of all its rings, with this
// one. If the NIC allows it, the ring stores the sum: a device stores faster than it adds.
void Queue::append_ring(const nic::Doorbell& bell, uint64_t value, uint64_t total) {
  gpu::StreamOp& op = append_ring(bell, value);
  if (!nic::takes_totals(endpoint_.nic().caps(), bell))
    return;
  op.kind = gpu::StreamOp::Kind::kWrite64;
  op.value = total;
}

// ---- Start

// Checks for every kind of start: by the host, by a graph or by a kernel.
Status Queue::check_startable(const Request& request) const {
  if (!request.matched())
    return misuse(request, "the request is not matched");
  const bool failed = request.failures > 0;
  if (!failed && endpoint_.started(request) < request.peer_starts)
    return {};
  return {Code::kFailed, (failed ? "an operation of the request failed before" : endpoint_.explain_failure(request)) +
                             ": free it and match a new one (" + request.describe() + ")"};
}

Status Queue::check_start(std::span<Request* const> requests) {
  return check_each(requests, [this](const Request& request) -> Status {
    if (request.standing != nullptr)
      return misuse(request, "the request is started by a graph or a kernel, until it is freed");
    if (request.needs_wait())
      return misuse(request, "the wait for the request's previous start was not enqueued");
    // This stream might ring before the other one has passed its wait. Then the trigger counter
    // could not tell the two starts apart.
    if (request.queue_number != number_ && !request.complete())
      return misuse(request, "the request's last start is on another queue and has not completed");
    LANYARD_RETURN_IF_ERROR(check_startable(request));
    // For receives too: otherwise their wait could never be enqueued.
    if (request.packing != nullptr)
      LANYARD_RETURN_IF_ERROR(stream_.can_pack(*request.packing));
    if (endpoint_.options().check_ready_sends)
      LANYARD_RETURN_IF_ERROR(check_not_landed(request));
    if (request.starts >= request.most_starts)
      return misuse(request, "the request's counters cannot count another start: free it and match a new one");
    return {};
  });
}

// A ready send promises that its receive has been started (MPI 4.0 section 3.4). To ask where the
// stream is would slow it. So this finds only messages that landed before the start was enqueued.
// Ready sends to members of an exchange promise less (P6).
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

// Without overflow: kExhausted if the NIC has too few entries, kAgain if too few are free now.
// Each queue reserves the entries of its largest epoch. Beside other queues it holds no more, so it
// waits only for entries of its own earlier starts. Otherwise two processes could give their
// entries to different queues and wait for each other forever.
Status Queue::check_entries(uint64_t demand) {
  const uint64_t all = endpoint_.nic().caps().deferred_depth;
  const uint64_t depth = all - std::min(all, endpoint_.standing().held());
  const uint64_t epoch = epoch_entries_ + demand;
  uint64_t kept = std::max(epoch, reserved_entries_);  // reserved by all queues
  endpoint_.for_each_queue([&](const Queue& queue) { kept += &queue != this ? queue.reserved_entries_ : 0; });
  if (kept > depth)
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
    held += request->plan.size() * (request->starts - std::min(request->starts, request->iterations_done()));
  return held;
}

void Queue::release_reserve() {
  if (epoch_entries_ == 0 && first_under_way() == nullptr)
    reserved_entries_ = 0;
}

void Queue::append_lane(const Request& request, gpu::StreamOp::Kind kind) {
  gpu::StreamOp& op = stream_ops_.emplace_back();
  op.kind = kind;
  op.object = request.lane.get();
}

// Appends the postings and stream operations of the request's next start to the scratch lists.
Status Queue::lower(Request& request) {
  const uint64_t iteration = request.starts + 1;
  if (request.lane != nullptr) {
    append_lane(request, gpu::StreamOp::Kind::kStartLane);
    return {};
  }
  LANYARD_RETURN_IF_ERROR(prepare_plan(endpoint_.nic(), request));
  append_postings(request, iteration, shared_trigger_, shared_rings_ + 1, postings_);
  Bell& bell = request.bell;
  if (bell.value == 0)
    return {};
  if (bell.queue != number_) {  // the kind of doorbell depends on the stream
    LANYARD_ASSIGN_OR_RETURN(bell.doorbell, doorbell_for(request.trigger));
    bell.queue = number_;
    bell.base = nic::total_of(bell.doorbell) - bell.value * request.starts;
  }
  append_ring(bell.doorbell, bell.value, bell.base + bell.value * iteration);
  return {};
}

// Appends the packing of sends or unpacking of receives, then the stores that report it. With all
// copies first, a device stores all words by one kernel. In graphs the stores count by themselves.
void Queue::append_moves(std::span<Request* const> requests, Direction direction) {
  using Kind = gpu::StreamOp::Kind;
  const bool send = direction == Direction::kSend;
  for (const Kind kind : {send ? Kind::kPack : Kind::kUnpack, Kind::kWrite64})
    for (const Request* request : requests) {
      if (request->packing == nullptr || request->transfer.direction != direction)
        continue;
      gpu::StreamOp& op = stream_ops_.emplace_back();
      op.kind = kind;
      if (kind != Kind::kWrite64) {
        op.object = request->packing.get();
        op.value = request->matched_bytes;
        continue;
      }
      op.word = request->moved.address;
      if (request->standing != nullptr) {
        op.kind = Kind::kWriteNext64;
        op.value = 1;
        op.count = request->standing->moves;
      } else {
        op.value = request->moved.base + (send ? request->starts : request->waits) + 1;
      }
    }
}

// Records a start that has been enqueued.
void Queue::note_start(Request& request) {
  ++request.starts;
  request.queue_number = number_;
  if (!request.rings.empty())
    request.rings[request.starts % Request::kRings] = shared_rings_;
  if (request.listed != this)
    list(request, request.starts - 1, under_way_);
  if (request.transfer.direction == Direction::kSend)
    figures_.bytes += request.matched_bytes;
}

// Moves the request to a list of this queue. Its old queue, if any, records `starts` starts.
void Queue::list(Request& request, uint64_t starts, std::vector<Request*>& requests) {
  if (request.listed != nullptr)
    request.listed->forget(request, starts);
  request.listed = this;
  requests.push_back(&request);
}

Status Queue::start(std::span<Request* const> requests) {
  endpoint_.collect_failures();
  if (const uint64_t capture = stream_.capturing(); capture != 0)
    return record_start(requests, capture);
  LANYARD_RETURN_IF_ERROR(check_start(requests));
  LANYARD_RETURN_IF_ERROR(check_exchanges(requests));
  LANYARD_RETURN_IF_ERROR(check_turns(requests, number_));
  if (shared_rings_ == nic::kMaxSuccess)
    return {Code::kInvalidState, "the queue's counter cannot count another start: make a new queue"};
  postings_.clear();
  stream_ops_.clear();
  append_moves(requests, Direction::kSend);
  const size_t moves = stream_ops_.size();
  bool shared = false;
  for (Request* request : requests) {
    LANYARD_RETURN_IF_ERROR(lower(*request));
    shared = shared || request->shares_trigger;
  }
  if (shared)
    append_ring(shared_bell_, 1, shared_base_ + shared_rings_ + 1);

  if (!endpoint_.options().overflow)
    LANYARD_RETURN_IF_ERROR(check_entries(postings_.size()));
  // The stream comes first, because it may refuse. It may ring before the entries are posted: an
  // entry fires at once if its threshold is already reached (nic.h, N1).
  LANYARD_RETURN_IF_ERROR(stream_.enqueue(stream_ops_));

  shared_rings_ += shared ? 1 : 0;
  for (Request* request : requests)
    note_start(*request);
  figures_.starts += requests.size();
  figures_.triggers += stream_ops_.size() - moves;
  unwaited_ += requests.size();
  epoch_entries_ += postings_.size();
  reserved_entries_ = std::max(reserved_entries_, epoch_entries_);
  hand_over(requests);
  return {};
}

// Posts postings_, which belong to the requests. Operations that the NIC does not take go to the
// overflow. While that is not empty, all go there.
void Queue::hand_over(std::span<Request* const> requests) {
  endpoint_.count_posted(postings_.size());
  nic::Nic& nic = endpoint_.nic();
  const bool direct = endpoint_.overflow().empty();
  if (direct && nic.post_prepared(postings_).ok())
    return;
  size_t posted = 0;
  if (direct) {
    Status status;
    while (posted < postings_.size() && (status = nic.post_prepared({&postings_[posted], 1})).ok())
      ++posted;
    LANYARD_CHECK(status.ok() || status.code() == Code::kAgain || status.code() == Code::kExhausted,
                  status.message().c_str());
  }
  if (posted == postings_.size())
    return;
  overflowing_.clear();
  for (const Request* request : requests)
    for (const Post& post : request->plan)
      overflowing_.push_back(nic::deferred(post.op, postings_[overflowing_.size()]));
  endpoint_.overflow().add(std::span(overflowing_).subspan(posted));
}

// ---- Wait

Status Queue::check_wait(std::span<Request* const> requests, uint64_t capture) {
  return check_each(requests, [&](const Request& request) -> Status {
    const Standing* standing = request.standing.get();
    if (capture != 0 && (standing == nullptr || standing->stream != &stream_ || standing->capture != capture))
      return misuse(request, "the capture has no start of the request to wait for");
    if (capture != 0)
      return {};
    if (standing != nullptr)
      return misuse(request, "the request is waited for by a graph or a kernel, until it is freed");
    if (!request.needs_wait())
      return misuse(request, "the request has no start to wait for");
    if (request.queue_number != number_)
      return misuse(request, "the request was started on another queue");
    return {};
  });
}

void Queue::append_wait(const Request& request) {
  if (!request.done.valid() || !request.leads)
    return;  // it has no peer, or its exchange's lead waits
  const Standing* standing = request.standing.get();
  if (request.lane != nullptr) {
    // If follow_lanes() has enqueued this wait, enqueue no second one: the request may be complete
    // and freed before that runs.
    if (standing != nullptr || request.followed != request.starts)
      append_lane(request, gpu::StreamOp::Kind::kWaitLane);
    return;
  }
  gpu::StreamOp& op = stream_ops_.emplace_back();
  op.word = request.done.address;
  op.kind = standing != nullptr ? gpu::StreamOp::Kind::kWaitNext64 : gpu::StreamOp::Kind::kWait64;
  op.value = standing != nullptr ? 1 : request.done.base + request.starts;
  op.count = standing != nullptr ? standing->count : nullptr;
}

Status Queue::wait(std::span<Request* const> requests) {
  const uint64_t capture = stream_.capturing();
  stream_ops_.clear();
  LANYARD_RETURN_IF_ERROR(check_wait(requests, capture));
  LANYARD_RETURN_IF_ERROR(check_exchanges(requests));
  for (const Request* request : requests)
    append_wait(*request);
  append_moves(requests, Direction::kReceive);
  LANYARD_RETURN_IF_ERROR(stream_.enqueue(stream_ops_));
  for (Request* request : requests) {
    if (capture != 0) {
      request->standing->capture = 0;
      continue;
    }
    ++request->waits;
    epoch_entries_ -= request->plan.size();
  }
  if (capture != 0)
    recorded_unwaited_ -= requests.size();
  else
    figures_.waits += requests.size();
  unwaited_ -= requests.size();
  return {};
}

// ---- State

// Only a wait shows that a start of a lane has completed, and it may have to copy the message. The
// program may wait for a queue whose starts have no wait yet, so the queue enqueues these waits.
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
  const bool assured = is_all_assured();  // first, because it asks the senders
  return is_all_confirmed() && assured;
}

// Records that so many starts of a request have ended here, if their outcome may not be known yet.
void Queue::owe(const Request& request, uint64_t starts) {
  const auto put = [&](std::vector<nic::ContextStarts>& owed) {
    const auto known = std::ranges::find(owed, request.number, &nic::ContextStarts::context);
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
  const auto is_in = [number](const auto& owed) {
    return std::ranges::find(owed, number, &nic::ContextStarts::context) != owed.end();
  };
  return is_in(unconfirmed_) || is_in(unassured_);
}

// True if a failure of the request is not reported yet and it was started on another queue since.
// This queue may report the failure too, so it must keep its record.
bool Queue::has_untold_elsewhere(uint64_t number) {
  const Request* request = endpoint_.find(number);
  return request != nullptr && request->queue_number != number_ && endpoint_.failures().is_untold(number);
}

bool Queue::is_all_confirmed() {
  // A released request has nothing more to report, and its operations may wait forever.
  std::erase_if(unconfirmed_, [this](const auto& each) { return endpoint_.was_released(each.context); });
  if (!unconfirmed_.empty() && endpoint_.nic().confirms(unconfirmed_)) {
    endpoint_.collect_failures();
    std::erase_if(unconfirmed_, [this](const auto& each) { return !has_untold_elsewhere(each.context); });
  }
  return unconfirmed_.empty();
}

bool Queue::is_all_assured() {
  // A receive that was freed needs no answer.
  std::erase_if(unassured_, [this](const auto& each) {
    Request* request = endpoint_.find(each.context);
    return request == nullptr || (endpoint_.is_assured(*request, each.starts) && !has_untold_elsewhere(each.context));
  });
  if (!endpoint_.raises_flags() || standing_.empty())
    return unassured_.empty();
  // While graphs and kernels run, each answer would lead to another question. (is_empty() would end
  // a capture.)
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
  // The wait that is missing in the capture will never come.
  if (request.standing != nullptr && request.standing->capture != 0) {
    request.standing->capture = 0;
    --recorded_unwaited_;
    --unwaited_;
  }
  request.listed = nullptr;
}

}  // namespace lanyard::core
