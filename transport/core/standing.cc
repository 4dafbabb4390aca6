#include "transport/core/standing.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "transport/base/check.h"
#include "transport/base/service_thread.h"
#include "transport/core/exchange.h"
#include "transport/core/prepared_plan.h"

namespace lanyard::core {

namespace {

// As far ahead as half the NIC's entries allow, but no further: a thread that looks every kLookAgain keeps up with it.
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
  if (request.lane != nullptr)
    return begin_lane(request, stream);
  if (!nic_.caps().cancel)
    return {Code::kUnsupported,
            "the card " + nic_.caps().name + " cannot take deferred work back, which starts without a host need"};
  LANYARD_RETURN_IF_ERROR(prepare_plan(nic_, request));
  auto standing = std::make_shared<Standing>();
  standing->stream = &stream;
  standing->base = standing->posted = request.starts;
  // Nothing hangs on the bell of a ready send's receive: it tells how far the stream has got, so that a start whose
  // message will never come is known to be one.
  standing->has_bell = request.done.valid();
  if (request.done.valid()) {
    const Result<uint64_t*> count = stream.take_count(request.done_base + request.starts);
    if (!count.ok())
      return count.status();
    standing->count = count.value();
  }
  const auto undo = [&](Status status) {
    if (standing->trigger.valid())
      (void)nic_.close_counter(standing->trigger);
    standing->give_counts();
    return status;
  };
  if (request.packing != nullptr) {
    const Result<uint64_t*> moves = stream.take_count(request.moved.read());
    if (!moves.ok())
      return undo(moves.status());
    standing->moves = moves.value();
  }
  if (standing->has_bell && !request.trigger.valid()) {
    const Result<nic::CounterId> trigger = nic_.open_counter();
    if (!trigger.ok())
      return undo(trigger.status());
    standing->trigger = trigger.value();
  }
  if (standing->has_bell) {
    const Result<nic::Doorbell> bell = word_bell(nic_, request.trigger.valid() ? request.trigger : standing->trigger);
    if (!bell.ok())
      return undo(bell.status());
    standing->bell = bell.value();
    if (nic::takes_totals(nic_.caps(), bell.value())) {
      const Result<uint64_t*> rings = stream.take_count(nic::total_of(bell.value()));
      if (!rings.ok())
        return undo(rings.status());
      standing->rings = rings.value();
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (overflow_ == nullptr && entries_ + request.entries > nic_.caps().deferred_depth)
      return undo({Code::kExhausted, "requests that start without a host would need " +
                                         std::to_string(entries_ + request.entries) +
                                         " deferred-work entries, the NIC has " +
                                         std::to_string(nic_.caps().deferred_depth) + ", and overflow is off"});
    if (own_thread_ && !thread_.joinable()) {
      Result<std::thread> thread = start_service_thread("lanyard-stand", [this] { run(); });
      if (!thread.ok())
        return undo(thread.status());
      thread_ = std::move(thread.value());
    }
    request.standing = std::move(standing);
    requests_.push_back(&request);
    set_lead();
  }
  keep_up();
  return {};
}

// The GPU counts on by itself, and nothing is handed over.
Status StandingOrders::begin_lane(Request& request, gpu::Stream& stream) {
  auto standing = std::make_shared<Standing>();
  standing->stream = &stream;
  standing->base = request.starts;
  if (request.packing != nullptr) {
    const Result<uint64_t*> moves = stream.take_count(request.moved.read());
    if (!moves.ok())
      return moves.status();
    standing->moves = moves.value();
  }
  request.standing = std::move(standing);
  return {};
}

uint64_t StandingOrders::started(const Request& request) const {
  const Standing& standing = *request.standing;
  // What counters say may lag behind what is seen in memory: whatever has completed was started.
  const uint64_t completed = request.done.valid() ? request.iterations_done() : 0;
  if (request.lane != nullptr)
    return std::max(completed, request.begun.read() - request.begun_base);
  if (!standing.has_bell)
    return completed;
  if (!request.trigger.valid())
    return std::max(completed, standing.base + nic_.read(standing.trigger).value().reached());
  // The counter counts clear-to-sends too, which come while it is read; both grow in one step of the NIC's.
  uint64_t cleared = 0, reached = 0;
  do {
    cleared = request.clearances();
    reached = nic_.read(request.trigger).value().reached();
  } while (request.clearances() != cleared);
  return std::max(completed, reached - std::min(reached, cleared));
}

Status StandingOrders::can_end(const Request& request) const {
  // Of a capture that is over nothing more comes.
  if (request.standing->capture != 0 && request.standing->capture == request.standing->stream->capturing())
    return {Code::kInvalidState, "a capture has a start of the request (" + request.describe() + ") and not its wait"};
  if (!is_complete(request))
    return {Code::kInvalidState, "the last start of the request (" + request.describe() + ") has not completed"};
  return {};
}

bool StandingOrders::has_transferred(const Request& request) const {
  // What of a lane has been enqueued touches memory of the lane's, reached or not.
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
  // Of what was let go of nobody knows any more how often it was started.
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
  {
    const std::lock_guard lock(mutex_);
    std::erase(requests_, &request);
    set_lead();
  }
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
  // A receive sends one clear-to-send more than there are starts, at most, before it has completed. But once it was let
  // go of it goes on by itself, and its clear-to-sends make due what stands for starts to come.
  request.ran_ahead = request.ran_ahead || request.clearances() > starts + 1;
  request.standing->give_counts();
  request.starts = request.waits = starts;
  request.doorbell_queue = 0;  // its bell was rung by others
  request.standing.reset();
}

void StandingOrders::set_lead() {
  entries_ = 0;
  for (const Request* request : requests_)
    entries_ += request->entries;
  // Without overflow one: what others have been given ahead nobody could take back for a request that begins later, and
  // that one may be the first to be started.
  lead_ = 1;
  if (entries_ > 0 && overflow_ != nullptr)
    lead_ = std::clamp<uint64_t>(nic_.caps().deferred_depth / 2 / entries_, 1, kMostLead);
  held_.store(entries_ * lead_, std::memory_order_relaxed);
}

// One iteration of the request; false where there is no room.
bool StandingOrders::hand_over(Request& request) {
  Standing& standing = *request.standing;
  const uint64_t iteration = standing.posted + 1;
  postings_.clear();
  append_postings(request, iteration, standing.trigger, iteration - standing.base, postings_);
  if (!nic_.post_prepared(postings_).ok()) {
    if (overflow_ == nullptr)
      return false;
    // It runs what has been triggered whether there are entries or not.
    overflowing_.clear();
    append_deferred(request, postings_.data(), overflowing_);
    overflow_->add(overflowing_);
  }
  standing.posted = iteration;
  posted_.fetch_add(postings_.size(), std::memory_order_relaxed);
  return true;
}

size_t StandingOrders::keep_up() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock())
    return 0;  // somebody is at it
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

}  // namespace lanyard::core
