#include "nicsim/deterministic/story.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "nicsim/deterministic/arena.h"
#include "nicsim/deterministic/scenario.h"

namespace lanyard::nicsim {

namespace {

using Event = Story::Event;
using Operation = Story::Operation;
using Row = Story::Row;
using Track = Story::Track;
constexpr uint32_t kNone = Story::kNone;

Row row_of(StepKind kind) {
  switch (kind) {
    case StepKind::kHost:
    case StepKind::kOverflow: return Row::kCpu;
    case StepKind::kStream: return Row::kStream;
    case StepKind::kRead:
    case StepKind::kLand: return Row::kMemory;
    case StepKind::kAck: return Row::kLink;
    default: return Row::kNic;
  }
}

// Follows a schedule and looks at the world before and after each step.
class Teller final : public Chooser {
 public:
  Teller(World& world, const Schedule& schedule) : world_(world), replay_(schedule) {
    story_.ranks = world.scenario().ranks();
    story_.timed = world.options().timed;
    ready_.resize(story_.ranks);
    open_tracks();
  }

  Story tell() {
    for (bool more = world_.report().ok(); more;) {
      const uint64_t steps = world_.steps();
      // What is no choice is not asked about.
      if (const auto agent = world_.forced())
        before(*agent);
      more = world_.step(*this);
      if (world_.steps() > steps)
        after();
    }
    story_.report = world_.run(*this);
    return std::move(story_);
  }

  uint32_t choose(uint32_t n, ChoiceKind kind, const uint32_t* agents) override {
    const Arena::Outside outside;
    const uint32_t choice = replay_.choose(n, kind, agents);
    if (agents != nullptr)
      before(agents[choice]);
    return choice;
  }

 private:
  // A place of an operation under way, as it was.
  struct Place {
    uint64_t number = 0;
    Transit::Stage stage = Transit::Stage::kFree;
  };

  uint32_t number_of_event() const { return static_cast<uint32_t>(story_.events.size() - 1); }

  void before(uint32_t agent) {
    Event& event = story_.events.emplace_back();
    event.step = world_.steps() + 1;
    event.kind = world_.kind_of(agent);
    event.row = row_of(event.kind);
    event.rank = world_.rank_of(agent);
    event.text = world_.describe(agent);
    event.text.erase(0, event.text.find(": ") + 2);
    const Process& process = world_.process(event.rank);
    if (event.kind == StepKind::kHost) {
      const Action& action = world_.scenario().program(event.rank).actions()[process.next_action];
      if (action.requests.size() == 1)
        event.request = action.requests.front().index;
    } else if (event.kind == StepKind::kPost) {
      event.request = process.requests[process.nic.next_posting().op.context - 1];
    }
    items_.clear();
    for (const auto& queued : process.streams)
      items_.push_back(queued->stream.empty() ? StepItem() : queued->stream.front());
    executed_.clear();
    for (const auto& queued : process.streams)
      executed_.push_back(queued->stream.executed());
    places_.clear();
    for (const Transit& transit : world_.transits())
      places_.push_back({transit.number, transit.stage});
  }

  void after() {
    story_.events.back().time = world_.now();
    if (std::exchange(deaths_, world_.deaths()) != world_.deaths())
      return was_killed();
    const uint32_t trigger = look_at_entries();
    for (size_t place = 0; place < world_.transits().size(); ++place) {
      const Transit& transit = world_.transits()[place];
      if (place >= places_.size() || transit.number != places_[place].number)
        launched(transit, trigger);
      else if (transit.stage != places_[place].stage)
        moved(transit, places_[place].stage);
    }
    if (story_.events.back().kind == StepKind::kStream)
      ran_item();
    look_at_tracks();
  }

  void was_killed() {
    Event& event = story_.events.back();
    event.row = Row::kCpu;
    event.request = kNone;
    event.text = "the process is killed";
  }

  // Which entries became ready by this step, and which is so no more: what had made that one ready.
  uint32_t look_at_entries() {
    uint32_t trigger = kNone;
    for (uint32_t rank = 0; rank < story_.ranks; ++rank) {
      const NicModel& model = world_.process(rank).nic.model();
      std::map<uint32_t, uint32_t> now;
      for (auto entry = model.ready(); entry; entry = model.next_ready(*entry)) {
        const auto known = ready_[rank].find(*entry);
        now[*entry] = known == ready_[rank].end() ? number_of_event() : known->second;
      }
      for (const auto& [entry, since] : ready_[rank])
        if (!now.contains(entry))
          trigger = since;
      ready_[rank] = std::move(now);
    }
    return trigger;
  }

  void launched(const Transit& transit, uint32_t trigger) {
    Operation operation;
    operation.role = transit.role;
    operation.from = transit.from;
    operation.to = transit.to;
    operation.request = transit.request;
    operation.iteration = transit.iteration;
    operation.trigger = trigger;
    operation.fire = number_of_event();
    by_number_[transit.number] = static_cast<uint32_t>(story_.operations.size());
    concerns(transit);
    story_.operations.push_back(operation);
  }

  void moved(const Transit& transit, Transit::Stage stage) {
    Operation& operation = story_.operations[by_number_.at(transit.number)];
    concerns(transit);
    const uint32_t event = number_of_event();
    switch (stage) {
      case Transit::Stage::kRead: operation.read = event; return;
      case Transit::Stage::kCount: operation.count = event; return;
      case Transit::Stage::kEarlyAck:
      case Transit::Stage::kAck: operation.ack = event; return;
      default: break;
    }
    operation.land = event;
    operation.failed = transit.code != Code::kOk;
    std::string& text = story_.events.back().text;
    if (operation.failed && transit.landed) {
      text += ", and is taken for failed";
    } else if (operation.failed) {
      story_.events.back().row = Row::kLink;  // it never gets as far as the memory
      // A step of something else may have made it land.
      if (const size_t lands = text.rfind("lands"); lands != std::string::npos)
        text.replace(lands, std::string::npos, "fails on its way");
    }
  }

  void concerns(const Transit& transit) {
    story_.events.back().request = transit.request;
    story_.events.back().iteration = transit.iteration;
  }

  void ran_item() {
    Event& event = story_.events.back();
    const auto& streams = world_.process(event.rank).streams;
    size_t queue = 0;
    while (streams[queue]->stream.executed() == executed_[queue])
      ++queue;
    const StepItem& item = items_[queue];
    if (item.kind == StepItem::Kind::kKernel) {
      const bool pack = item.action == Action::Kind::kPack;
      event.request = 2 * item.message + (pack ? 0 : 1);
      if (item.action != Action::Kind::kPromise)
        event.iteration = world_.side(RequestName{event.request}).filled;
    } else if (item.kind == StepItem::Kind::kMove) {
      event.request = item.request;
      event.iteration = world_.side(RequestName{event.request}).moved;
    } else if (item.request != StepItem::kNothing) {
      event.request = item.request;
      event.iteration = world_.side(RequestName{event.request}).waited;
      for (Operation& operation : story_.operations)
        if (((operation.role == Transit::Role::kDone && operation.request == event.request) ||
             (operation.role == Transit::Role::kFlag && (operation.request | 1) == event.request)) &&
            operation.iteration == event.iteration && operation.land != kNone)
          operation.wake = number_of_event();
    } else if (item.start != StepItem::kNothing) {
      event.request = item.start;
      event.iteration = world_.side(RequestName{event.request}).started;
    }
  }

  // ---- Tracks: one for each rank, then one for each request.

  void open_tracks() {
    for (uint32_t rank = 0; rank < story_.ranks; ++rank)
      story_.tracks.push_back({"entries in use", rank, {{0, 0}}});
    for (uint32_t request = 0; request < 2 * world_.scenario().messages().size(); ++request)
      story_.tracks.push_back({"done word of (" + world_.scenario().describe({request}) + ")",
                               world_.scenario().rank_of({request}),
                               {{0, 0}}});
  }

  void look_at_tracks() {
    for (uint32_t rank = 0; rank < story_.ranks; ++rank) {
      const StepNic& nic = world_.process(rank).nic;
      set(story_.tracks[rank], nic.caps().deferred_depth - nic.model().free_entries());
    }
    for (uint32_t request = 0; request + story_.ranks < story_.tracks.size(); ++request)
      if (const core::Request* core = world_.side(RequestName{request}).core; core != nullptr && core->done.valid())
        set(story_.tracks[story_.ranks + request], core->iterations_done());
  }

  void set(Track& track, uint64_t value) {
    if (track.points.back().value != value)
      track.points.push_back({world_.steps(), value});
  }

  World& world_;
  Replay replay_;
  Story story_;
  std::vector<std::map<uint32_t, uint32_t>> ready_;  // by rank: of each ready entry the event that made it so
  std::map<uint64_t, uint32_t> by_number_;           // operations by Transit::number
  uint32_t deaths_ = 0;
  // Before the step.
  std::vector<StepItem> items_;
  std::vector<uint64_t> executed_;
  std::vector<Place> places_;
};

}  // namespace

const char* Story::row_name(Row row) {
  switch (row) {
    case Row::kCpu: return "CPU";
    case Row::kStream: return "stream";
    case Row::kNic: return "NIC";
    case Row::kLink: return "link";
    case Row::kMemory: return "memory";
  }
  return "";
}

std::vector<uint32_t> Story::Operation::path() const {
  const uint32_t end = role == Transit::Role::kData                                   ? ack
                       : role == Transit::Role::kDone || role == Transit::Role::kFlag ? wake
                                                                                      : kNone;
  std::vector<uint32_t> stages;
  for (const uint32_t stage : {trigger, fire, read, land, count, end})
    if (stage != kNone)
      stages.push_back(stage);
  std::sort(stages.begin(), stages.end());  // an initiator may hear of it before it lands
  return stages;
}

Story Story::tell(World& world, const Schedule& schedule) {
  world.reset();
  return Teller(world, schedule).tell();
}

}  // namespace lanyard::nicsim
