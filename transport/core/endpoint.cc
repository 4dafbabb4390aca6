#include "transport/core/endpoint.h"

#include <algorithm>
#include <utility>

#include "transport/base/check.h"
#include "transport/core/queue.h"

namespace lanyard::core {

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
  // Close what was not freed, while its memory exists. What is still in flight ends with the NIC.
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
  const auto found = std::ranges::find(queue_list_, queue, &Queue::number);
  if (found == queue_list_.end())
    return true;
  // Do not ask a stream that is being captured: that would end the capture.
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
  const auto misuse = [&](const char* before, const char* what) {
    return Status(Code::kInvalidState, before + ("the request (" + request.describe() + ")") + what);
  };
  if (request.state == Request::State::kMatching)
    return misuse("", " is being matched");
  if (request.needs_wait())
    return misuse("the wait for the last start of ", " was not enqueued");
  if (request.standing != nullptr && request.standing->in_kernels)
    return misuse("", " stands in a set that kernels start");
  if (request.standing != nullptr)
    return standing_.can_end(request);
  // A released request need not complete.
  if (!request.transferred() && !request.released)
    return misuse("the last start of ", " has not completed");
  // The stream may still touch the user's memory.
  if (!request.has_moved())
    return misuse("the stream has not come to the last start of ", ", which it packs or unpacks for");
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
  const Resources* shared = request.exchange != nullptr ? &request.exchange->shared : nullptr;
  LANYARD_ASSIGN_OR_RETURN(static_cast<Resources&>(request),
                           resources_.open(request.transfer, options_.strategy, shared));
  return {};
}

void Endpoint::close_resources(Request& request) {
  // The NIC may still increment these words: never reuse them.
  if (request.released || request.ran_ahead)
    request.done = request.flag_word = request.begun = {};
  if (request.released && !request.shared && !has_run_all(request.queue_number)) {
    Resources counters;
    counters.trigger = std::exchange(request.trigger, {});
    counters.completion = std::exchange(request.completion, {});
    enqueued_.push_back({counters, request.queue_number});
  }
  resources_.close(request);
  if (request.lane == nullptr)
    return;
  const uint32_t nic = request.peer_lane != 0 ? request.matched_nic : request.transfer.peer_nic;
  unparted_.push_back({.peer = {nic, request.matched_number, request.peer_lane},
                       .number = request.lane_number,
                       .peer_parted = request.peer_parted,
                       .queue = request.released ? request.queue_number : 0,
                       .lane = std::exchange(request.lane, nullptr)});
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
  LANYARD_ASSIGN_OR_RETURN(Resources resources, resources_.open_lane(request.transfer));
  const gpu::Lanes::Terms terms{.bytes = request.matched_bytes,
                                .ready = ready,
                                .begun = resources.begun.address,
                                .done = resources.done.address,
                                .gone = resources.gone.address,
                                .may_wait = is_idle()};
  if (Status status = options_.lanes->connect(*request.lane, other, terms); !status.ok()) {
    resources_.close(resources);
    return status;
  }
  resources_.close(request);
  static_cast<Resources&>(request) = std::move(resources);
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
    each.peer_parted = each.peer_parted || each.peer.nic == nic;
  close_lanes();
}

std::optional<Endpoint::Parted> Endpoint::take_parted() {
  for (Unparted& each : unparted_) {
    if (each.peer.peer_lane == 0 || (each.queue != 0 && !has_run_all(each.queue)))
      continue;
    const Parted parted = each.peer;
    each.peer.peer_lane = 0;
    if (std::exchange(each.queue, 0) != 0)
      options_.lanes->disconnect(*each.lane);
    close_lanes();
    return parted;
  }
  return std::nullopt;
}

void Endpoint::close_lanes() {
  std::erase_if(unparted_, [](const Unparted& each) { return each.peer_parted && each.peer.peer_lane == 0; });
}

bool Endpoint::is_idle() {
  return std::ranges::all_of(
      queue_list_, [](Queue* queue) { return queue->stream().capturing() == 0 && queue->stream().is_empty(); });
}

// Unmapping may wait for devices. So no stream may wait for what this process does next.
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
  // bind_sets() sets finds_out for an exchange with two sets.
  const bool undecided = request.exchange != nullptr && request.exchange->other != nullptr;
  request.finds_out = !undecided && (request.transfer.direction == Direction::kSend) == keys.ready;
  request.most_starts = most_starts(options_.strategy, keys.ready,
                                    pieces_of(request.matched_bytes, context.max_message_bytes), context.trigger_base);
  request.bell.value = request.trigger.valid() ? 1 : 0;
  request.shares_trigger = std::ranges::any_of(request.plan, [](const Post& post) { return !post.trigger.valid(); });
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
  if (exchange == nullptr || exchange->ended || exchange->unmatched() != nullptr)
    return;
  if (exchange->other == nullptr)
    bind_exchange(*exchange, plan_context(UINT64_MAX, 0));
  else if (exchange->other->unmatched() == nullptr)
    bind_sets(*exchange, *exchange->other, plan_context(UINT64_MAX, 0));
}

// ---- Exchanges

Status Endpoint::open_sets(std::span<const std::unique_ptr<Exchange>> sets) {
  for (const auto& set : sets) {
    LANYARD_ASSIGN_OR_RETURN(set->shared, resources_.open_exchange());
  }
  if (sets.size() == 1)
    return {};
  LANYARD_RETURN_IF_ERROR(resources_.count_each_other(sets[0]->shared, sets[1]->shared));
  for (size_t which : {0, 1}) {
    LANYARD_ASSIGN_OR_RETURN(sets[which]->counted_done, nic_.key(sets[1 - which]->shared.clear_to_send));
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

// Requires: the request's own resources are closed.
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
  // Keep each trigger open until it has counted all increments of the other set's done word.
  for (Exchange* set : {&exchange, other})
    if (set != nullptr && set->other != nullptr && !set->released)
      set->shared.last_count = set->shared.trigger_base + set->trigger_value(set->last_start, set->other->last_start);
  close_exchange(exchange);
  if (other != nullptr)
    close_exchange(*other);
  std::erase_if(exchanges_, [&](const auto& each) { return each.get() == &exchange || each.get() == other; });
}

// Keeps released counters and words as close_resources() does.
void Endpoint::close_exchange(Exchange& exchange) {
  Resources& shared = exchange.shared;
  if (exchange.released) {
    shared.done = {};
    if (!has_run_all(exchange.last_queue))
      enqueued_.push_back({std::exchange(shared, {}), exchange.last_queue});
  }
  resources_.close(shared);
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
