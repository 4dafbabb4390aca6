#include "bench/patterns/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "bench/cg/text_file.h"

namespace lanyard::bench::patterns {
namespace {

Status invalid(const std::string& what) { return {Code::kInvalidArgument, what}; }

Status check_sizes(int nodes, int group, uint64_t bytes) {
  if (nodes < 1 || group < 1 || nodes > Pattern::kMostRanks / group)
    return invalid(fmt::format("{} nodes of {} ranks: {} ranks are the most", nodes, group, Pattern::kMostRanks));
  if (bytes < 1 || bytes > Pattern::kMostBytes)
    return invalid(fmt::format("a message of {} bytes: it has 1 to {}", bytes, Pattern::kMostBytes));
  return {};
}

uint64_t divisor(const Shape& s) {
  const int others = s.nodes - 1;
  const int of_family[] = {others, s.group, s.subgroup * others, 1};
  return s.divide ? static_cast<uint64_t>(of_family[static_cast<size_t>(s.family)]) : 1;
}

Status check_shape(const Shape& s) {
  LANYARD_RETURN_IF_ERROR(check_sizes(s.nodes, s.group, s.bytes));
  if (s.subgroup < 1 || s.subgroup > s.group)
    return invalid(fmt::format("a subgroup of {} places of {}", s.subgroup, s.group));
  if (s.family != Family::kSelf && s.nodes < 2)
    return invalid("one node, and the pattern goes between nodes");
  if (s.family == Family::kFan && s.direction == Direction::kOmni)
    return invalid("a fan is not omni: its two sides differ");
  if (s.bytes < divisor(s))
    return invalid(fmt::format("{} bytes cannot be divided by {}", s.bytes, divisor(s)));
  return {};
}

// Every error is a BadInput.
class PatternFile {
 public:
  PatternFile(const std::string& path, uint64_t unit) : file_(path), unit_(unit) {}

  Pattern read() {
    if (!next_line())
      file_.fail("no numbers");
    if (numbers_.size() == 3)
      read_triples();
    else
      read_matrix();
    if (messages_.empty())
      file_.fail("no message");
    return Pattern::of_own_data(std::move(messages_));
  }

 private:
  // The numbers of the next line that has any. False at the end.
  bool next_line() {
    const bool is_there = file_.next();
    numbers_.clear();
    for (size_t i = 0; is_there && i < file_.words().size(); ++i)
      if (!parse(file_.words()[i], numbers_.emplace_back()))
        file_.fail(fmt::format("'{}' is no whole number from 0 on", file_.words()[i]));
    return is_there;
  }

  void add(uint64_t source, uint64_t destination, uint64_t count) {
    for (const uint64_t rank : {source, destination})
      if (rank >= static_cast<uint64_t>(Pattern::kMostRanks))
        file_.fail(fmt::format("rank {} is none of 0 to {}", rank, Pattern::kMostRanks - 1));
    if (count > Pattern::kMostBytes / unit_)
      file_.fail(fmt::format("{} times {} bytes: a message has at most {}", count, unit_, Pattern::kMostBytes));
    if (count > 0)
      messages_.push_back({static_cast<int>(source), static_cast<int>(destination), 0, count * unit_});
  }

  void read_triples() {
    do {
      if (numbers_.size() != 3)
        file_.fail(fmt::format("{} numbers: a line has source, destination and count", numbers_.size()));
      add(numbers_[0], numbers_[1], numbers_[2]);
    } while (next_line());
  }

  // Nothing of the matrix's size is allocated, so that a file cannot ask for memory that it does
  // not fill.
  void read_matrix() {
    const bool has_size = numbers_.size() == 1;
    const uint64_t size = has_size ? numbers_[0] : numbers_.size();
    if (size < 1 || size > static_cast<uint64_t>(Pattern::kMostRanks))
      file_.fail(fmt::format("a matrix of {} ranks: it has 1 to {}", size, Pattern::kMostRanks));
    for (uint64_t row = 0; row < size; ++row) {
      if ((row > 0 || has_size) && !next_line())
        file_.fail(fmt::format("ends after {} of {} rows", row, size));
      if (numbers_.size() != size)
        file_.fail(fmt::format("{} counts in a row of {}", numbers_.size(), size));
      for (uint64_t column = 0; column < size; ++column)
        add(row, column, numbers_[column]);
    }
    if (next_line())
      file_.fail(fmt::format("more than {} rows", size));
  }

  TextFile file_;
  const uint64_t unit_;
  std::vector<uint64_t> numbers_;  // of the line
  std::vector<Message> messages_;
};

// Bytes by source and destination.
std::vector<uint64_t> matrix(const Plan& plan, size_t ranks) {
  std::vector<uint64_t> cells(ranks * ranks);
  for (const Pattern& step : plan.steps())
    for (const Message& m : step.messages())
      cells[static_cast<size_t>(m.source) * ranks + static_cast<size_t>(m.destination)] += m.bytes;
  return cells;
}

}  // namespace

Pattern Pattern::of_own_data(std::vector<Message> messages) {
  uint64_t next = 0;
  for (Message& m : messages)
    m.offset = std::exchange(next, next + m.bytes);
  return Pattern(std::move(messages));
}

Pattern Pattern::reversed() const {
  std::vector<Message> turned = messages_;
  for (Message& m : turned)
    std::swap(m.source, m.destination);
  return Pattern(std::move(turned));
}

Pattern Pattern::with(const Pattern& other, uint64_t shift) const {
  std::vector<Message> both = messages_;
  for (Message m : other.messages_) {
    m.offset += shift;
    both.push_back(m);
  }
  return Pattern(std::move(both));
}

Result<Pattern> make_pattern(const Shape& s) {
  LANYARD_RETURN_IF_ERROR(check_shape(s));
  const uint64_t bytes = s.bytes / divisor(s);
  const bool is_omni = s.direction == Direction::kOmni;
  std::vector<Message> out;
  if (s.family == Family::kSelf) {
    for (int rank = 0; rank < s.nodes * s.group; ++rank)
      out.push_back({rank, rank, 0, bytes});
  } else {
    const int width = s.family == Family::kFan ? s.group : s.subgroup;
    for (int hop = 1; hop < s.nodes; ++hop)
      for (int from = 0; from < (is_omni ? s.nodes : 1); ++from)
        for (int turn = 0; turn < (s.family == Family::kRail ? 1 : width); ++turn)
          for (int place = 0; place < s.subgroup; ++place)
            out.push_back(
                {from * s.group + place, (from + hop) % s.nodes * s.group + (place + turn) % width, 0, bytes});
  }
  Pattern pattern(std::move(out));
  if (s.direction == Direction::kBi || (is_omni && s.family == Family::kSelf))
    pattern = pattern.with(pattern.reversed());
  if (s.direction == Direction::kIn)
    pattern = pattern.reversed();
  return Pattern::of_own_data(pattern.messages());
}

Result<Pattern> read_pattern(const std::string& path, uint64_t unit) {
  try {
    return PatternFile(path, unit).read();
  } catch (const BadInput& bad) {
    return invalid(bad.what());
  }
}

Plan::Plan(std::vector<Pattern> steps) : steps_(std::move(steps)) {
  std::erase_if(steps_, [](const Pattern& step) { return step.messages().empty(); });
  for (const Pattern& step : steps_)
    for (const Message& m : step.messages()) {
      ranks_ = std::max({ranks_, m.source + 1, m.destination + 1});
      ++messages_;
      bytes_ += m.bytes;
      extent_ = std::max(extent_, m.offset + m.bytes);
      combines_ = combines_ || m.combines;
    }
}

Plan Plan::then(const Plan& next) const {
  std::vector<Pattern> steps = steps_;
  for (const Pattern& step : next.steps_)
    steps.push_back(Pattern().with(step, extent_));
  return Plan(std::move(steps));
}

Plan Plan::beside(const Plan& other) const {
  std::vector<Pattern> steps = steps_;
  steps.resize(std::max(steps.size(), other.steps_.size()));
  for (size_t i = 0; i < other.steps_.size(); ++i)
    steps[i] = steps[i].with(other.steps_[i], extent_);
  return Plan(std::move(steps));
}

Plan striped(const Pattern& pattern, int group) {
  std::array<std::vector<Message>, 3> steps;
  auto& [split, translate, assemble] = steps;
  const auto count = static_cast<uint64_t>(group);
  for (const Message& m : pattern.messages()) {
    const int from = m.source / group * group, to = m.destination / group * group;
    if (from == to) {
      translate.push_back(m);
      continue;
    }
    uint64_t offset = m.offset;
    for (int place = 0; place < group && offset < m.offset + m.bytes; ++place) {
      const uint64_t bytes = m.bytes / count + (static_cast<uint64_t>(place) < m.bytes % count ? 1 : 0);
      if (from + place != m.source)
        split.push_back({m.source, from + place, offset, bytes});
      translate.push_back({from + place, to + place, offset, bytes});
      if (to + place != m.destination)
        assemble.push_back({to + place, m.destination, offset, bytes});
      offset += bytes;
    }
  }
  return Plan({Pattern(std::move(split)), Pattern(std::move(translate)), Pattern(std::move(assemble))});
}

Result<Plan> make_collective(Collective collective, int nodes, int group, uint64_t bytes) {
  LANYARD_RETURN_IF_ERROR(check_sizes(nodes, group, bytes));
  const int ranks = nodes * group;
  if (ranks < 2)
    return invalid("a collective of one rank sends nothing");
  const auto block = [&](int number) { return static_cast<uint64_t>(number) * bytes; };
  std::vector<Message> between, within;  // leaders; a leader and its node
  if (collective == Collective::kAllToAll) {
    for (int turn = 0; turn < ranks; ++turn)
      for (int rank = 0; rank < ranks; ++rank)
        between.push_back({rank, (rank + turn) % ranks, block(rank * ranks + (rank + turn) % ranks), bytes});
    return Plan({Pattern(std::move(between))});
  }
  // Outward as scatter and broadcast go.
  const bool combines = collective == Collective::kReduce;
  const bool has_blocks = collective == Collective::kScatter || collective == Collective::kGather;
  for (int leader = 0; leader < ranks; leader += group)
    for (int rank = leader; rank < leader + group; ++rank) {
      const uint64_t offset = has_blocks ? block(rank) : 0;
      if (leader != 0 && (has_blocks || rank == leader))
        between.push_back({0, leader, offset, bytes, combines});
      if (rank != leader)
        within.push_back({leader, rank, offset, bytes, combines});
    }
  const Pattern first(std::move(between)), second(std::move(within));
  if (collective == Collective::kGather || combines)
    return Plan({second.reversed(), first.reversed()});
  return Plan({first, second});
}

// ---- Descriptions

std::string matrix_text(const Plan& plan) {
  const auto ranks = static_cast<size_t>(plan.ranks());
  const std::vector<uint64_t> cells = matrix(plan, ranks);
  std::string text = fmt::format("# {} ranks, {} messages in {} steps, {} bytes\n{:>7}", ranks, plan.messages(),
                                 plan.steps().size(), plan.bytes(), "from\\to");
  for (size_t to = 0; to < ranks; ++to)
    text += fmt::format(" {:>10}", to);
  for (size_t i = 0; i < cells.size(); ++i)
    text += (i % ranks == 0 ? fmt::format("\n{:>7}", i / ranks) : "") + fmt::format(" {:>10}", cells[i]);
  return text + "\n";
}

std::string messages_csv(const Plan& plan) {
  std::string text = "step,source,destination,offset,bytes\n";
  for (size_t step = 0; step < plan.steps().size(); ++step)
    for (const Message& m : plan.steps()[step].messages())
      text += fmt::format("{},{},{},{},{}\n", step, m.source, m.destination, m.offset, m.bytes);
  return text;
}

std::string matrix_svg(const Plan& plan, int group) {
  constexpr int kMargin = 40;
  const int ranks = (plan.ranks() + group - 1) / group * group;
  const std::vector<uint64_t> cells = matrix(plan, static_cast<size_t>(ranks));
  const int cell = std::max(1, 480 / ranks), side = ranks * cell;
  const uint64_t most = *std::max_element(cells.begin(), cells.end());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{0}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<title>{1} ranks, {2} messages, {3} bytes</title>\n<rect width=\"{0}\" height=\"{0}\" "
      "fill=\"white\"/>\n<text x=\"{4}\" y=\"14\">to rank; darker: more bytes, black: {5}</text>\n"
      "<text transform=\"translate(4 {4}) rotate(90)\">from rank</text>\n",
      side + kMargin + 8, ranks, plan.messages(), plan.bytes(), kMargin, most);
  for (size_t i = 0; i < cells.size(); ++i) {
    if (cells[i] == 0)
      continue;
    const int row = static_cast<int>(i) / ranks, column = static_cast<int>(i) % ranks;
    const int grey = 200 - static_cast<int>(200.0 * static_cast<double>(cells[i]) / static_cast<double>(most));
    svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"rgb({},{},{})\"/>\n",
                       kMargin + column * cell, kMargin + row * cell, cell, cell, grey, grey, grey);
  }
  for (int rank = 0; rank <= ranks; rank += group) {
    const int at = kMargin + rank * cell;
    svg += fmt::format("<path d=\"M{0} {1}H{2}M{1} {0}V{2}\" stroke=\"silver\"/>\n", kMargin, at, kMargin + side);
    if (rank < ranks)
      svg +=
          fmt::format("<text x=\"{0}\" y=\"{1}\">{2}</text><text x=\"{1}\" y=\"{3}\" text-anchor=\"end\">{2}</text>\n",
                      at + 2, kMargin - 5, rank, at + 12);
  }
  return svg + "</svg>\n";
}

}  // namespace lanyard::bench::patterns
