#include "transport/core/endpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "transport/base/check.h"
#include "transport/core/queue.h"

namespace lanyard::core {

namespace {

bool is_matched(const Exchange& exchange) {
  return std::all_of(exchange.members.begin(), exchange.members.end(),
                     [](const Request* each) { return each->matched(); });
}

// A member that transfers something; null: none is left.
const Request* first_mover(const Exchange& exchange) {
  const auto found = std::find_if(exchange.members.begin(), exchange.members.end(),
                                  [](const Request* each) { return each->matched_peer != kNobody; });
  return found == exchange.members.end() ? nullptr : *found;
}

}  // namespace

Endpoint::Endpoint(nic::Nic& nic, uint32_t self, Options options)
    : nic_(nic),
      self_(self),
      options_(options),
      resources_(nic, options.whole_pages),
      overflow_(nic, options.overflow_thread),
      standing_(nic, options.overflow ? &overflow_ : nullptr, options.overflow_thread,
                [this](const Request& request, nic::CounterId trigger) {
                  Resources counters;
                  counters.trigger = trigger;
                  if (request.released && !has_run_all(request.queue_number))
                    enqueued_.push_back({counters, request.queue_number});
                  else
                    resources_.close(counters);
                }),
      failures_(nic, [this](uint64_t number) { return find(number); }) {}

Endpoint::~Endpoint() {
  // What was not freed lets go of memory that is about to go; what a transfer under way still names is taken care of by
  // the NIC's own end.
  standing_.stop();
  overflow_.stop();
  (void)nic_.flush();
  for (const auto& [number, request] : requests_)
    close_resources(*request);
  for (const auto& exchange : exchanges_)
    resources_.close(exchange->shared);
  for (Enqueued& each : enqueued_)
    resources_.close(each.counters);
}

void Endpoint::remove_queue(Queue& queue) {
  std::erase(queue_list_, &queue);
  close_enqueued();
}

bool Endpoint::has_run_all(uint64_t queue) {
  const auto found = std::find_if(queue_list_.begin(), queue_list_.end(),
                                  [queue](const Queue* each) { return each->number() == queue; });
  if (found == queue_list_.end())
    return true;
  // Whoever asked a stream that is being captured would end the capture.
  gpu::Stream& stream = (*found)->stream();
  return stream.capturing() == 0 && stream.is_empty();
}

void Endpoint::close_enqueued() {
  std::erase_if(enqueued_, [this](Enqueued& each) {
    if (!has_run_all(each.queue))
      return false;
    resources_.close(each.counters);
    return true;
  });
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

Status Endpoint::check_free(const Request& request) {
  if (request.state == Request::State::kMatching)
    return {Code::kInvalidState, "the request (" + request.describe() + ") is being matched"};
  if (request.needs_wait())
    return {Code::kInvalidState,
            "the wait for the last start of the request (" + request.describe() + ") was not enqueued"};
  if (request.standing != nullptr && request.standing->in_kernels)
    return {Code::kInvalidState, "the request (" + request.describe() + ") stands in a set that kernels start"};
  if (request.standing != nullptr)
    return standing_.can_end(request);
  // What was let go of is over, whatever its counters say, and when.
  if (!request.transferred() && !request.released)
    return {Code::kInvalidState, "the last start of the request (" + request.describe() + ") has not completed"};
  // The stream would touch the user's memory when that is somebody else's.
  if (!request.has_moved())
    return {Code::kInvalidState, "the stream has not come to the last start of the request (" + request.describe() +
                                     "), which it packs or unpacks for"};
  return {};
}

Status Endpoint::free_request(Request* request) {
  LANYARD_RETURN_IF_ERROR(check_free(*request));
  if (request->standing != nullptr) {
    if (request->listed != nullptr)
      request->listed->forget(*request, started(*request));
    LANYARD_RETURN_IF_ERROR(standing_.end(*request));
  }
  if (request->listed != nullptr)
    request->listed->forget(*request, started(*request));
  failures_.forget(*request);
  ended_pairs_ -= request->peer_starts != UINT64_MAX ? 1 : 0;
  close_resources(*request);
  if (request->exchange != nullptr)
    leave_exchange(*request);
  requests_.erase(request->number);
  return {};
}

Status Endpoint::open_resources(Request& request) {
  close_enqueued();
  Result<Resources> resources = resources_.open(request.transfer, options_.strategy,
                                                request.exchange != nullptr ? &request.exchange->shared : nullptr);
  if (resources.ok())
    request.hold(std::move(resources.value()));
  return resources.status();
}

void Endpoint::close_resources(Request& request) {
  // An increment may have been on its way when the failure was told and the request let go of, or be on it for starts
  // that were none: nobody gets its word again.
  if (request.released || request.ran_ahead)
    request.done = request.flag_word = request.begun = {};
  if (request.released && !request.shared && !has_run_all(request.queue_number)) {
    Resources counters;
    counters.trigger = std::exchange(request.trigger, {});
    counters.completion = std::exchange(request.completion, {});
    enqueued_.push_back({counters, request.queue_number});
  }
  resources_.close(request);
  request.plan.clear();
  if (request.lane == nullptr)
    return;
  const uint32_t nic = request.peer_lane != 0 ? request.matched_nic : request.transfer.peer_nic;
  unparted_.push_back({request.lane_number, nic, request.matched_number, request.peer_lane, request.peer_parted,
                       request.released ? request.queue_number : 0, std::exchange(request.lane, nullptr)});
  if (!request.released)
    options_.lanes->disconnect(*unparted_.back().lane);
  close_lanes();
  unmap_lanes();
}

// ---- Lanes

std::optional<gpu::LaneOffer> Endpoint::open_lane(Request& request) {
  if (options_.lanes == nullptr || request.exchange != nullptr || request.transfer.by_card)
    return std::nullopt;
  unmap_lanes();
  const Transfer& transfer = request.transfer;
  Result<gpu::Lanes::Opened> opened =
      options_.lanes->open(transfer.direction == Direction::kSend, transfer.buffer, transfer.bytes);
  if (!opened.ok())
    return std::nullopt;
  request.lane = std::move(opened.value().lane);
  request.lane_number = ++lane_numbers_;
  request.peer_lane = 0;
  request.peer_parted = false;
  request.followed = 0;
  return opened.value().offer;
}

Status Endpoint::connect_lane(Request& request, const gpu::LaneOffer& other, uint32_t peer_lane, bool ready) {
  Result<Resources> resources = resources_.open_lane(request.transfer);
  if (!resources.ok())
    return resources.status();
  const gpu::Lanes::Terms terms{.bytes = request.matched_bytes,
                                .ready = ready,
                                .begun = resources.value().begun.address,
                                .done = resources.value().done.address,
                                .gone = resources.value().gone.address,
                                .may_wait = is_idle()};
  if (Status status = options_.lanes->connect(*request.lane, other, terms); !status.ok()) {
    resources_.close(resources.value());
    return status;
  }
  resources_.close(request);
  static_cast<Resources&>(request) = std::move(resources.value());
  request.peer_lane = peer_lane;
  return {};
}

void Endpoint::drop_lane(Request& request) {
  request.lane = nullptr;
  request.peer_lane = 0;
  request.peer_parted = false;
}

void Endpoint::part_lane(uint64_t request, uint32_t lane) {
  if (Request* found = find(request); found != nullptr && found->lane != nullptr && found->lane_number == lane)
    found->peer_parted = true;
  for (Unparted& each : unparted_)
    each.peer_parted = each.peer_parted || each.number == lane;
  close_lanes();
}

void Endpoint::part_lanes(uint32_t nic) {
  for (auto& [_, request] : requests_)
    request->peer_parted =
        request->peer_parted || (request->lane != nullptr && request->matched() && request->matched_nic == nic);
  for (Unparted& each : unparted_)
    each.peer_parted = each.peer_parted || each.nic == nic;
  close_lanes();
}

std::optional<Endpoint::Parted> Endpoint::take_parted() {
  for (Unparted& each : unparted_) {
    if (each.peer_lane == 0 || (each.queue != 0 && !has_run_all(each.queue)))
      continue;
    const Parted parted{each.nic, each.peer_request, std::exchange(each.peer_lane, 0)};
    if (std::exchange(each.queue, 0) != 0)
      options_.lanes->disconnect(*each.lane);
    close_lanes();
    return parted;
  }
  return std::nullopt;
}

void Endpoint::close_lanes() {
  std::erase_if(unparted_, [](const Unparted& each) { return each.peer_parted && each.peer_lane == 0; });
}

bool Endpoint::is_idle() {
  return std::ranges::all_of(
      queue_list_, [](Queue* queue) { return queue->stream().capturing() == 0 && queue->stream().is_empty(); });
}

// Not while a stream may wait for what this process does next.
void Endpoint::unmap_lanes() {
  if (options_.lanes->may_unmap() && is_idle())
    options_.lanes->unmap();
}

void Endpoint::bind(Request& request, const PeerKeys& keys) {
  request.matched_number = keys.request;
  request.ready = keys.ready;
  request.matched_set = keys.set;
  if (request.lane != nullptr) {
    become_matched(request);
    return;
  }
  const PlanContext context = plan_context(keys.longest, request.number);
  request.plan = make_plan(request, keys, context);
  request.completions = completions_of(request, context);
  // Of an exchange with two sets it is not known yet.
  const bool undecided = request.exchange != nullptr && request.exchange->other != nullptr;
  request.finds_out = !undecided && (request.transfer.direction == Direction::kSend) == keys.ready;
  request.most_starts = most_starts(options_.strategy, keys.ready,
                                    pieces_of(request.matched_bytes, context.max_message_bytes), context.trigger_base);
  request.entries = request.plan.size();
  request.shares_trigger =
      std::any_of(request.plan.begin(), request.plan.end(), [](const PlannedOp& op) { return op.shared; });
  request.rings.assign(request.shares_trigger ? Request::kRings : 0, 0);
  become_matched(request);
}

void Endpoint::bind_to_nobody(Request& request) {
  request.matched_peer = kNobody;
  request.matched_tag = kAnyTag;  // MPI 4.0 section 3.10: the status of a receive from MPI_PROC_NULL
  request.matched_bytes = 0;
  become_matched(request);
}

PlanContext Endpoint::plan_context(uint64_t longest, uint64_t number) {
  return {.self = self_,
          .max_message_bytes = std::min(nic_.caps().max_message_bytes, longest),
          .strategy = options_.strategy,
          .trigger_base = trigger_base(nic_.caps()),
          .one = resources_.one(),
          .context = number};
}

void Endpoint::become_matched(Request& request) {
  failures_.collect();
  request.lost_before = failures_.lost();
  request.state = Request::State::kMatched;
  Exchange* exchange = request.exchange;
  if (exchange == nullptr || exchange->ended || !is_matched(*exchange))
    return;
  if (exchange->other == nullptr)
    bind_exchange(*exchange, plan_context(UINT64_MAX, 0));
  else if (is_matched(*exchange->other))
    bind_sets(*exchange, *exchange->other, plan_context(UINT64_MAX, 0));
}

// ---- Exchanges

Status Endpoint::open_sets(std::span<const std::unique_ptr<Exchange>> sets) {
  for (const auto& set : sets) {
    Result<Resources> shared = resources_.open_exchange();
    if (!shared.ok())
      return shared.status();
    set->shared = shared.value();
  }
  if (sets.size() == 1)
    return {};
  LANYARD_RETURN_IF_ERROR(resources_.count_each_other(sets[0]->shared, sets[1]->shared));
  for (size_t which : {0, 1}) {
    const Result<nic::RemoteKey> key = nic_.key(sets[1 - which]->shared.clear_to_send);
    if (!key.ok())
      return key.status();
    sets[which]->counted_done = key.value();
    sets[which]->other = sets[1 - which].get();
  }
  return {};
}

Status Endpoint::make_exchange(std::string name, std::span<Request* const> members, std::span<Request* const> second) {
  std::vector<std::unique_ptr<Exchange>> sets;
  for (const std::span<Request* const> set : {members, second})
    if (!set.empty()) {
      sets.push_back(std::make_unique<Exchange>());
      sets.back()->name = name;
      sets.back()->members.assign(set.begin(), set.end());
    }
  if (const Status status = open_sets(sets); !status.ok()) {
    for (const auto& set : sets)
      resources_.close(set->shared);
    return status;
  }
  exchange_numbers_ += 2;
  for (size_t which = 0; which < sets.size(); ++which) {
    sets[which]->number = exchange_numbers_ + which;
    for (Request* member : sets[which]->members) {
      LANYARD_CHECK(member->state == Request::State::kFresh && member->exchange == nullptr,
                    "an exchange is made of requests whose matches have not begun");
      member->exchange = sets[which].get();
    }
    exchanges_.push_back(std::move(sets[which]));
  }
  return {};
}

// Of a request that has given its own resources back.
void Endpoint::leave_exchange(Request& request) {
  Exchange& exchange = *request.exchange;
  Exchange* other = exchange.other;
  exchange.ended = true;
  exchange.released = exchange.released || request.released;
  exchange.last_queue = request.queue_number;
  exchange.last_start = request.starts;
  std::erase(exchange.members, &request);
  if (exchange.lead == &request)
    exchange.lead = nullptr;
  if (other != nullptr)
    other->ended = true;
  if (!exchange.members.empty() || (other != nullptr && !other->members.empty()))
    return;
  // A set that is complete has its done word raised, which the other's trigger may be about to count.
  for (Exchange* set : {&exchange, other})
    if (set != nullptr && set->other != nullptr && !set->released)
      set->shared.last_count = set->shared.trigger_base + set->trigger_value(set->last_start, set->other->last_start);
  close_exchange(exchange);
  if (other != nullptr)
    close_exchange(*other);
  std::erase_if(exchanges_, [&](const auto& each) { return each.get() == &exchange || each.get() == other; });
}

// As close_resources().
void Endpoint::close_exchange(Exchange& exchange) {
  Resources& shared = exchange.shared;
  if (exchange.released) {
    shared.done = {};
    if (!has_run_all(exchange.last_queue))
      enqueued_.push_back({std::exchange(shared, {}), exchange.last_queue});
  }
  resources_.close(shared);
}

// The program is told of the request that failed alone, as nothing of the others has; they cannot be started any more.
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
  // Once none of them adds anything any more to what waits.
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
  // As its flag waits for, but that no failure counts.
  const auto flag = std::find_if(send.plan.begin(), send.plan.end(),
                                 [&](const PlannedOp& planned) { return planned.op.trigger == send.written; });
  return nic_.read(send.written).value().success >= threshold_of(send, *flag, iterations);
}

Request* Endpoint::take_question() {
  while (!questions_.empty()) {
    const uint64_t number = questions_.back();
    questions_.pop_back();
    if (Request* request = find(number); request != nullptr && request->failures == 0)
      return request;
  }
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
    return;  // it is over already
  if (!failed) {
    assure(request, starts);  // it would have said else that it failed
    const bool beyond = started(request) > starts;
    if (!request.finds_out) {
      request.peer_starts = starts;
      ++ended_pairs_;
    }
    if (beyond && !is_complete(request))
      failures_.add(request, Code::kNotFound);
    return;
  }
  // Which start it was is not known. Where the sender tells the receive that it is complete, a write that has failed
  // tells that, too (plan.h).
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
  // What its last message has set going may end first.
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
    return peer + " has ended";
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
  // Its graphs and kernels may start it any number of times yet.
  constexpr uint64_t kForEver = uint64_t{1} << 46;
  uint64_t starts = request.starts;
  if (request.standing != nullptr) {
    standing_.abandon(request);
    starts += kForEver / request.completions;
    cancel(request.standing->trigger);
  }
  // Of what has no entry yet the NIC knows nothing: it would let go of the counters and regions that it names.
  overflow_.cancel(request.number);
  stop(request);
  raise_done_word(request, starts);
}

// No write that waits goes out any more, whatever the stream still rings: what it has been given already would add up
// to the clear-to-sends that are missing (plan.h).
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
  // The NIC may add to it at this moment.
  const std::atomic_ref<uint64_t> word(*resources.done.address);
  const uint64_t wanted = resources.done_base + starts;
  uint64_t now = word.load();
  while (now < wanted && !word.compare_exchange_weak(now, wanted)) {
  }
}

bool Endpoint::was_released(uint64_t number) {
  const Request* request = find(number);
  return request != nullptr ? request->released : failures_.was_told_and_freed(number);
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

}  // namespace lanyard::core
