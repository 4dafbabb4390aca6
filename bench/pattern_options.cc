#include "bench/pattern_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "bench/pattern_families.h"
#include "bench/plan_file.h"

namespace lanyard::bench {
namespace {

constexpr std::array<std::string_view, 16> kNames = {
    "rail",   "fan",         "dense",    "self",   "broadcast", "broadcast-tree", "scatter",     "gather",
    "reduce", "reduce-tree", "alltoall", "direct", "striped",   "irregular16",    "irregular48", "file"};

// Of those from `first` on the one with the name, which T has in the same order.
template <class T>
std::optional<T> named(std::string_view name, std::string_view first, size_t count) {
  const auto begin = std::find(kNames.begin(), kNames.end(), first);
  const auto end = begin + static_cast<std::ptrdiff_t>(count);
  const auto at = std::find(begin, end, name);
  return at == end ? std::nullopt : std::optional(static_cast<T>(at - begin));
}

Direction direction_of(const std::string& name) {
  static constexpr std::array<std::string_view, 4> kDirectionNames = {"out", "in", "bi", "omni"};
  return static_cast<Direction>(std::find(kDirectionNames.begin(), kDirectionNames.end(), name) -
                                kDirectionNames.begin());
}

Result<Plan> plan_of(Result<Pattern> pattern) {
  if (!pattern.ok())
    return pattern.status();
  return Plan(std::move(pattern.value()));
}

Result<Plan> make_one(const PatternOptions& o, const std::string& name, std::string_view text) {
  if (const auto family = named<Family>(name, "rail", 4))
    return plan_of(make_pattern({o.nodes, o.group, o.subgroup, *family, direction_of(o.direction), o.bytes}));
  if (const auto collective = named<Collective>(name, "broadcast", 7))
    return make_collective(*collective, o.nodes * o.group, o.bytes);
  if (name == "direct")
    return make_direct(o.group, std::accumulate(o.stripes.begin(), o.stripes.end(), uint64_t{0}));
  if (name == "striped")
    return make_striped(o.stripes);
  if (name == "file")
    return parse_plan(text, o.file);
  IrregularShape shape = name == "irregular16" ? kIrregular16 : kIrregular48;
  shape.seed = o.seed;
  if (o.total_bytes > 0)
    shape.bytes = o.total_bytes;
  return plan_of(make_irregular(shape));
}

}  // namespace

std::span<const std::string_view> pattern_names() { return kNames; }

Status complete(PatternOptions& o, int ranks) {
  if (o.nodes == 0)
    o.nodes = o.group > 0 ? std::max(ranks / o.group, 1) : ranks % 2 == 0 ? 2 : 1;
  if (o.group == 0)
    o.group = std::max(ranks / o.nodes, 1);
  if (o.subgroup == 0)
    o.subgroup = o.group;
  if (o.nodes > Pattern::kMostRanks / o.group)
    return {Code::kInvalidArgument,
            fmt::format("--nodes {} of --group {}: {} ranks are the most", o.nodes, o.group, Pattern::kMostRanks)};
  const auto asks = [&](const char* name) {
    return std::find(o.patterns.begin(), o.patterns.end(), name) != o.patterns.end();
  };
  if (asks("file") != !o.file.empty())
    return {Code::kInvalidArgument, "--pattern file and --file go together"};
  if (!o.stripes.empty() && o.stripes.size() != static_cast<size_t>(o.group))
    return {Code::kInvalidArgument,
            fmt::format("{} --stripes, and a node has {} ranks: one each", o.stripes.size(), o.group)};
  for (const uint64_t stripe : o.stripes)
    if (stripe > Pattern::kMostBytes)
      return {Code::kInvalidArgument,
              fmt::format("a stripe of {} bytes in --stripes: {} are the most", stripe, Pattern::kMostBytes)};
  if (o.stripes.empty())
    o.stripes = even_stripes(o.bytes, o.group);
  return {};
}

bool is_of_nodes(const PatternOptions& o) {
  return std::any_of(o.patterns.begin(), o.patterns.end(), [](const std::string& name) {
    return name != "file" && name != "irregular16" && name != "irregular48";
  });
}

Result<Plan> make_plan(const PatternOptions& options, std::string_view text) {
  Plan plan;
  for (const std::string& name : options.patterns) {
    const Result<Plan> next = make_one(options, name, text);
    if (!next.ok())
      return Status(next.status().code(), name == "file"
                                              ? next.status().message()
                                              : fmt::format("--pattern {}: {}", name, next.status().message()));
    if (const uint64_t messages = plan.messages() + next.value().messages(); messages > Pattern::kMostMessages)
      return Status(Code::kInvalidArgument,
                    fmt::format("--pattern: {} messages: {} are the most", messages, Pattern::kMostMessages));
    if (options.order == "sequence") {
      plan = plan.then(next.value());
      continue;
    }
    Result<Plan> both = plan.beside(next.value());
    if (!both.ok())
      return both.status();
    plan = std::move(both.value());
  }
  if (options.part != "all" && plan.combines())
    return Status(Code::kInvalidArgument, fmt::format("--part {}: a reduction is of all its messages", options.part));
  if (options.part != "all")
    plan = options.part == "within" ? plan.within(options.group) : plan.between(options.group);
  if (plan.messages() == 0)
    return Status(Code::kInvalidArgument, fmt::format("--part {}: no message is such a one", options.part));
  return plan;
}

}  // namespace lanyard::bench
