#include "nicsim/deterministic/world.h"

#include <algorithm>

#include "nicsim/deterministic/oracles/ending.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

// Address space of a world: a process has enough for 256 usual ones at a time.
constexpr size_t kUsual = size_t{1} << 30, kLarge = size_t{1} << 32;
constexpr size_t kMany = 1'000;      // messages, of a large one
constexpr size_t kShort = 16;        // bytes of a message that most workloads have
constexpr uint64_t kPlenty = 1'000;  // steps an operation that no sane run needs

bool matches(const HostProgram& program) {
  return std::any_of(program.actions().begin(), program.actions().end(),
                     [](const Action& action) { return action.kind == Action::Kind::kMatch; });
}

// Whether something else than its host starts requests of it.
bool has_standing(const HostProgram& program) {
  return std::any_of(program.actions().begin(), program.actions().end(), [](const Action& action) {
    return action.kind == Action::Kind::kCapture || action.kind == Action::Kind::kStand;
  });
}

// Whether the program matches the request before it does anything else with it.
bool is_matched_by(const HostProgram& program, RequestName request) {
  for (const Action& action : program.actions())
    if (std::find(action.requests.begin(), action.requests.end(), request) != action.requests.end())
      return action.kind == Action::Kind::kMatch;
  return false;
}

// What the requests of a rank need of its NIC.
struct Needs {
  uint32_t counters = 0;
  uint32_t regions = 0;
  uint32_t queues = 1;
  uint64_t entries = 0;    // of all starts together
  uint64_t in_flight = 0;  // operations of one start of each request
};

std::vector<Needs> needs_of(const Exchange& exchange, const WorldOptions& options) {
  std::vector<Needs> needs(exchange.ranks());
  for (const Exchange::Message& message : exchange.messages()) {
    Needs& from = needs[message.from];
    Needs& to = needs[message.to];
    from.counters += 2;
    from.regions += 2;
    to.counters += 1;
    to.regions += 1;
    from.in_flight += core::pieces_of(message.options.bytes, options.max_message_bytes) + 2;
    to.in_flight += 2;
  }
  for (uint32_t rank = 0; rank < exchange.ranks(); ++rank) {
    Needs& mine = needs[rank];
    mine.queues = exchange.program(rank).queues();
    mine.counters += mine.queues;
    std::vector<uint64_t> captured(mine.queues);  // entries of a launch
    uint64_t* entries = &mine.entries;
    for (const Action& action : exchange.program(rank).actions()) {
      if (action.kind == Action::Kind::kCapture)
        *(entries = &captured[action.queue]) = 0;
      if (action.kind == Action::Kind::kCaptured)
        entries = &mine.entries;
      if (action.kind == Action::Kind::kLaunch)
        mine.entries += captured[action.queue];
      const bool stand = action.kind == Action::Kind::kStand;
      if (stand || (entries != &mine.entries && action.kind == Action::Kind::kStart))
        mine.counters += static_cast<uint32_t>(action.requests.size());  // triggers of their own
      if (action.kind != Action::Kind::kStart && action.kind != Action::Kind::kKernelStart)
        continue;
      for (const RequestName request : action.requests)
        *entries += request.receive() ? 2
                                      : 2 + core::pieces_of(exchange.messages()[request.message()].options.bytes,
                                                            options.max_message_bytes);
    }
    if (matches(exchange.program(rank)))  // what was freed may be closed late
      for (uint32_t* number : {&mine.counters, &mine.regions})
        *number *= 2;
    // Slabs of words: 64, 128, 256 ... of them, two words a request at most and one more.
    mine.regions += 8;
  }
  return needs;
}

// Whether the program fills the message and reads it, so that its content is known.
bool is_checked(const Exchange& exchange, uint32_t message) {
  const auto has = [&](uint32_t rank, Action::Kind kind) {
    const auto& actions = exchange.program(rank).actions();
    return std::any_of(actions.begin(), actions.end(),
                       [&](const Action& action) { return action.kind == kind && action.message == message; });
  };
  return has(exchange.messages()[message].from, Action::Kind::kPack) &&
         has(exchange.messages()[message].to, Action::Kind::kUnpack);
}

}  // namespace

const char* role_name(Transit::Role role) {
  switch (role) {
    case Transit::Role::kData: return "write";
    case Transit::Role::kClear: return "clear-to-send";
    case Transit::Role::kDone: return "done word";
    case Transit::Role::kFlag: return "flag";
  }
  return "";
}

const char* step_name(StepKind kind) {
  switch (kind) {
    case StepKind::kHost: return "host";
    case StepKind::kPost: return "post";
    case StepKind::kOverflow: return "overflow";
    case StepKind::kStream: return "stream";
    case StepKind::kRing: return "ring";
    case StepKind::kFire: return "fire";
    case StepKind::kRead: return "read";
    case StepKind::kLand: return "land";
    case StepKind::kCount: return "count";
    case StepKind::kAck: return "ack";
    case StepKind::kCopy: return "copy";
    case StepKind::kMail: return "mail";
    case StepKind::kLoss: return "loss";
    case StepKind::kKeepUp: return "keep up";
    case StepKind::kDrive: return "drive";
  }
  return "";
}

// ---- Building

World::World(const Exchange& exchange, const WorldOptions& options)
    : exchange_(exchange), options_(options), arena_(exchange.messages().size() > kMany ? kLarge : kUsual) {
  const Arena::Scope scope(arena_);
  state_ = new State;
  build();
  match();
  for (const auto& process : state_->processes) {
    nic_changed(*process);
    streams_changed(*process);
  }
  if (options_.timed)
    state_->clock.next([this](uint32_t each) { return state_->place[each] != kNone; });
  arena_.save(beginning_);
}

// What is in the arena goes with it, unasked.
World::~World() = default;

void World::build() {
  const std::vector<Needs> needs = needs_of(exchange_, options_);
  uint32_t queues = 1;
  uint64_t operations = 0;
  for (const Needs& each : needs) {
    counters_ = std::max(counters_, each.counters);
    queues = std::max(queues, each.queues);
    operations += each.entries;
  }
  if (options_.max_steps == 0)
    options_.max_steps = kPlenty * (operations + 1);
  first_ring_ = kFirstStreamAgent + queues;
  stride_ = first_ring_ + (options_.strategy == core::Strategy::kWriteBack ? 3 : 2) * counters_;
  for (uint32_t rank = 0; rank < exchange_.ranks(); ++rank)
    programs_match_ = programs_match_ || matches(exchange_.program(rank));
  for (uint32_t rank = 0; rank < exchange_.ranks(); ++rank)
    programs_stand_ = programs_stand_ || has_standing(exchange_.program(rank));
  LANYARD_CHECK(!options_.cxi_driver || (options_.strategy != core::Strategy::kWriteBack && !options_.blocking_post &&
                                         options_.bells == Bells::kCalls && !programs_stand_),
                "the driver cannot do that");
  stride_ +=
      (options_.cxi_driver ? 1 : 0) + (programs_stand_ ? 1 : 0) + (programs_match_ ? 1 : 0) + (options_.kills ? 1 : 0);
  first_transit_ = stride_ * exchange_.ranks();

  uint32_t transits = 0;
  for (uint32_t rank = 0; rank < exchange_.ranks(); ++rank) {
    const Needs& mine = needs[rank];
    ModelLimits limits;
    limits.deferred_depth =
        options_.depth > 0 ? options_.depth : static_cast<uint32_t>(std::clamp<uint64_t>(mine.entries, 1, 504));
    limits.max_counters = std::max(1u, mine.counters);
    limits.max_regions = mine.regions;
    limits.max_in_flight = static_cast<uint32_t>(2 * mine.in_flight + 2);
    limits.max_held = 1;
    limits.kept_failures = options_.failures || options_.kills ? 64 : 4;
    limits.max_message_bytes = options_.max_message_bytes;
    transits += limits.max_in_flight;
    state_->processes.push_back(std::make_unique<Process>(*this, exchange_.program(rank), rank, exchange_.ranks(),
                                                          limits,
                                                          core::Endpoint::Options{.overflow = options_.overflow,
                                                                                  .overflow_thread = false,
                                                                                  .whole_pages = false,
                                                                                  .strategy = options_.strategy}));
    Process& process = *state_->processes.back();
    for (uint32_t queue = 0; queue < mine.queues; ++queue) {
      process.lanes.push_back(std::make_unique<Process::Lane>());
      Process::Lane& lane = *process.lanes.back();
      lane.stream.reserve(std::min<size_t>(2 * exchange_.program(rank).actions().size(), 16));
      lane.queue = std::move(core::Queue::create(process.endpoint, lane.stream).value());
    }
  }
  if (options_.cxi_driver)
    introduce_drivers();
  state_->place.assign(first_transit_ + transits, kNone);
  if (options_.timed)
    state_->clock.resize(state_->place.size());
  // What every run needs is allocated once, before the beginning is saved.
  state_->enabled.reserve(8 * exchange_.ranks());
  for (uint32_t place = 0; place < 2 * exchange_.ranks(); ++place) {
    Transit& transit = state_->transits.emplace_back();
    transit.bytes.reserve(kShort);
    state_->free_transits.push_back(place);
  }
  state_->promises.assign(exchange_.messages().size(), 0);
}

void World::match() {
  const auto& messages = exchange_.messages();
  state_->sides.resize(2 * messages.size());
  for (uint32_t index = 0; index < state_->sides.size(); ++index) {
    const Exchange::Message& message = messages[index / 2];
    const RequestName request{index};
    Side& side = state_->sides[index];
    side.rank = exchange_.rank_of(request);
    side.buffer.resize(message.options.bytes + (request.receive() ? message.options.room : 0), kUntouched);
    side.checked = is_checked(exchange_, index / 2);
    side.pieces = core::pieces_of(message.options.bytes, options_.max_message_bytes);
    if (is_matched_by(exchange_.program(message.from), {index & ~1u}) ||
        is_matched_by(exchange_.program(message.to), {index | 1u}))
      continue;
    new_request(index);
    // An offer goes to the receive's rank, the answer back: nobody else has mail.
    for (const uint32_t rank : {message.to, message.from}) {
      Process& process = *state_->processes[rank];
      while (!process.mail.under_way().empty()) {
        process.mail.arrive(0);
        (void)process.matcher.progress();
      }
    }
  }
  for (uint32_t index = 0; index < state_->sides.size(); ++index) {
    if (state_->sides[index].core == nullptr)
      continue;
    LANYARD_CHECK(state_->sides[index].core->matched(), "a valid exchange matches");
    grow_old(state_->sides[index], index);
  }
}

// A fresh request for this side; its match begins.
void World::new_request(uint32_t index) {
  const Exchange::Message& message = exchange_.messages()[index / 2];
  const MessageOptions& options = message.options;
  const bool receive = RequestName{index}.receive();
  const uint32_t peer = receive ? message.from : message.to;
  Side& side = state_->sides[index];
  Process& process = *state_->processes[side.rank];
  std::fill(side.buffer.begin() + options.bytes, side.buffer.end(), kUntouched);
  side.core =
      process.endpoint.new_request({.direction = receive ? core::Direction::kReceive : core::Direction::kSend,
                                    .ready = !receive && options.ready,
                                    .buffer = side.buffer.data(),
                                    .bytes = side.buffer.size(),
                                    .communicator = kCommunicator,
                                    .rank = static_cast<int>(side.rank),
                                    .peer = receive && options.any_source ? core::kAnySource : static_cast<int>(peer),
                                    .peer_nic = receive && options.any_source ? 0 : peer,
                                    .tag = receive && options.any_tag ? core::kAnyTag : options.tag});
  side.number = side.core->number;
  side.released = false;
  process.requests.push_back(index);
  const Status status = insist(process, [&] { return process.matcher.begin(*side.core); });
  process.done_words.push_back(side.core->done);
  if (!status.ok() && !process.nic.is_lost(peer))
    return find(Finding::kOrder, "matching",
                "the " + exchange_.describe({index}) + " is not matched: " + status.message());
  for (const nic::CounterId counter : {side.core->trigger, side.core->completion})
    if (counter.valid())
      process.shadow.opened(counter.value, process.nic.model().read(counter).value());
}

// Everybody's books on the request as if options_.age iterations had gone by.
void World::grow_old(Side& side, uint32_t index) {
  const uint64_t age = options_.age;
  Process& process = *state_->processes[side.rank];
  core::Request& core = *side.core;
  const auto count = [&](nic::CounterId counter, uint64_t value) {
    const Status status = process.card().add(counter, value);
    LANYARD_CHECK(status.ok(), status.message().c_str());
    if (process.driver == nullptr)  // else the card has been told
      process.shadow.succeeded(counter.value, value);
  };
  core.starts = core.waits = side.starts = side.waits = age;
  if (!core.written_back)
    *core.done.address += age;
  if (core.completion.valid())
    count(core.completion, core.completions * age);
  if (core.written_back)
    process.nic.model().copy_out(core.completion);
  if (core.trigger.valid()) {
    count(core.trigger, 2 * age);
    *core.clear_to_send_word.address += age;
  }
  state_->promises[index / 2] = age;
  side.filled = side.started = side.waited = age;
  side.clear_fired = side.clear_landed = side.clear_counted = side.done_fired = side.done_landed = age;
  side.data_fired = side.data_read = side.data_landed = side.data_counted = side.data_acked = side.pieces * age;
}

void World::restore(const Arena::Image& image) {
  arena_.restore(image);
  report_ = {};
}

// ---- Agents

uint32_t World::agents() const { return static_cast<uint32_t>(state_->place.size()); }

void World::enable(uint32_t agent) {
  uint32_t& place = state_->place[agent];
  if (place != kNone)
    return;
  place = static_cast<uint32_t>(state_->enabled.size());
  state_->enabled.push_back(agent);
  if (options_.timed)
    start_clock(agent);
}

void World::disable(uint32_t agent) {
  const uint32_t place = std::exchange(state_->place[agent], kNone);
  if (place == kNone)
    return;
  if (options_.timed)
    state_->clock.stop(agent, state_->steps);
  const uint32_t last = state_->enabled.back();
  state_->enabled.pop_back();
  if (last == agent)
    return;
  state_->enabled[place] = last;
  state_->place[last] = place;
}

// The agent's next step takes its time from now on.
void World::start_clock(uint32_t agent) {
  constexpr uint32_t kSpeeds = 4;
  const Timing& timing = options_.timing;
  const auto usual = [&]() -> Picoseconds {
    switch (kind_of(agent)) {
      case StepKind::kHost: return timing.host;
      case StepKind::kPost: return timing.post;
      case StepKind::kKeepUp:
      case StepKind::kDrive:
      case StepKind::kOverflow: return timing.overflow;
      case StepKind::kStream: return timing.stream;
      case StepKind::kRing: return timing.ring;
      case StepKind::kFire: return timing.fire;
      case StepKind::kRead: return timing.read;
      case StepKind::kLand: return timing.land + timing.per_byte * transit_of(agent)->packet.bytes;
      case StepKind::kCount: return timing.count;
      case StepKind::kAck: return timing.ack;
      case StepKind::kCopy: return timing.copy;
      case StepKind::kMail:
      case StepKind::kLoss: return timing.land;
    }
    return 0;
  };
  const uint32_t slowness = options_.slow ? draw(kSpeeds, ChoiceKind::kSlow) : 0;
  state_->clock.start(agent, usual() << (3 * slowness), state_->steps);
}

std::optional<uint32_t> World::forced() const {
  if (options_.timed)
    return state_->enabled.empty() ? std::nullopt : std::optional<uint32_t>(state_->clock.next());
  return state_->enabled.size() == 1 ? std::optional<uint32_t>(state_->enabled.front()) : std::nullopt;
}

StepKind World::kind_of(uint32_t agent) const {
  if (agent >= first_transit_) {
    switch (state_->transits[agent - first_transit_].stage) {
      case Transit::Stage::kRead: return StepKind::kRead;
      case Transit::Stage::kLand: return StepKind::kLand;
      case Transit::Stage::kCount: return StepKind::kCount;
      default: return StepKind::kAck;
    }
  }
  const uint32_t which = agent % stride_;
  if (which == kHostAgent)
    return StepKind::kHost;
  if (which == kPostAgent)
    return StepKind::kPost;
  if (which == kOverflowAgent)
    return StepKind::kOverflow;
  if (which < first_ring_)
    return StepKind::kStream;
  if (programs_match_ && which == stride_ - 1)
    return StepKind::kMail;
  if (options_.kills && agent == loss_agent(agent / stride_))
    return StepKind::kLoss;
  if (programs_stand_ && agent == keep_up_agent(agent / stride_))
    return StepKind::kKeepUp;
  if (options_.cxi_driver && agent == drive_agent(agent / stride_))
    return StepKind::kDrive;
  if (which < first_ring_ + counters_)
    return StepKind::kRing;
  return which < first_ring_ + 2 * counters_ ? StepKind::kFire : StepKind::kCopy;
}

uint32_t World::counter_of(uint32_t agent) const { return (agent % stride_ - first_ring_) % counters_; }

uint32_t World::rank_of(uint32_t agent) const {
  if (agent < first_transit_)
    return agent / stride_;
  const Transit& transit = state_->transits[agent - first_transit_];
  return transit.stage == Transit::Stage::kLand || transit.stage == Transit::Stage::kCount ? transit.to : transit.from;
}

std::string World::describe(uint32_t agent) const {
  const StepKind kind = kind_of(agent);
  const uint32_t rank = rank_of(agent);
  const std::string who = "rank " + std::to_string(rank) + ": ";
  if (agent >= first_transit_) {
    const Transit& transit = state_->transits[agent - first_transit_];
    const char* step = kind == StepKind::kRead    ? ": the source is read"
                       : kind == StepKind::kLand  ? ": lands"
                       : kind == StepKind::kCount ? ": is counted"
                                                  : ": its initiator hears of it";
    return who + role_name(transit.role) + " of (" + exchange_.describe({transit.request}) + ") iteration " +
           std::to_string(transit.iteration) + step;
  }
  const Process& process = *state_->processes[rank];
  const uint32_t which = agent % stride_;
  switch (kind) {
    case StepKind::kHost: return who + "host: " + describe(exchange_.program(rank).actions()[process.next_action]);
    case StepKind::kPost: return who + "an entry reaches the NIC, " + describe(process, process.nic.next_posting().op);
    case StepKind::kOverflow: return who + "the overflow is handed over";
    case StepKind::kStream:
      return who + "stream: " + describe(process.lanes[which - kFirstStreamAgent]->stream.front());
    case StepKind::kKeepUp: return who + "standing requests get more entries";
    case StepKind::kDrive: return who + "the thread of the driver drives";
    case StepKind::kMail: return who + "a matching card arrives";
    case StepKind::kLoss:
      return who + "its NIC finds that rank " + std::to_string(process.unfound.front()) + " has ended";
    case StepKind::kRing: return who + "a ring lands on " + describe(process, nic::CounterId{which - first_ring_});
    case StepKind::kCopy:
      return who + describe(process, nic::CounterId{which - first_ring_ - 2 * counters_}) + " is copied to memory";
    default: {
      const nic::CounterId counter{which - first_ring_ - counters_};
      const NicModel& model = process.nic.model();
      auto entry = model.ready();
      while (entry && model.trigger_of(*entry) != counter)
        entry = model.next_ready(*entry);
      return who + describe(process, counter) + " fires " + (entry ? describe(process, model.op_of(*entry)) : "");
    }
  }
}

std::string World::describe(const Action& action) const {
  static constexpr const char* kNames[] = {"pack",
                                           "unpack",
                                           "start",
                                           "wait",
                                           "sync",
                                           "promise",
                                           "await",
                                           "complete",
                                           "free",
                                           "match",
                                           "be matched",
                                           "withdraw",
                                           "capture",
                                           "end of the capture",
                                           "launch",
                                           "give to kernels",
                                           "kernel: start",
                                           "kernel: wait",
                                           "take from kernels"};
  std::string text = kNames[static_cast<size_t>(action.kind)];
  if (is_of_message(action.kind))
    return text + " (" + exchange_.describe({2 * action.message}) + ")";
  for (const RequestName request : action.requests)
    text += " (" + exchange_.describe(request) + ")";
  return text;
}

std::string World::describe(const StepItem& item) const {
  if (item.kind == StepItem::Kind::kKernel)
    return describe(Action{.kind = item.action, .queue = 0, .message = item.message, .requests = {}});
  if (item.kind == StepItem::Kind::kMark)
    return "start (" + exchange_.describe({item.start}) + ") is reached";
  if (item.kind == StepItem::Kind::kRing)
    return item.start == StepItem::kNothing ? "rings for all that share the queue's trigger"
                                            : "rings for (" + exchange_.describe({item.start}) + ")";
  return item.request == StepItem::kNothing ? "the promise was kept"
                                            : "wait (" + exchange_.describe({item.request}) + ") passes";
}

std::string World::describe(const Process& process, const nic::Op& op) const {
  return std::string(role_name(role_of(process, op))) + " of (" +
         exchange_.describe({process.requests[op.context - 1]}) + ")";
}

Transit::Role World::role_of(const Process& process, const nic::Op& op) const {
  if (op.kind == nic::OpKind::kWrite)
    return Transit::Role::kData;
  const core::WordPool::Word& done = process.done_words[op.context - 1];
  if (op.remote.peer == process.rank && op.remote.key == done.key && op.remote.offset == done.offset)
    return Transit::Role::kDone;
  return RequestName{process.requests[op.context - 1]}.receive() ? Transit::Role::kClear : Transit::Role::kFlag;
}

std::string World::describe(const Process& process, nic::CounterId counter) const {
  for (const uint32_t request : process.requests) {
    const core::Request* core = state_->sides[request].core;
    if (core != nullptr && (core->trigger == counter || core->completion == counter))
      return std::string("the ") + (core->trigger == counter ? "trigger" : "completion") + " counter of (" +
             exchange_.describe({request}) + ")";
  }
  return "the queue's shared trigger";
}

bool World::finished() const {
  for (uint32_t rank = 0; rank < state_->processes.size(); ++rank) {
    const Process& process = *state_->processes[rank];
    if (process.killed)
      continue;
    if (process.next_action < exchange_.program(rank).actions().size())
      return false;
    for (const auto& lane : process.lanes)
      if (!lane->stream.empty())
        return false;
  }
  return true;
}

// ---- Running

bool World::step(Chooser& chooser) {
  const Arena::Scope scope(arena_);
  return take_one(chooser);
}

bool World::take_one(Chooser& chooser) {
  const std::vector<uint32_t>& enabled = state_->enabled;
  if (enabled.empty() || !report_.ok())
    return false;
  uint32_t agent = enabled.front();
  if (options_.timed)
    agent = state_->clock.advance();
  else if (enabled.size() > 1)
    agent = enabled[chooser.choose(static_cast<uint32_t>(enabled.size()), ChoiceKind::kStep, enabled.data())];
  chooser_ = &chooser;
  ++state_->steps;
  note(agent);
  if (options_.kills && state_->deaths < most_deaths() && chance(ChoiceKind::kKill))
    kill(*state_->processes[rank_of(agent)]);
  else
    take(agent);
  if (options_.cxi_driver)
    drivers_changed();
  if (enabled.empty() && report_.ok())
    end_faults();
  if (options_.timed) {
    if (state_->place[agent] != kNone)
      start_clock(agent);
    state_->clock.next([this](uint32_t each) { return state_->place[each] != kNone; });
  }
  chooser_ = nullptr;
  if (state_->steps > options_.max_steps)
    find(Finding::kLivelock, "liveness", std::to_string(state_->steps) + " steps, and no end");
  return report_.ok();
}

const Report& World::run(Chooser& chooser) {
  const Arena::Scope scope(arena_);
  while (take_one(chooser)) {
  }
  if (report_.ok())
    judge();
  return report_;
}

uint32_t World::draw(uint32_t n, ChoiceKind kind) {
  if (chooser_ == nullptr)
    return 0;
  const uint32_t choice = chooser_->choose(n, kind, nullptr);
  note(choice);
  return choice;
}

void World::find(Finding finding, const char* oracle, const std::string& text) {
  if (!report_.ok())
    return;
  const Arena::Outside outside;
  report_ = {finding, oracle, std::string(text.data(), text.size()), state_->steps};
}

void World::judge() {
  if (finished())
    oracle::judge_quiescence(*this);
  else
    oracle::judge_stall(*this);
}

}  // namespace lanyard::nicsim
