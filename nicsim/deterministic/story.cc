#include "nicsim/deterministic/story.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "nicsim/deterministic/arena.h"
#include "nicsim/deterministic/scenario.h"

namespace lanyard::nicsim {

namespace {

using Event = Story::Event;
using Json = nlohmann::ordered_json;
using Operation = Story::Operation;
using Row = Story::Row;
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

// Follows a schedule and compares the world before and after each step.
class Teller final : public Chooser {
 public:
  Teller(World& world, const Schedule& schedule) : world_(world), replay_(schedule) {
    story_.ranks = world.scenario().ranks();
    ready_.resize(story_.ranks);
  }

  Story tell() {
    for (bool more = world_.report().ok(); more;) {
      const uint64_t steps = world_.steps();
      // The world does not call choose() if only one agent is enabled.
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
    } else if (event.kind == StepKind::kStream) {
      item_ = process.streams[world_.index_of(agent)]->stream.front();
    }
    places_.clear();
    for (const Transit& transit : world_.transits())
      places_.emplace_back(transit.number, transit.stage);
  }

  void after() {
    if (std::exchange(deaths_, world_.deaths()) != world_.deaths()) {
      Event& event = story_.events.back();
      event.row = Row::kCpu;
      event.request = kNone;
      event.text = "the process is killed";
      return;
    }
    const uint32_t trigger = look_at_entries();
    for (size_t place = 0; place < world_.transits().size(); ++place) {
      const Transit& transit = world_.transits()[place];
      if (place >= places_.size() || transit.number != places_[place].first)
        launched(transit, trigger);
      else if (transit.stage != places_[place].second)
        moved(transit, places_[place].second);
    }
    if (story_.events.back().kind == StepKind::kStream)
      ran_item();
  }

  // Updates ready_. Returns the event that made the entry ready that this step fired, or kNone.
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
    by_number_[transit.number] = story_.operations.size();
    Operation& operation = story_.operations.emplace_back(
        Operation{.role = transit.role, .request = transit.request, .iteration = transit.iteration, .path = {}});
    if (trigger != kNone)
      operation.path.push_back(trigger);
    operation.path.push_back(number_of_event());
    concerns(transit.request, transit.iteration);
  }

  void moved(const Transit& transit, Transit::Stage stage) {
    concerns(transit.request, transit.iteration);
    const bool ack = stage == Transit::Stage::kEarlyAck || stage == Transit::Stage::kAck;
    if (stage != Transit::Stage::kLateAck && (!ack || transit.role == Transit::Role::kData))
      story_.operations[by_number_.at(transit.number)].path.push_back(number_of_event());
    if (stage != Transit::Stage::kLand || transit.code == Code::kOk)
      return;
    Event& event = story_.events.back();
    if (transit.landed) {
      event.text += ", and is taken for failed";
      return;
    }
    event.row = Row::kLink;  // it does not reach the memory
    // The text has no "lands" if a step of another agent made it land.
    if (const size_t lands = event.text.rfind("lands"); lands != std::string::npos)
      event.text.replace(lands, std::string::npos, "fails on its way");
  }

  void concerns(uint32_t request, uint64_t iteration) {
    story_.events.back().request = request;
    story_.events.back().iteration = iteration;
  }

  void ran_item() {
    const auto side = [this](uint32_t request) -> const Side& { return world_.side(request); };
    if (item_.kind == StepItem::Kind::kKernel) {
      const uint32_t request = 2 * item_.message + (item_.action == Action::Kind::kPack ? 0 : 1);
      concerns(request, side(request).filled);
    } else if (item_.kind == StepItem::Kind::kMove) {
      concerns(item_.request, side(item_.request).moved);
    } else if (item_.request != StepItem::kNothing) {
      const uint64_t iteration = side(item_.request).waited;
      concerns(item_.request, iteration);
      for (Operation& operation : story_.operations)
        if (((operation.role == Transit::Role::kDone && operation.request == item_.request) ||
             (operation.role == Transit::Role::kFlag && (operation.request | 1) == item_.request)) &&
            operation.iteration == iteration)
          operation.path.push_back(number_of_event());
    } else if (item_.start != StepItem::kNothing) {
      concerns(item_.start, side(item_.start).started);
    }
  }

  World& world_;
  Replay replay_;
  Story story_;
  std::vector<std::map<uint32_t, uint32_t>> ready_;  // by rank: each ready entry, and the event that made it ready
  std::map<uint64_t, size_t> by_number_;             // operations by Transit::number
  uint32_t deaths_ = 0;
  // As they were before the step.
  StepItem item_;                                            // the item of a kStream
  std::vector<std::pair<uint64_t, Transit::Stage>> places_;  // by place: Transit::number and stage
};

// Flow arrows begin and end in the middle of slices, so it is clear which slices they connect.
Json in_the_middle_of(const Event& event, Json what) {
  what.update(
      {{"ts", static_cast<double>(event.step) + 0.5}, {"pid", event.rank}, {"tid", static_cast<uint32_t>(event.row)}});
  return what;
}

}  // namespace

Story Story::tell(World& world, const Schedule& schedule) {
  world.reset();
  return Teller(world, schedule).tell();
}

std::string Story::perfetto_trace() const {
  Json trace = Json::array();
  const auto name = [&](uint32_t rank, uint32_t row, const char* what, const char* argument, const Json& value) {
    trace.push_back({{"ph", "M"}, {"name", what}, {"pid", rank}, {"tid", row}, {"args", {{argument, value}}}});
  };
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    name(rank, 0, "process_name", "name", "rank " + std::to_string(rank));
    name(rank, 0, "process_sort_index", "sort_index", rank);
    for (uint32_t row = 0; row < std::size(kRowNames); ++row) {
      name(rank, row, "thread_name", "name", kRowNames[row]);
      name(rank, row, "thread_sort_index", "sort_index", row);
    }
  }
  for (const Event& event : events) {
    Json args = {{"step", event.step}};
    if (event.request != kNone)
      args["request"] = event.request;
    if (event.iteration > 0)
      args["iteration"] = event.iteration;
    trace.push_back({{"ph", "X"},
                     {"name", event.text},
                     {"cat", step_name(event.kind)},
                     {"ts", static_cast<double>(event.step)},
                     {"dur", 1},
                     {"pid", event.rank},
                     {"tid", static_cast<uint32_t>(event.row)},
                     {"args", std::move(args)}});
  }
  for (size_t id = 0; id < operations.size(); ++id) {
    const auto& [role, request, iteration, path] = operations[id];
    for (size_t i = 0; i < path.size() && path.size() > 1; ++i) {
      Json flow = {{"ph", i == 0 ? "s" : "t"}, {"name", role_name(role)}, {"cat", "operation"}, {"id", id + 1}};
      if (i + 1 == path.size())
        flow.update({{"ph", "f"}, {"bp", "e"}});
      trace.push_back(in_the_middle_of(events[path[i]], std::move(flow)));
    }
  }
  if (!report.ok() && !events.empty())
    trace.push_back(in_the_middle_of(events.back(), {{"ph", "i"},
                                                     {"s", "g"},
                                                     {"name", finding_name(report.finding)},
                                                     {"cat", "finding"},
                                                     {"args", {{"oracle", report.oracle}, {"text", report.text}}}}));
  return Json{{"displayTimeUnit", "ns"}, {"traceEvents", std::move(trace)}}.dump(1) + "\n";
}

}  // namespace lanyard::nicsim
