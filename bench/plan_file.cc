#include "bench/plan_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

namespace lanyard::bench {
namespace {

constexpr std::array<std::string_view, 6> kColumns = {
    "step", "source", "destination", "source_offset", "destination_offset", "bytes"};
constexpr size_t kStep = 0;
constexpr uint64_t kMostSteps = 10'000;

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t comma; (comma = line.find(',')) != std::string_view::npos; line.remove_prefix(comma + 1))
    fields.push_back(line.substr(0, comma));
  fields.push_back(line);
  return fields;
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

class Parser {
 public:
  explicit Parser(const std::string& name) : name_(name) {}

  Result<Plan> parse(std::string_view text) {
    while (!text.empty()) {
      std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      ++line_;
      if (!line.empty() && line.back() == '\r')
        line.remove_suffix(1);
      if (!line.empty())
        LANYARD_RETURN_IF_ERROR(columns_.empty() ? read_header(line) : read_message(line));
    }
    if (steps_.empty())
      return Status(Code::kInvalidArgument, fmt::format("{}: no message", name_));
    return plan();
  }

 private:
  Status wrong(const std::string& what) const {
    return {Code::kInvalidArgument, fmt::format("{}:{}: {}", name_, line_, what)};
  }

  Status read_header(std::string_view line) {
    std::vector<size_t> columns;
    for (const std::string_view name : split(line)) {
      const size_t column = static_cast<size_t>(std::find(kColumns.begin(), kColumns.end(), name) - kColumns.begin());
      if (column == kColumns.size())
        return wrong(fmt::format("'{}' is no column: there are {}", name, fmt::join(kColumns, ", ")));
      if (std::find(columns.begin(), columns.end(), column) != columns.end())
        return wrong(fmt::format("column '{}' twice", name));
      columns.push_back(column);
    }
    for (size_t column = 0; column < kColumns.size(); ++column)
      if (column != kStep && std::find(columns.begin(), columns.end(), column) == columns.end())
        return wrong(fmt::format("no column '{}'", kColumns[column]));
    columns_ = std::move(columns);
    return {};
  }

  Status read_message(std::string_view line) {
    const std::vector<std::string_view> fields = split(line);
    if (fields.size() != columns_.size())
      return wrong(fmt::format("{} fields, and the header has {}", fields.size(), columns_.size()));
    std::array<uint64_t, kColumns.size()> values{};
    for (size_t i = 0; i < fields.size(); ++i) {
      const std::optional<uint64_t> value = number(fields[i]);
      if (!value)
        return wrong(fmt::format("{} is '{}', and no whole number from 0 on", kColumns[columns_[i]], fields[i]));
      values[columns_[i]] = *value;
    }
    const auto [step, source, destination, source_offset, destination_offset, bytes] = values;
    if (step >= kMostSteps)
      return wrong(fmt::format("step {} is none of 0 to {}", step, kMostSteps - 1));
    for (const uint64_t rank : {source, destination})
      if (rank >= static_cast<uint64_t>(Pattern::kMostRanks))
        return wrong(fmt::format("rank {} is none of 0 to {}", rank, Pattern::kMostRanks - 1));
    const Message message{static_cast<int>(source), static_cast<int>(destination), source_offset, destination_offset,
                          bytes};
    // By itself, so that the line is known.
    if (const Result<Pattern> alone = Pattern::of({message}); !alone.ok())
      return wrong(alone.status().message());
    if (++messages_ > Pattern::kMostMessages)
      return wrong(fmt::format("more than {} messages", Pattern::kMostMessages));
    steps_[step].push_back(message);
    return {};
  }

  Result<Plan> plan() {
    std::vector<Step> steps;
    for (auto& [step, messages] : steps_) {
      if (step != steps.size())
        return Status(Code::kInvalidArgument, fmt::format("{}: step {} has no message", name_, steps.size()));
      Result<Pattern> pattern = Pattern::of(std::move(messages));
      if (!pattern.ok())
        return Status(Code::kInvalidArgument, fmt::format("{}: of step {}, messages counted from 0, {}", name_, step,
                                                          pattern.status().message()));
      steps.push_back({std::move(pattern.value())});
    }
    return Plan(std::move(steps));
  }

  const std::string& name_;
  size_t line_ = 0;
  uint64_t messages_ = 0;
  std::vector<size_t> columns_;
  std::map<uint64_t, std::vector<Message>> steps_;
};

}  // namespace

Result<Plan> parse_plan(std::string_view text, const std::string& name) { return Parser(name).parse(text); }

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // To insert nothing counts as a failure, too, so an empty file is told apart before.
  if (file.peek() != std::ifstream::traits_type::eof())
    text << file.rdbuf();
  if (!file.is_open() || file.bad() || text.fail())
    return Status(Code::kNotFound, fmt::format("{}: cannot be read", path));
  return std::move(text).str();
}

std::string to_csv(const Plan& plan) {
  std::string text = fmt::format("{}\n", fmt::join(kColumns, ","));
  for (size_t step = 0; step < plan.steps().size(); ++step)
    for (const Message& m : plan.steps()[step].pattern.messages())
      text += fmt::format("{},{},{},{},{},{}\n", step, m.source, m.destination, m.source_offset, m.destination_offset,
                          m.bytes);
  return text;
}

}  // namespace lanyard::bench
