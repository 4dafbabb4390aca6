// Builds a World: processes with the resources that their programs need, and matched requests.
#include <algorithm>
#include <array>
#include <numeric>

#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

constexpr size_t kShort = 16;        // bytes; most messages are no longer
constexpr uint64_t kPlenty = 1'000;  // steps per operation; no sane run needs so many

// True if the first thing that the program does with the request is to match it.
bool is_matched_by(const HostProgram& program, RequestName request) {
  for (const Action& action : program.actions())
    if (std::find(action.requests.begin(), action.requests.end(), request) != action.requests.end())
      return action.kind == Action::Kind::kMatch;
  return false;
}

// The resources that the requests of a rank need from its NIC.
struct Needs {
  uint32_t counters = 0;
  uint32_t regions = 0;
  uint32_t queues = 1;
  uint64_t entries = 0;    // for all starts together
  uint64_t in_flight = 0;  // operations of one start of each request
};

uint64_t pieces_of(const Scenario::Message& message, const WorldOptions& options) {
  return core::pieces_of(message.options.bytes, options.longest(message.from, message.to));
}

// The maximum number of operations of one start.
uint64_t operations_of(const Scenario& exchange, RequestName request, const WorldOptions& options) {
  return 2 + (request.receive() ? 0 : pieces_of(exchange.messages()[request.message()], options));
}

std::vector<Needs> needs_of(const Scenario& exchange, const WorldOptions& options) {
  std::vector<Needs> needs(exchange.ranks());
  const bool flags = core::raises_flags(options.strategy);
  const auto have = [&](RequestName request) {
    Needs& mine = needs[exchange.rank_of(request)];
    const bool receive = request.receive();
    // A receive needs a second counter if it is merged alone, or if its sender is merged (P9),
    // which may be another message's. A merged send with flags counts its own writes (P8).
    const bool more = receive ? exchange.merges() : flags && exchange.merged(request) != 0;
    mine.counters += (receive ? 1 : 2) + (more ? 1 : 0);
    // With two sets, one region more for the word that the other set's trigger counts.
    mine.regions += (receive && !flags ? 1 : 2) + (exchange.set(request) != 0 ? 1 : 0);
  };
  for (uint32_t index = 0; index < 2 * exchange.messages().size(); ++index) {
    have({index});
    needs[exchange.rank_of({index})].in_flight += operations_of(exchange, {index}, options);
  }
  for (uint32_t rank = 0; rank < exchange.ranks(); ++rank) {
    Needs& mine = needs[rank];
    mine.queues = exchange.program(rank).queues();
    mine.counters += mine.queues;
    std::vector<uint64_t> captured(mine.queues);  // by queue: entries of one launch
    uint64_t* entries = &mine.entries;
    for (const Action& action : exchange.program(rank).actions()) {
      const auto requests = static_cast<uint32_t>(action.requests.size());
      uint64_t started = 0;
      for (const RequestName request : action.requests)
        started += operations_of(exchange, request, options);
      const bool is_captured = entries != &mine.entries;
      switch (action.kind) {
        case Action::Kind::kCapture: *(entries = &captured[action.queue]) = 0; break;
        case Action::Kind::kCaptured:  // captured requests get entries ahead, even without a launch
          entries = &mine.entries;
          [[fallthrough]];
        case Action::Kind::kLaunch: mine.entries += captured[action.queue]; break;
        case Action::Kind::kStart:
          mine.counters += is_captured ? requests : 0;  // a trigger for each
          [[fallthrough]];
        case Action::Kind::kKernelStart: *entries += started; break;
        case Action::Kind::kStand: mine.counters += requests; break;
        case Action::Kind::kMatch:  // freed requests may close their resources late
          std::for_each(action.requests.begin(), action.requests.end(), have);
          break;
        default: break;
      }
    }
    if (options.mail_by_card) {
      mine.counters += CardMail::kCounters;
      mine.regions += CardMail::regions_for(exchange.ranks());
      mine.in_flight += uint64_t{CardMail::kInFlight} * exchange.ranks();
    }
    // Slabs of 64, 128, 256 ... words, for at most two words per request and one more.
    mine.regions += 8;
  }
  return needs;
}

// True if programs fill the message and read it, so that its content is known.
bool is_checked(const Scenario& exchange, uint32_t message) {
  const auto has = [&](uint32_t rank, Action::Kind kind) {
    const auto& actions = exchange.program(rank).actions();
    return std::any_of(actions.begin(), actions.end(),
                       [&](const Action& action) { return action.kind == kind && action.message == message; });
  };
  return has(exchange.messages()[message].from, Action::Kind::kPack) &&
         has(exchange.messages()[message].to, Action::Kind::kUnpack);
}

// Null if the buffer has no gaps. The packed memory is overwritten when freed, to find late uses.
std::shared_ptr<gpu::Packing> packing_of(Side& side) {
  if (side.layout == nullptr)
    return nullptr;
  auto packing = std::make_shared<gpu::Packing>();
  const uint64_t bytes = side.layout->bytes();
  packing->layout = side.layout;
  packing->memory = side.buffer.data();
  packing->packed = {new std::byte[bytes], [bytes](std::byte* packed) {
                       std::fill_n(packed, bytes, kFreed);
                       delete[] packed;
                     }};
  std::fill_n(packing->packed.get(), bytes, kFreed);
  return packing;
}

}  // namespace

World::World(const Scenario& exchange, const WorldOptions& options)
    : scenario_(exchange), implied_(find_implied(exchange)), options_(options) {
  const Arena::Scope scope(arena_);
  state_ = new State;
  build();
  take_all([&] { match(); });
  stillborn_ = report_;
  state_->trace_hash = 0;
  for (const auto& process : state_->processes) {
    if (process->card_mail != nullptr)
      process->card_mail->begin();
    nic_changed(*process);
    streams_changed(*process);
  }
  arena_.save(beginning_);
}

// The State is not destroyed: its memory is the arena's.
World::~World() = default;

void World::build() {
  const std::vector<Needs> needs = needs_of(scenario_, options_);
  uint32_t queues = 1, counters = 0;
  uint64_t operations = 0;
  for (const Needs& each : needs) {
    counters = std::max(counters, each.counters);
    queues = std::max(queues, each.queues);
    operations += each.entries;
  }
  if (options_.max_steps == 0)
    options_.max_steps = kPlenty * (operations + 1);
  // Peers are told of failures. With strategy B receivers also ask their senders about them (P3).
  has_mail_ = options_.mail_by_card || options_.failures || options_.kills || core::raises_flags(options_.strategy) ||
              scenario_.has({Action::Kind::kMatch, Action::Kind::kFree, Action::Kind::kWithdraw});
  programs_stand_ = scenario_.stands();
  LANYARD_CHECK(!options_.driver || (!options_.blocking_post && options_.bells == Bells::kCalls && !programs_stand_),
                "the driver cannot do that");
  LANYARD_CHECK(!options_.mail_by_card ||
                    (!options_.driver && !options_.scarce && options_.longest(0, 1) >= CardMail::kLeastMessageBytes),
                "the control channel cannot do that");
  // In the order of StepKind.
  const uint32_t agents[] = {
      1, 1, 1, queues, counters, counters, options_.driver, programs_stand_, options_.kills, has_mail_};
  static_assert(std::size(agents) == std::tuple_size_v<decltype(first_agent_)>);
  std::exclusive_scan(std::begin(agents), std::end(agents), first_agent_.begin(), 0u);
  stride_ = std::accumulate(std::begin(agents), std::end(agents), 0u);
  first_transit_ = stride_ * scenario_.ranks();

  uint32_t transits = 0;
  for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank) {
    const Needs& mine = needs[rank];
    ModelLimits limits;
    limits.deferred_depth =
        options_.depth > 0 ? options_.depth : static_cast<uint32_t>(std::clamp<uint64_t>(mine.entries, 1, 504));
    limits.max_counters = std::max(1u, mine.counters);
    limits.max_regions = mine.regions;
    const auto enough = static_cast<uint32_t>(2 * mine.in_flight + 2);
    limits.max_in_flight = options_.in_flight > 0 ? options_.in_flight : enough;
    limits.max_held = 1;
    // If a peer dies, all operations in flight to it fail at once, and each must have a record.
    limits.kept_failures = options_.failures || options_.kills ? std::max(64u, enough) : 4;
    limits.max_message_bytes = options_.longest(rank);
    transits += enough;  // an operation may land after its ack
    Process& process = *state_->processes.emplace_back(std::make_unique<Process>(*this, rank, limits));
    for (uint32_t queue = 0; queue < mine.queues; ++queue) {
      Process::QueuedStream& queued = *process.streams.emplace_back(std::make_unique<Process::QueuedStream>());
      queued.stream.reserve(std::min<size_t>(2 * scenario_.program(rank).actions().size(), 16));
      queued.queue = std::move(core::Queue::create(process.endpoint, queued.stream).value());
    }
  }
  if (options_.driver)
    introduce_drivers();
  state_->place.assign(first_transit_ + transits, kNone);
  // Allocates what every run needs before the beginning is saved.
  state_->enabled.reserve(8 * scenario_.ranks());
  for (uint32_t place = 0; place < 2 * scenario_.ranks(); ++place) {
    state_->transits.emplace_back().bytes.reserve(kShort);
    state_->free_transits.push_back(place);
  }
  state_->promises.assign(scenario_.messages().size(), 0);
}

void World::match() {
  if (options_.mail_by_card)
    connect_mail();
  const auto& messages = scenario_.messages();
  state_->sides.resize(2 * messages.size());
  for (uint32_t index = 0; index < state_->sides.size(); ++index) {
    const Scenario::Message& message = messages[index / 2];
    const RequestName request{index};
    Side& side = state_->sides[index];
    side.rank = scenario_.rank_of(request);
    const uint64_t bytes =
        message.options.bytes + (request.receive() ? message.options.room - message.options.lacking : 0);
    const bool gaps = request.receive() ? message.options.receive_gaps : message.options.send_gaps;
    if (gaps && bytes > 0)
      side.layout = layout_with_gaps(bytes);
    side.buffer.resize(side.layout == nullptr ? bytes : length_with_gaps(bytes), kUntouched);
    side.checked = is_checked(scenario_, index / 2);
    side.pieces = message.options.nobody ? 0 : pieces_of(message, options_);
    if (message.options.lacking > 0 || is_matched_by(scenario_.program(message.from), {index & ~1u}) ||
        is_matched_by(scenario_.program(message.to), {index | 1u}))
      continue;
    new_request(index);
  }
  for (const auto& process : state_->processes) {
    std::vector<RequestName> mine;
    for (const uint32_t request : process->requests)
      mine.push_back({request});
    merge(*process, mine);
  }
  for (uint32_t index = 0; index < state_->sides.size(); ++index) {
    const Scenario::Message& message = messages[index / 2];
    if (state_->sides[index].core == nullptr)
      continue;
    begin_match(index);
    if (options_.mail_by_card)
      deliver_mail();
    // The offer goes to the receive's rank, the answer comes back. No other rank has mail.
    for (const uint32_t rank : {message.to, message.from}) {
      Process& process = *state_->processes[rank];
      while (!process.mail.under_way().empty()) {
        process.mail.arrive(0);
        process.nic.have_plenty(true);  // as in take_mail()
        (void)process.matcher.progress();
        process.nic.have_plenty(false);
      }
    }
  }
  for (uint32_t index = 0; index < state_->sides.size(); ++index) {
    if (state_->sides[index].core == nullptr)
      continue;
    if (!state_->sides[index].core->matched())
      return find(Finding::kOrder, "matching", RequestName{index}, "is not matched");
    grow_old(state_->sides[index], index);
  }
}

// Makes a fresh request for this side.
void World::new_request(uint32_t index) {
  const Scenario::Message& message = scenario_.messages()[index / 2];
  const MessageOptions& options = message.options;
  const bool receive = RequestName{index}.receive();
  const uint32_t peer = receive ? message.from : message.to;
  Side& side = state_->sides[index];
  Process& process = *state_->processes[side.rank];
  clear_around(side, options.nobody ? 0 : options.bytes);
  const std::shared_ptr<gpu::Packing> packing = packing_of(side);
  side.core = process.endpoint.new_request({.direction = receive ? core::Direction::kReceive : core::Direction::kSend,
                                            .ready = !receive && options.ready,
                                            .buffer = packing == nullptr ? side.buffer.data() : packing->packed.get(),
                                            .bytes = packing == nullptr ? side.buffer.size() : packing->layout->bytes(),
                                            .communicator = kCommunicator,
                                            .rank = static_cast<int>(side.rank),
                                            .peer = options.nobody                  ? core::kNobody
                                                    : receive && options.any_source ? core::kAnySource
                                                                                    : static_cast<int>(peer),
                                            .peer_nic = options.nobody || (receive && options.any_source) ? 0 : peer,
                                            .tag = receive && options.any_tag ? core::kAnyTag : options.tag,
                                            .packing = packing});
  side.number = side.core->number;
  side.released = false;
  side.reported = 0;
  process.requests.push_back(index);
  process.done_words.emplace_back();
  process.counted_words.emplace_back();
}

void World::begin_match(uint32_t index) {
  const Scenario::Message& message = scenario_.messages()[index / 2];
  const uint32_t peer = RequestName{index}.receive() ? message.from : message.to;
  Side& side = state_->sides[index];
  Process& process = *state_->processes[side.rank];
  const Status status = insist(process, [&] { return process.matcher.begin(*side.core); });
  process.done_words[side.number - 1] = side.core->done;
  if (side.core->exchange != nullptr)
    process.counted_words[side.number - 1] = side.core->exchange->counted_done;
  if (!status.ok() && !((is_killed(peer) || process.cut_off[peer]) && process.has_lost(peer)))
    return find(Finding::kOrder, "matching", RequestName{index}, "is not matched: " + status.message());
}

// Sets all counts of the request as if options_.age iterations had completed.
void World::grow_old(Side& side, uint32_t index) {
  const uint64_t age = options_.age;
  Process& process = *state_->processes[side.rank];
  core::Request& core = *side.core;
  const auto grow = [age](const core::WordPool::Word& word, bool grows) {
    if (grows && word.valid())
      *word.address += age;
  };
  const auto count = [&](nic::CounterId counter, uint64_t value) {
    if (!counter.valid() || value == 0)
      return;
    const Status status = process.card().add(counter, value);
    LANYARD_CHECK(status.ok(), status.message().c_str());
    if (process.driver != nullptr)
      process.driver->fabric.cause(counter, Code::kOk, value);
  };
  const core::Exchange* exchange = core.exchange;
  const bool first = exchange == nullptr || exchange->lead == &core;  // once for shared counters
  core.starts = core.waits = side.starts = side.waits = age;
  grow(core.done, first);
  grow(core.moved, true);
  grow(core.flag_word, true);
  grow(core.clear_to_send_word, core.clearance != core::Clearance::kImplied);
  if (first) {
    count(core.completion, core.completions * age);
    count(core.trigger, exchange == nullptr ? core.trigger_step() * age : exchange->trigger_value(age, age));
  }
  count(core.written, side.pieces * age);
  state_->promises[index / 2] = age;
  side.filled = side.started = side.waited = side.moved = age;
  side.clear_fired = side.clear_counted = side.done_fired = side.done_landed = age;
  side.flag_fired = side.flag_counted = side.flag_acked = age;
  side.data_fired = side.data_read = side.data_landed = side.data_counted = side.data_acked = side.pieces * age;
}

}  // namespace lanyard::nicsim
