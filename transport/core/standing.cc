#include "transport/core/standing.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "transport/base/check.h"
#include "transport/base/service_thread.h"
#include "transport/core/exchange.h"
#include "transport/core/plan.h"
#include "transport/core/queue.h"

namespace lanyard::core {

namespace {

// The most iterations posted ahead, if half the NIC's entries suffice. A thread that looks every
// kLookAgain keeps up with this.
constexpr uint64_t kMostLead = 64;
constexpr std::chrono::microseconds kLookAgain{50};
constexpr std::chrono::milliseconds kLookSeldom{1};
constexpr int kQuietRounds = 2'000;

// A doorbell that a kernel can ring.
Result<nic::Doorbell> word_bell(nic::Nic& nic, nic::CounterId counter) {
  const nic::Caps& caps = nic.caps();
  if (caps.doorbell_mmio_add)
    return nic.doorbell(counter, nic::DoorbellKind::kMmioAdd);
  if (caps.doorbell_atomic_add)
    return nic.doorbell(counter, nic::DoorbellKind::kAtomicAdd);
  return Status(Code::kUnsupported, "the card " + caps.name + " has no doorbell that a kernel could ring");
}

}  // namespace

Status StandingOrders::begin(Request& request, gpu::Stream& stream) {
  if (request.lane == nullptr && !nic_.caps().cancel)
    return {Code::kUnsupported,
            "the card " + nic_.caps().name + " cannot take deferred work back, which starts without a host need"};
  auto standing = std::make_shared<Standing>();
  standing->stream = &stream;
  standing->base = standing->posted = request.starts;
  request.standing = standing;
  Status status = open(*standing, request);
  if (status.ok() && request.lane == nullptr)
    status = enlist(request);
  if (status.ok()) {
    keep_up();
    return {};
  }
  request.standing.reset();
  if (standing->trigger.valid())
    (void)nic_.close_counter(standing->trigger);
  standing->give_counts();
  return status;
}

// A lane needs no bell: its GPU counts the starts, and nothing is posted.
Status StandingOrders::open(Standing& standing, Request& request) {
  gpu::Stream& stream = *standing.stream;
  if (request.packing != nullptr) {
    LANYARD_ASSIGN_OR_RETURN(standing.moves, stream.take_count(request.moved.read()));
  }
  if (request.lane != nullptr)
    return {};
  LANYARD_RETURN_IF_ERROR(prepare_plan(nic_, request));
  // No operation of a receive from a ready send waits for its bell. The bell only tells started()
  // how far the stream is, even if a message never comes.
  standing.has_bell = request.done.valid();
  if (!standing.has_bell)
    return {};
  LANYARD_ASSIGN_OR_RETURN(standing.count, stream.take_count(request.done.base + request.starts));
  if (!request.trigger.valid()) {
    LANYARD_ASSIGN_OR_RETURN(standing.trigger, nic_.open_counter());
  }
  LANYARD_ASSIGN_OR_RETURN(standing.bell,
                           word_bell(nic_, request.trigger.valid() ? request.trigger : standing.trigger));
  if (nic::takes_totals(nic_.caps(), standing.bell)) {
    LANYARD_ASSIGN_OR_RETURN(standing.rings, stream.take_count(nic::total_of(standing.bell)));
  }
  return {};
}

Status StandingOrders::enlist(Request& request) {
  const std::lock_guard lock(mutex_);
  const uint64_t wanted = entries_ + request.plan.size();
  if (overflow_ == nullptr && wanted > nic_.caps().deferred_depth)
    return {Code::kExhausted, "requests that start without a host would need " + std::to_string(wanted) +
                                  " deferred-work entries, the NIC has " + std::to_string(nic_.caps().deferred_depth) +
                                  ", and overflow is off"};
  if (own_thread_ && !thread_.joinable()) {
    LANYARD_ASSIGN_OR_RETURN(thread_, start_service_thread("lanyard-stand", [this] { run(); }));
  }
  requests_.push_back(&request);
  set_lead();
  return {};
}

uint64_t StandingOrders::started(const Request& request) const {
  const Standing& standing = *request.standing;
  // Counters may lag behind memory, but a completed iteration was started.
  const uint64_t completed = request.done.valid() ? request.iterations_done() : 0;
  if (request.lane != nullptr)
    return std::max(completed, request.begun.count());
  if (!standing.has_bell)
    return completed;
  if (!request.trigger.valid())
    return std::max(completed, standing.base + nic_.read(standing.trigger).value().reached());
  // The trigger counts clear-to-sends too. The NIC adds to their word in the same step, so repeat
  // the read if the word has changed.
  uint64_t cleared = 0, reached = 0;
  do {
    cleared = request.clearances();
    reached = nic_.read(request.trigger).value().reached();
  } while (request.clearances() != cleared);
  return std::max(completed, reached - std::min(reached, cleared));
}

Status StandingOrders::can_end(const Request& request) const {
  // The missing wait may still come while the capture is in progress.
  if (request.standing->capture != 0 && request.standing->capture == request.standing->stream->capturing())
    return {Code::kInvalidState, "a capture has a start of the request (" + request.describe() + ") and not its wait"};
  if (!is_complete(request))
    return {Code::kInvalidState, "the last start of the request (" + request.describe() + ") has not completed"};
  return {};
}

bool StandingOrders::has_transferred(const Request& request) const {
  // For a lane, also wait for starts that the stream has not reached: they use the lane's memory.
  if (request.lane != nullptr && (request.standing->stream->capturing() != 0 || !request.standing->stream->is_empty()))
    return false;
  const bool untold = !request.done.valid() || (request.lane != nullptr && request.released);
  return untold || request.iterations_done() >= started(request);
}

bool StandingOrders::is_complete(const Request& request) const {
  if (!has_transferred(request))
    return false;
  if (request.standing->moves == nullptr)
    return true;
  // How often a released request was started is not known.
  return request.released ? request.standing->stream->is_empty() : request.has_moved(started(request));
}

void StandingOrders::abandon(Request& request) {
  const std::lock_guard lock(mutex_);
  std::erase(requests_, &request);
  set_lead();
}

Status StandingOrders::end(Request& request) {
  LANYARD_RETURN_IF_ERROR(can_end(request));
  finish(request, started(request));
  return {};
}

void StandingOrders::finish(Request& request, uint64_t starts) {
  abandon(request);
  const nic::CounterId own = request.standing->trigger;
  if (overflow_ != nullptr)
    overflow_->cancel(request.number);
  for (const nic::CounterId counter : {request.trigger, request.completion, own}) {
    if (!counter.valid())
      continue;
    const Status status = nic_.cancel(counter);
    LANYARD_CHECK(status.ok(), status.message().c_str());
  }
  if (own.valid())
    close_trigger_(request, own);
  // A receive sends at most one clear-to-send more than there are starts. Only a released one sends
  // more, and these fire entries posted ahead (P16).
  request.ran_ahead = request.ran_ahead || request.clearances() > starts + 1;
  request.standing->give_counts();
  request.starts = request.waits = starts;
  request.bell.queue = 0;  // others have rung it: the next start sets Bell::base again
  request.standing.reset();
}

void StandingOrders::set_lead() {
  entries_ = 0;
  for (const Request* request : requests_)
    entries_ += request->plan.size();
  // Without overflow 1: entries posted ahead cannot be freed for a request that begins later.
  lead_ = 1;
  if (entries_ > 0 && overflow_ != nullptr)
    lead_ = std::clamp<uint64_t>(nic_.caps().deferred_depth / 2 / entries_, 1, kMostLead);
  held_.store(entries_ * lead_, std::memory_order_relaxed);
}

// Posts one iteration of the request. Returns false if there is no room.
bool StandingOrders::hand_over(Request& request) {
  Standing& standing = *request.standing;
  const uint64_t iteration = standing.posted + 1;
  postings_.clear();
  append_postings(request, iteration, standing.trigger, iteration - standing.base, postings_);
  if (!nic_.post_prepared(postings_).ok()) {
    if (overflow_ == nullptr)
      return false;
    // The overflow needs no free entry to run operations whose trigger has fired.
    overflowing_.clear();
    for (const Post& post : request.plan)
      overflowing_.push_back(nic::deferred(post.op, postings_[overflowing_.size()]));
    overflow_->add(overflowing_);
  }
  standing.posted = iteration;
  posted_.fetch_add(postings_.size(), std::memory_order_relaxed);
  return true;
}

size_t StandingOrders::keep_up() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock())
    return 0;  // another thread does it
  size_t handed_over = 0;
  for (Request* request : requests_) {
    if (request->plan.empty())
      continue;
    const uint64_t last = std::min(request->most_starts, request->iterations_done() + lead_);
    while (request->standing->posted < last && hand_over(*request))
      ++handed_over;
  }
  return handed_over;
}

void StandingOrders::run() {
  int quiet = 0;
  while (!stopping_.load()) {
    quiet = keep_up() > 0 ? 0 : quiet + 1;
    std::this_thread::sleep_for(quiet < kQuietRounds ? std::chrono::nanoseconds(kLookAgain)
                                                     : std::chrono::nanoseconds(kLookSeldom));
  }
}

void StandingOrders::stop() {
  stopping_.store(true);
  if (thread_.joinable())
    thread_.join();
}

// ---- The part of Queue for starts by graphs and kernels

Status Queue::check_standing(std::span<Request* const> requests, bool in_kernels) {
  return check_each(requests, [&](const Request& request) -> Status {
    const auto unsupported = [&](const std::string& what) {
      return Status(Code::kUnsupported, "the request (" + request.describe() + ") " + what);
    };
    LANYARD_RETURN_IF_ERROR(check_startable(request));
    if (request.exchange != nullptr)
      return unsupported("is a member of the " + request.exchange->describe() +
                         ", which no graph or kernel starts: match it without the hint");
    if (request.transfer.in_turn)
      return unsupported(
          "alternates between two messages, which no graph or kernel does: match it with the hint "
          "lanyard_exchange, none");
    if (request.lane != nullptr && in_kernels)
      return unsupported(
          "goes from GPU to GPU without a card, which kernels do not start yet: give it the hint "
          "lanyard_route, card, before its match");
    if (request.packing != nullptr && in_kernels)
      return unsupported(
          "has a datatype with gaps, or combines, which nobody does for a kernel: do it by a kernel of "
          "your own, in a contiguous buffer");
    if (request.packing != nullptr)
      LANYARD_RETURN_IF_ERROR(stream_.can_pack(*request.packing));
    if (request.standing == nullptr) {
      if (request.needs_wait() || !request.complete())
        return misuse(request, "the request's last start has not been waited for or has not completed");
      return {};
    }
    if (in_kernels || request.standing->in_kernels || request.standing->stream != &stream_)
      return misuse(request, "the request is started by other kernels or by another stream's graphs");
    if (request.standing->capture != 0)
      return misuse(request, "the wait for the request's previous start was not captured");
    return {};
  });
}

// Makes requests stand that do not yet, all or none, and appends these to `begun`.
Status Queue::begin_standing(std::span<Request* const> requests, bool in_kernels, std::vector<Request*>& begun) {
  for (Request* request : requests) {
    if (request->standing != nullptr)
      continue;
    if (Status status = endpoint_.standing().begin(*request, stream_); !status.ok()) {
      for (Request* each : begun)
        endpoint_.standing().take_back(*each);
      return status;
    }
    request->standing->in_kernels = in_kernels;
    begun.push_back(request);
  }
  return {};
}

Status Queue::stand(std::span<Request* const> requests) {
  endpoint_.collect_failures();
  LANYARD_RETURN_IF_ERROR(check_standing(requests, true));
  std::vector<Request*> begun;
  LANYARD_RETURN_IF_ERROR(begin_standing(requests, true, begun));
  enlist(begun);
  return {};
}

void Queue::enlist(std::span<Request* const> begun) {
  for (Request* request : begun) {
    list(*request, request->starts, standing_);
    request->queue_number = number_;
  }
}

Status Queue::record_start(std::span<Request* const> requests, uint64_t capture) {
  if (recorded_unwaited_ > 0 && capture != capture_)
    return {Code::kInvalidState,
            "the last capture has " + std::to_string(recorded_unwaited_) +
                " starts without a wait: its graph would start requests again before they have completed"};
  LANYARD_RETURN_IF_ERROR(check_standing(requests, false));
  std::vector<Request*> begun;
  LANYARD_RETURN_IF_ERROR(begin_standing(requests, false, begun));
  stream_ops_.clear();
  append_moves(requests, Direction::kSend);
  const size_t moves = stream_ops_.size();
  for (const Request* request : requests) {
    const Standing& standing = *request->standing;
    if (request->lane != nullptr)
      append_lane(*request, gpu::StreamOp::Kind::kStartLane);
    if (!standing.has_bell)
      continue;
    gpu::StreamOp& ring = append_ring(standing.bell, 1);
    if (standing.rings == nullptr)
      continue;
    ring.kind = gpu::StreamOp::Kind::kWriteNext64;
    ring.count = standing.rings;
  }
  if (Status status = stream_.enqueue(stream_ops_); !status.ok()) {
    for (Request* each : begun)
      endpoint_.standing().take_back(*each);
    return status;
  }
  enlist(begun);
  for (Request* request : requests)
    request->standing->capture = capture;
  capture_ = capture;
  recorded_unwaited_ += requests.size();
  unwaited_ += requests.size();
  figures_.triggers += stream_ops_.size() - moves;
  return {};
}

Status Queue::dismiss(std::span<Request* const> requests) {
  for (const Request* request : requests)
    LANYARD_RETURN_IF_ERROR(endpoint_.standing().can_end(*request));
  for (Request* request : requests) {
    forget(*request, endpoint_.started(*request));
    LANYARD_RETURN_IF_ERROR(endpoint_.end_standing(*request));
  }
  return {};
}

Status Queue::dismiss() {
  const std::vector<Request*> all = standing_;
  return dismiss(all);
}

}  // namespace lanyard::core
