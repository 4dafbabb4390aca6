// Patterns against closed forms, and plans carried out in memory.
#include "bench/patterns/pattern.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/patterns/layout.h"
#include "bench/patterns/options.h"
#include "bench/payload.h"

namespace lanyard::bench::patterns {
namespace {

using Matrix = std::map<std::pair<int, int>, uint64_t>;  // bytes by source and destination

Matrix matrix(const Plan& plan) {
  Matrix bytes;
  for (const Pattern& step : plan.steps())
    for (const Message& m : step.messages())
      bytes[{m.source, m.destination}] += m.bytes;
  return bytes;
}

// value() checks that there is one.
Plan plan_of(const Shape& shape) { return Plan({make_pattern(shape).value()}); }
std::string why(const Shape& shape) { return make_pattern(shape).status().message(); }

// How often a family of `out` has a message from one rank to another: its definition, cell by cell.
int times_outward(const Shape& s, int source, int destination) {
  const int from = source % s.group, to = destination % s.group, k = s.subgroup;
  switch (s.family) {
    case Family::kRail: return from == to && from < k;
    case Family::kFan: return from < k;
    case Family::kDense: return from < k && to < k;
    case Family::kSelf: return source == destination;
  }
  return 0;
}

int times(const Shape& s, int source, int destination) {
  const int from = source / s.group, to = destination / s.group;
  const bool is_self = s.family == Family::kSelf, is_omni = s.direction == Direction::kOmni;
  const bool outward = is_self || (is_omni ? from != to : from == 0 && to != 0);
  const bool inward = is_self || (from != 0 && to == 0);
  int count = 0;
  if (s.direction != Direction::kIn && outward)
    count += times_outward(s, source, destination);
  if ((s.direction == Direction::kIn || s.direction == Direction::kBi || (is_omni && is_self)) && inward)
    count += times_outward(s, destination, source);
  return count;
}

TEST(Families, HaveTheirMessagesAndNoOthers) {
  const int sizes[][3] = {{2, 1, 1}, {2, 4, 3}, {3, 2, 2}, {5, 3, 1}};  // n, g, k
  for (const Family family : {Family::kRail, Family::kFan, Family::kDense, Family::kSelf})
    for (const Direction direction : {Direction::kOut, Direction::kIn, Direction::kBi, Direction::kOmni})
      for (const auto& [n, g, k] : sizes)
        for (const bool divide : {false, true}) {
          const Shape shape{family, direction, n, g, k, 120, divide};
          if (family == Family::kFan && direction == Direction::kOmni) {
            EXPECT_EQ(why(shape), "a fan is not omni: its two sides differ");
            continue;
          }
          const int divisors[] = {n - 1, g, k * (n - 1), 1};
          const auto bytes = static_cast<uint64_t>(120 / (divide ? divisors[static_cast<int>(family)] : 1));
          const Plan plan = plan_of(shape);
          Matrix expected;
          uint64_t messages = 0;
          for (int source = 0; source < n * g; ++source)
            for (int destination = 0; destination < n * g; ++destination)
              if (const int count = times(shape, source, destination); count > 0) {
                expected[{source, destination}] = static_cast<uint64_t>(count) * bytes;
                messages += static_cast<uint64_t>(count);
              }
          EXPECT_EQ(matrix(plan), expected);
          EXPECT_EQ(plan.messages(), messages);
          EXPECT_EQ(plan.bytes(), messages * bytes);
          std::set<uint64_t> offsets;
          for (const Message& m : plan.steps()[0].messages())
            offsets.insert(m.offset);
          EXPECT_EQ(offsets.size(), messages) << "each message has data of its own";
        }
}

TEST(Families, SayWhatCannotBe) {
  EXPECT_EQ(why({Family::kRail, Direction::kOut, 1, 4, 4, 8}), "one node, and the pattern goes between nodes");
  EXPECT_EQ(why({Family::kRail, Direction::kOut, 2, 4, 5, 8}), "a subgroup of 5 places of 4");
  EXPECT_EQ(why({Family::kDense, Direction::kOut, 2, 4, 4, 3, true}), "3 bytes cannot be divided by 4");
  EXPECT_EQ(why({Family::kRail, Direction::kOut, 2, 4096, 1, 8}), "2 nodes of 4096 ranks: 4096 ranks are the most");
  EXPECT_EQ(why({Family::kRail, Direction::kOut, 2, 4, 1, 0}), "a message of 0 bytes: it has 1 to 2147483647");
}

// ---- Plans, carried out

// What verify() says of each rank that it finds wrong; and, by rank and address, the byte that came
// there last.
struct Outcome {
  std::vector<std::string> mistakes;
  std::map<std::pair<int, uint64_t>, std::byte> come;
};

// `loses`: the message of the first step that does not come.
Outcome carry_out(const Plan& plan, int ranks, int loses = -1) {
  std::vector<Layout> layouts;
  std::vector<std::vector<std::byte>> memories;
  for (int rank = 0; rank < ranks; ++rank) {
    layouts.emplace_back(plan, rank, ranks);
    layouts.back().fill(memories.emplace_back(layouts.back().bytes()), 7);
  }
  std::map<std::pair<int, uint64_t>, const std::byte*> come;
  for (size_t step = 0; step < plan.steps().size(); ++step) {
    std::vector<size_t> sent(layouts.size()), received(layouts.size()), combined(layouts.size());
    int number = 0;
    for (const Message& m : plan.steps()[step].messages()) {
      const auto source = static_cast<size_t>(m.source), destination = static_cast<size_t>(m.destination);
      const RankStep& theirs = layouts[destination].steps()[step];
      const Transfer& out = layouts[source].steps()[step].sends[sent[source]++];
      const Transfer& in = theirs.receives[received[destination]++];
      EXPECT_EQ(std::tuple(out.peer, out.bytes, in.peer, in.bytes),
                std::tuple(m.destination, m.bytes, m.source, m.bytes));
      if (step > 0 || number++ != loses)
        std::memcpy(&memories[destination][in.at], &memories[source][out.at], m.bytes);
      const size_t at = m.combines ? theirs.combinations[combined[destination]++].to : in.at;
      for (uint64_t i = 0; i < m.bytes; ++i)
        come[{m.destination, m.offset + i}] = &memories[destination][at + i];
    }
    for (size_t rank = 0; rank < layouts.size(); ++rank)
      for (const RankStep::Combination& c : layouts[rank].steps()[step].combinations)
        for (uint64_t i = 0; i < c.bytes; ++i)
          memories[rank][c.to + i] ^= memories[rank][c.from + i];
  }
  Outcome outcome;
  for (size_t rank = 0; rank < layouts.size(); ++rank)
    if (const auto mistake = layouts[rank].verify(memories[rank], 7))
      outcome.mistakes.push_back("rank " + std::to_string(rank) + ": " + *mistake);
  for (const auto& [place, byte] : come)
    outcome.come[place] = *byte;
  return outcome;
}

// That the plan brings what the messages would, each sent by itself.
void expect_same(const Plan& plan, const std::vector<Message>& direct, int ranks) {
  const Outcome outcome = carry_out(plan, ranks);
  EXPECT_EQ(outcome.mistakes, std::vector<std::string>());
  for (const Message& m : direct)
    for (uint64_t i = 0; i < m.bytes; ++i) {
      const auto found = outcome.come.find({m.destination, m.offset + i});
      ASSERT_NE(found, outcome.come.end());
      EXPECT_EQ(found->second, Payload({m.source, 0, 7}).at(m.offset + i));
    }
}

TEST(Plans, StripesCarryWhatTheDirectMessagesDo) {
  for (const uint64_t bytes : {1, 2, 3, 100, 101})
    for (const Family family : {Family::kRail, Family::kFan, Family::kDense, Family::kSelf}) {
      const Pattern direct = make_pattern({family, Direction::kBi, 3, 3, 2, bytes}).value();
      expect_same(Plan({direct}), direct.messages(), 9);
      expect_same(striped(direct, 3), direct.messages(), 9);
    }
}

TEST(Plans, StripesAreThoseOfThePaper) {
  const Plan plan = striped(Pattern({{0, 3, 0, 11}}), 3);  // parts of 4, 4 and 3 bytes
  EXPECT_EQ(messages_csv(plan),
            "step,source,destination,offset,bytes\n0,0,1,4,4\n0,0,2,8,3\n1,0,3,0,4\n1,1,4,4,4\n1,2,5,8,3\n"
            "2,4,3,4,4\n2,5,3,8,3\n");
  EXPECT_EQ(striped(Pattern({{0, 3, 0, 2}}), 3).messages(), 4u) << "an empty part has no message";
}

TEST(Plans, CollectivesBringEveryRankItsData) {
  const int sizes[][2] = {{1, 5}, {2, 4}, {4, 1}, {3, 2}};
  for (const auto& [nodes, group] : sizes) {
    const int ranks = nodes * group;
    std::vector<Message> broadcast, scatter, gather, all_to_all;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int to = 0; to < ranks; ++to)
        all_to_all.push_back({rank, to, static_cast<uint64_t>(rank * ranks + to) * 24, 24});
      if (rank == 0)
        continue;
      broadcast.push_back({0, rank, 0, 24});
      scatter.push_back({0, rank, static_cast<uint64_t>(rank) * 24, 24});
      gather.push_back({rank, 0, static_cast<uint64_t>(rank) * 24, 24});
    }
    const auto make = [&, n = nodes, g = group](Collective c) { return make_collective(c, n, g, 24).value(); };
    expect_same(make(Collective::kBroadcast), broadcast, ranks);
    expect_same(make(Collective::kScatter), scatter, ranks);
    expect_same(make(Collective::kGather), gather, ranks);
    expect_same(make(Collective::kAllToAll), all_to_all, ranks);
    const Outcome reduced = carry_out(make(Collective::kReduce), ranks);
    EXPECT_EQ(reduced.mistakes, std::vector<std::string>());
    for (uint64_t i = 0; i < 24; ++i) {
      std::byte all{};
      for (int rank = 0; rank < ranks; ++rank)
        all ^= Payload({rank, 0, 7}).at(i);
      EXPECT_EQ(reduced.come.at({0, i}), all);
    }
    // A block goes to its rank by way of the leader of its node; broadcast and reduction need a
    // message a rank.
    EXPECT_EQ(make(Collective::kReduce).messages(), broadcast.size());
    EXPECT_EQ(make(Collective::kScatter).messages(), scatter.size() + static_cast<size_t>((nodes - 1) * (group - 1)));
  }
}

TEST(Plans, ComposeOnDataOfTheirOwn) {
  const Plan dense = plan_of({Family::kDense, Direction::kOmni, 2, 2, 2, 24});
  const Plan broadcast = make_collective(Collective::kBroadcast, 2, 2, 100).value();
  for (const Plan& plan : {dense.then(broadcast), broadcast.then(dense), dense.beside(broadcast)}) {
    EXPECT_EQ(carry_out(plan, 4).mistakes, std::vector<std::string>());
    EXPECT_EQ(plan.bytes(), dense.bytes() + broadcast.bytes());
  }
  EXPECT_EQ(dense.then(broadcast).steps().size(), 3u);
  EXPECT_EQ(dense.beside(broadcast).steps().size(), 2u);
}

TEST(Plans, NameTheMessageThatDidNotCome) {
  const Plan plan = plan_of({Family::kRail, Direction::kOut, 2, 2, 2, 24});
  const std::vector<std::string> mistakes = carry_out(plan, 4, 1).mistakes;
  ASSERT_EQ(mistakes.size(), 1u);
  EXPECT_EQ(mistakes[0].substr(0, 63), "rank 3: byte 0 of 24 bytes received from rank 1 in step 0 is 0x");
}

// ---- Files

Result<Pattern> read(const std::string& text, uint64_t unit = 4) {
  std::ofstream(testing::TempDir() + "/file", std::ios::binary) << text;
  return read_pattern(testing::TempDir() + "/file", unit);
}

TEST(Files, AreMatricesAndTriples) {
  const std::tuple<const char*, uint64_t, Matrix> files[] = {
      {"3\n0 5 0\n0 1 0\n3 0 0\n", 4, {{{0, 1}, 20}, {{1, 1}, 4}, {{2, 0}, 12}}},
      {"0 1 5\n1 1 1\r\n\n2 0 3", 4, {{{0, 1}, 20}, {{1, 1}, 4}, {{2, 0}, 12}}},
      {"0 1 0\n1 0 5", 4, {{{1, 0}, 20}}},  // a count of 0 is no message
      {"0 7\n1 0 \n", 1, {{{0, 1}, 7}, {{1, 0}, 1}}},
  };
  for (const auto& [text, unit, expected] : files)
    EXPECT_EQ(matrix(Plan({read(text, unit).value()})), expected) << text;
}

TEST(Files, AreRefusedWithLineAndReason) {
  const std::pair<const char*, const char*> wrong[] = {
      {"", "1: no numbers"},
      {"2\n0 1\n", "3: ends after 1 of 2 rows"},
      {"2\n0 1\n0\n", "3: 1 counts in a row of 2"},
      {"0 1\n1 0 2\n", "2: 3 counts in a row of 2"},
      {"2\n0 1\n1 0\n1 0\n", "4: more than 2 rows"},
      {"2\n0 -1\n1 0\n", "2: '-1' is no whole number from 0 on"},
      {"2\n0 one\n1 0\n", "2: 'one' is no whole number from 0 on"},
      {"2\n0 1.5\n1 0\n", "2: '1.5' is no whole number from 0 on"},
      {"99999999999999999999\n", "1: '99999999999999999999' is no whole number from 0 on"},
      {"1000000000\n1 2\n", "1: a matrix of 1000000000 ranks: it has 1 to 4096"},
      {"0\n", "1: a matrix of 0 ranks: it has 1 to 4096"},
      {"2\n0 0\n0 0\n", "4: no message"},
      {"0 1 5\n1 0\n", "2: 2 numbers: a line has source, destination and count"},
      {"0 4096 5\n", "1: rank 4096 is none of 0 to 4095"},
      {"0 1 536870912\n", "1: 536870912 times 4 bytes: a message has at most 2147483647"},
  };
  for (const auto& [text, reason] : wrong)
    EXPECT_EQ(read(text).status().message(), testing::TempDir() + "/file:" + reason);
}

TEST(Options, MakeEveryCombinationThatDiffers) {
  PatternOptions o;
  o.patterns = {"rail", "self", "broadcast"};
  o.directions = {"out", "bi"};
  o.subgroups = {1, 2};
  o.group = 2;
  EXPECT_EQ(make_cases(o).value().size(), 2u * 2 * 2 + 1);
  o.order = PatternOptions::Order::kSequence;
  const auto sequences = make_cases(o).value();
  EXPECT_EQ(sequences.size(), 4u);
  EXPECT_EQ(sequences.at(0).name, "rail ; self ; broadcast");
  o.patterns = {"nowhere"};
  EXPECT_EQ(make_cases(o).status().message(), "nowhere: No such file or directory");
}

TEST(Description, DrawsOneSquareForEachPairOfRanks) {
  const Plan plan = plan_of({Family::kDense, Direction::kBi, 2, 3, 2, 24});
  const std::string svg = matrix_svg(plan, 3);
  size_t squares = 0;
  for (size_t at = 0; (at = svg.find("fill=\"rgb(", at)) != std::string::npos; ++at)
    ++squares;
  EXPECT_EQ(squares, 8u);
  EXPECT_EQ(matrix_text(plan_of({Family::kRail, Direction::kOut, 2, 1, 1, 24})),
            "# 2 ranks, 1 messages in 1 steps, 24 bytes\nfrom\\to          0          1\n"
            "      0          0         24\n      1          0          0\n");
}

}  // namespace
}  // namespace lanyard::bench::patterns
