#include "nicsim/deterministic/perfetto.h"

#include <nlohmann/json.hpp>

namespace lanyard::nicsim {

namespace {

using Json = nlohmann::ordered_json;

// Flow arrows begin and end inside their slices, so that there is no doubt which ones they bind to.
constexpr double kMiddle = 0.5;

Json metadata(const char* name, uint32_t rank, uint32_t row, Json args) {
  return {{"ph", "M"}, {"name", name}, {"pid", rank}, {"tid", row}, {"args", std::move(args)}};
}

void add_rows(const Story& story, Json& events) {
  for (uint32_t rank = 0; rank < story.ranks; ++rank) {
    events.push_back(metadata("process_name", rank, 0, {{"name", "rank " + std::to_string(rank)}}));
    events.push_back(metadata("process_sort_index", rank, 0, {{"sort_index", rank}}));
    for (uint32_t row = 0; row < Story::kRows; ++row) {
      events.push_back(metadata("thread_name", rank, row, {{"name", Story::row_name(static_cast<Story::Row>(row))}}));
      events.push_back(metadata("thread_sort_index", rank, row, {{"sort_index", row}}));
    }
  }
}

// Of its slice, in microseconds. Steps without times follow each other; with times a slice is too short to meet the
// next.
double begin_of(const Story& story, const Story::Event& event) {
  return story.timed ? static_cast<double>(event.time) * 1e-6 : static_cast<double>(event.step);
}
double length_of(const Story& story) { return story.timed ? 1e-3 : 1; }

Json place_of(const Story& story, const Story::Event& event, double part) {
  return {{"ts", begin_of(story, event) + part * length_of(story)},
          {"pid", event.rank},
          {"tid", static_cast<uint32_t>(event.row)}};
}

void add_slices(const Story& story, Json& events) {
  for (const Story::Event& event : story.events) {
    Json slice = {{"ph", "X"}, {"name", event.text}, {"cat", step_name(event.kind)}};
    slice.update({{"ts", begin_of(story, event)},
                  {"dur", length_of(story)},
                  {"pid", event.rank},
                  {"tid", static_cast<uint32_t>(event.row)}});
    Json args = {{"step", event.step}};
    if (event.request != Story::kNone)
      args["request"] = event.request;
    if (event.iteration > 0)
      args["iteration"] = event.iteration;
    slice["args"] = std::move(args);
    events.push_back(std::move(slice));
  }
}

void add_flows(const Story& story, Json& events) {
  uint64_t id = 0;
  for (const Story::Operation& operation : story.operations) {
    const std::vector<uint32_t> path = operation.path();
    if (path.size() < 2)
      continue;
    ++id;
    for (size_t i = 0; i < path.size(); ++i) {
      const bool last = i + 1 == path.size();
      Json flow = {{"ph", i == 0 ? "s" : last ? "f" : "t"}, {"name", role_name(operation.role)}};
      flow.update({{"cat", "operation"}, {"id", id}});
      if (last)
        flow["bp"] = "e";
      flow.update(place_of(story, story.events[path[i]], kMiddle));
      events.push_back(std::move(flow));
    }
  }
}

void add_counters(const Story& story, Json& events) {
  for (const Story::Track& track : story.tracks)
    for (const Story::Track::Point& point : track.points)
      events.push_back({{"ph", "C"},
                        {"name", track.name},
                        {"ts", point.step == 0 ? 0.0 : begin_of(story, story.events[point.step - 1])},
                        {"pid", track.rank},
                        {"args", {{"value", point.value}}}});
}

}  // namespace

std::string perfetto_trace(const Story& story) {
  Json events = Json::array();
  add_rows(story, events);
  add_slices(story, events);
  add_flows(story, events);
  add_counters(story, events);
  if (!story.report.ok() && !story.events.empty()) {
    Json finding = {{"ph", "i"}, {"s", "g"}, {"name", finding_name(story.report.finding)}, {"cat", "finding"}};
    finding.update(place_of(story, story.events.back(), kMiddle));
    finding["args"] = {{"oracle", story.report.oracle}, {"text", story.report.text}};
    events.push_back(std::move(finding));
  }
  const Json trace = {{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}};
  return trace.dump(1) + "\n";
}

}  // namespace lanyard::nicsim
