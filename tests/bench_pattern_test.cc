// Patterns against closed forms: who sends how much to whom, and what is where afterwards.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/contents.h"
#include "bench/expectation.h"
#include "bench/pattern.h"
#include "bench/pattern_families.h"
#include "bench/plan.h"
#include "bench/plan_file.h"

namespace lanyard::bench {
namespace {

using Matrix = std::vector<uint64_t>;

Pattern taken(Result<Pattern> pattern) {
  EXPECT_TRUE(pattern.ok()) << pattern.status().message();
  return pattern.ok() ? pattern.value() : Pattern();
}
Plan taken(Result<Plan> plan) {
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? plan.value() : Plan();
}
std::string refusal(const Result<Pattern>& pattern) { return pattern.ok() ? "taken" : pattern.status().message(); }

// Whether the shape has a message from one rank to another: the definition, cell by cell.
bool has_edge(const Shape& s, int source, int destination) {
  const int from = source / s.group, to = destination / s.group;
  const int i = source % s.group, j = destination % s.group;
  if (s.family == Family::kSelf)
    return source == destination && i < s.subgroup;
  const auto outward = [&](int place_out, int place_in) {
    switch (s.family) {
      case Family::kRail: return place_out == place_in && place_out < s.subgroup;
      case Family::kFan: return place_out < s.subgroup;
      default: return place_out < s.subgroup && place_in < s.subgroup;
    }
  };
  const bool out = from == 0 && to != 0 && outward(i, j);
  const bool in = to == 0 && from != 0 && outward(j, i);
  switch (s.direction) {
    case Direction::kOut: return out;
    case Direction::kIn: return in;
    case Direction::kBi: return out || in;
    default: return from != to && outward(i, j);
  }
}

// The number of messages, by the formulas.
int edges_of(const Shape& s) {
  const int others = s.nodes - 1, k = s.subgroup;
  const int a_pair = s.family == Family::kRail ? k : s.family == Family::kFan ? k * s.group : k * k;
  if (s.family == Family::kSelf)
    return s.nodes * k;
  switch (s.direction) {
    case Direction::kBi: return 2 * a_pair * others;
    case Direction::kOmni: return a_pair * s.nodes * others;
    default: return a_pair * others;
  }
}

TEST(Families, HaveTheirEdgesAndNoOthers) {
  int shapes = 0;
  for (const Family family : {Family::kRail, Family::kFan, Family::kDense, Family::kSelf})
    for (const Direction direction : {Direction::kOut, Direction::kIn, Direction::kBi, Direction::kOmni})
      for (int nodes = 1; nodes <= 4; ++nodes)
        for (int group = 1; group <= 4; ++group)
          for (int subgroup = 1; subgroup <= group; ++subgroup) {
            const Shape shape{nodes, group, subgroup, family, direction, 24};
            const bool is_fan = family == Family::kFan, is_self = family == Family::kSelf;
            if ((is_self && direction != Direction::kOut) || (!is_self && nodes == 1) || (is_fan && nodes != 2) ||
                (is_fan && direction == Direction::kOmni)) {
              EXPECT_FALSE(make_pattern(shape).ok());
              continue;
            }
            const Pattern pattern = taken(make_pattern(shape));
            const int ranks = nodes * group;
            Matrix expected;
            for (int source = 0; source < ranks; ++source)
              for (int destination = 0; destination < ranks; ++destination)
                expected.push_back(has_edge(shape, source, destination) ? 24 : 0);
            EXPECT_EQ(pattern.matrix(ranks), expected);
            EXPECT_EQ(static_cast<int>(pattern.messages().size()), edges_of(shape));
            EXPECT_EQ(pattern.bytes(), 24u * static_cast<uint64_t>(edges_of(shape)));
            ++shapes;
          }
  // Rail and dense: 3 numbers of nodes in 4 directions; fan: one in 3; self: 4 in 1; each with 10 groups and subgroups.
  EXPECT_EQ(shapes, (2 * 3 * 4 + 3 + 4) * 10);
}

TEST(Families, AFanOfAllIsDense) {
  for (const Direction direction : {Direction::kOut, Direction::kIn, Direction::kBi})
    EXPECT_EQ(taken(make_pattern({2, 3, 3, Family::kFan, direction, 8})),
              taken(make_pattern({2, 3, 3, Family::kDense, direction, 8})));
}

TEST(Families, SayWhatThereIsNot) {
  const auto why = [](const Shape& shape) { return refusal(make_pattern(shape)); };
  EXPECT_EQ(why({2, 3, 4, Family::kRail, Direction::kOut, 8}), "a subgroup of 4 ranks in a group of 3: it has 1 to 3");
  EXPECT_EQ(why({1, 3, 3, Family::kDense, Direction::kOut, 8}), "1 node: between nodes there are at least 2");
  EXPECT_EQ(why({3, 3, 3, Family::kFan, Direction::kOut, 8}), "3 nodes: a fan is between 2");
  EXPECT_EQ(why({2, 3, 3, Family::kFan, Direction::kOmni, 8}),
            "a fan goes out, in or bi: omni is of nodes that are alike");
  EXPECT_EQ(why({2, 3, 3, Family::kSelf, Direction::kBi, 8}), "what goes to itself has no direction: leave it at out");
  EXPECT_EQ(why({2, 5000, 5000, Family::kDense, Direction::kOut, 8}), "25000000 messages: 16777216 are the most");
  EXPECT_EQ(why({2, 5000, 3000, Family::kFan, Direction::kBi, 8}), "30000000 messages: 16777216 are the most");
  EXPECT_EQ(why({1 << 20, 1, 1, Family::kRail, Direction::kOmni, 8}), "1099510579200 messages: 16777216 are the most");
  EXPECT_EQ(why({2, 3, 3, Family::kRail, Direction::kOut, 0}), "message 0: 0 bytes, and a message has 1 to 2147483647");
}

TEST(Patterns, RefuseMessagesThatDisturbEachOther) {
  const auto why = [](std::vector<Message> messages) { return refusal(Pattern::of(std::move(messages))); };
  EXPECT_EQ(why({{0, 1, 0, 0, 8}, {2, 1, 0, 7, 8}}), "message 0 writes and message 1 writes bytes 7 to 7 of rank 1");
  EXPECT_EQ(why({{0, 1, 0, 0, 8}, {1, 0, 4, 16, 8}}), "message 0 writes and message 1 reads bytes 4 to 7 of rank 1");
  EXPECT_EQ(why({{0, 0, 0, 4, 8}}), "message 0 reads and message 0 writes bytes 4 to 7 of rank 0");
  // A long one that another lies within, behind a third.
  EXPECT_EQ(why({{0, 1, 0, 0, 90}, {0, 1, 0, 100, 8}, {1, 2, 20, 0, 4}}),
            "message 0 writes and message 2 reads bytes 20 to 23 of rank 1");
  EXPECT_EQ(why({{0, 1, 0, 0, 8}, {0, 2, 4, 0, 8}, {2, 1, 8, 8, 8}}), "taken");  // reading twice is fine
  EXPECT_EQ(why({{-1, 1, 0, 0, 8}}), "message 0: rank -1 is none of 0 to 1048575");
  EXPECT_EQ(why({{0, 1, UINT64_MAX, 0, 8}}),
            "message 0: offset 18446744073709551615 is beyond 1099511627776 bytes of memory");
}

TEST(Patterns, FallApartIntoWhatStaysInANodeAndWhatLeavesIt) {
  const Pattern all = taken(make_irregular(kIrregular16));
  const Pattern within = all.within(4), between = all.between(4);
  EXPECT_EQ(within.bytes() + between.bytes(), all.bytes());
  const Matrix matrix = within.matrix(16);
  for (size_t i = 0; i < matrix.size(); ++i)
    EXPECT_EQ(matrix[i] != 0, all.matrix(16)[i] != 0 && i / 16 / 4 == i % 16 / 4);
  EXPECT_GT(between.bytes(), 0u);
  EXPECT_EQ(taken(within.with(between)).matrix(16), all.matrix(16));
}

void expect_shape(const IrregularShape& shape) {
  const Pattern pattern = taken(make_irregular(shape));
  EXPECT_EQ(pattern, taken(make_irregular(shape)));
  EXPECT_EQ(static_cast<int>(pattern.messages().size()), shape.messages);
  EXPECT_EQ(pattern.bytes(), shape.bytes);
  const size_t side = static_cast<size_t>(shape.ranks);
  const Matrix matrix = pattern.matrix(shape.ranks);
  std::vector<int> rows(side);
  bool is_symmetric = true;
  for (size_t row = 0; row < side; ++row) {
    EXPECT_GT(matrix[row * side + row], 0u) << "the diagonal";
    for (size_t column = 0; column < side; ++column) {
      rows[row] += matrix[row * side + column] > 0 ? 1 : 0;
      is_symmetric = is_symmetric && (matrix[row * side + column] > 0) == (matrix[column * side + row] > 0);
    }
  }
  EXPECT_EQ(*std::min_element(rows.begin(), rows.end()), shape.least);
  EXPECT_EQ(*std::max_element(rows.begin(), rows.end()), shape.most);
  EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), 0), shape.messages);  // no two messages in one place
  EXPECT_FALSE(is_symmetric);
}

TEST(Irregular, MatricesHaveTheShapesOfTheApplication) {
  EXPECT_EQ(kIrregular16.ranks, 16);
  EXPECT_EQ(kIrregular16.messages, 169);
  EXPECT_EQ(kIrregular48.messages, 974);
  expect_shape(kIrregular16);
  expect_shape(kIrregular48);
  for (uint64_t seed = 2; seed < 20; ++seed)
    expect_shape({.ranks = 5, .messages = 14, .least = 2, .most = 4, .bytes = 1000, .seed = seed});
  EXPECT_FALSE(make_irregular({.ranks = 4, .messages = 16, .least = 4, .most = 4, .bytes = 100}).ok());
  EXPECT_FALSE(make_irregular({.ranks = 4, .messages = 7, .least = 2, .most = 3, .bytes = 100}).ok());
  EXPECT_FALSE(make_irregular({.ranks = 4, .messages = 10, .least = 2, .most = 3, .bytes = 9}).ok());
}

std::vector<Piece> piece(uint64_t bytes, std::vector<Origin> origins) { return {{bytes, std::move(origins)}}; }

TEST(Collectives, LeaveWhatTheyPromise) {
  constexpr uint64_t d = 70, block = 128;
  for (int ranks = 2; ranks <= 9; ++ranks) {
    const auto after = [&](Collective collective) {
      return outcome(taken(make_collective(collective, ranks, d)), ranks).memories;
    };
    const auto at = [](int i) { return static_cast<size_t>(i); };
    const auto place = [&](int i) { return static_cast<uint64_t>(i) * block; };
    std::vector<Origin> everyone;
    for (int r = 0; r < ranks; ++r)
      everyone.push_back({r, 0});
    const std::vector<Contents> scattered = after(Collective::kScatter), gathered = after(Collective::kGather),
                                exchanged = after(Collective::kAllToAll), flat = after(Collective::kBroadcast),
                                tree = after(Collective::kBroadcastTree);
    for (int r = 0; r < ranks; ++r) {
      EXPECT_EQ(flat[at(r)].read(0, d), piece(d, {{0, 0}}));
      EXPECT_EQ(tree[at(r)].read(0, d), piece(d, {{0, 0}}));
      if (r > 0) {
        EXPECT_EQ(scattered[at(r)].read(0, d), piece(d, {{0, place(r)}}));
        EXPECT_EQ(gathered[0].read(place(r), d), piece(d, {{r, 0}}));
      }
      for (int s = 0; s < ranks; ++s)
        EXPECT_EQ(exchanged[at(s)].read(place(ranks + r), d), piece(d, {{r, place(s)}}));
    }
    EXPECT_EQ(after(Collective::kReduce)[0].read(0, d), piece(d, everyone));
    EXPECT_EQ(after(Collective::kReduceTree)[0].read(0, d), piece(d, everyone));
  }
  EXPECT_EQ(taken(make_collective(Collective::kBroadcastTree, 9, d)).steps().size(), 4u);
  EXPECT_EQ(taken(make_collective(Collective::kReduceTree, 8, d)).steps().size(), 3u);
  EXPECT_EQ(taken(make_collective(Collective::kBroadcastTree, 9, d)).messages(), 8u);
  EXPECT_FALSE(make_collective(Collective::kScatter, 1, d).ok());
  EXPECT_EQ(make_collective(Collective::kAllToAll, 1 << 20, d).status().message(),
            "1099511627776 messages: 16777216 are the most");
}

std::vector<std::byte> bytes_at(const Contents& contents, uint64_t offset, uint64_t bytes) {
  std::vector<std::byte> all;
  for (const Piece& piece : contents.read(offset, bytes)) {
    std::vector<std::byte> part(piece.bytes);
    Beginning(7).write(piece, part, false);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

TEST(Striping, BringsWhatTheDirectMessageBrings) {
  const std::vector<std::vector<uint64_t>> cuts = {{1000},      even_stripes(1000, 3), even_stripes(2, 3),
                                                   {1, 998, 1}, {0, 500, 500, 0},      {333, 0, 667}};
  EXPECT_EQ(cuts[1], (std::vector<uint64_t>{334, 333, 333}));
  for (const std::vector<uint64_t>& stripes : cuts) {
    const int group = static_cast<int>(stripes.size());
    const uint64_t bytes = std::accumulate(stripes.begin(), stripes.end(), uint64_t{0});
    const Plan direct = taken(make_direct(group, bytes)), striped = taken(make_striped(stripes));
    const auto target = [&](const Plan& plan) {
      const uint64_t behind = direct.steps()[0].pattern.messages()[0].destination_offset;
      const std::vector<Contents> memories = outcome(plan, 2 * group).memories;
      EXPECT_EQ(memories[static_cast<size_t>(group)].read(behind, bytes), piece(bytes, {{0, 0}}));
      return bytes_at(memories[static_cast<size_t>(group)], behind, bytes);
    };
    EXPECT_EQ(target(striped), target(direct));
    // Only the middle step leaves the node, and each rank's stripe does so once.
    EXPECT_EQ(striped.between(group).bytes(), bytes);
    EXPECT_EQ(striped.within(group).bytes(), 2 * (bytes - stripes[0]));
  }
  EXPECT_EQ(taken(make_striped(cuts[1])).steps().size(), 3u);
  EXPECT_EQ(taken(make_striped(cuts[0])).steps().size(), 1u);
  EXPECT_FALSE(make_striped(std::vector<uint64_t>{0, 0}).ok());
  EXPECT_FALSE(make_striped({}).ok());
}

TEST(Plans, AreComposed) {
  const Plan rail(taken(make_pattern({2, 2, 2, Family::kRail, Direction::kOut, 100})));
  const Plan tree = taken(make_collective(Collective::kReduceTree, 4, 10));
  EXPECT_EQ(rail.then(tree).steps().size(), 3u);
  const Plan both = taken(rail.beside(tree));
  EXPECT_EQ(both.steps().size(), 2u);
  EXPECT_EQ(both.bytes(), rail.bytes() + tree.bytes());
  // Each as if it were alone, the second behind the first.
  const std::vector<Contents> memories = outcome(both, 4).memories;
  EXPECT_EQ(memories[0].read(128, 10), piece(10, {{0, 128}, {1, 128}, {2, 128}, {3, 128}}));
  EXPECT_EQ(memories[2].read(0, 100), piece(100, {{0, 0}}));
}

// What a pattern takes is by its messages, not by the numbers of its ranks.
TEST(Patterns, MayHaveTheHighestRankAlone) {
  const int last = Pattern::kMostRanks - 1;
  const Pattern pattern = taken(Pattern::of({{0, last, 4, 8, 16}}));
  EXPECT_EQ(pattern.ranks(), Pattern::kMostRanks);
  EXPECT_EQ(pattern.memory(0), 20u);
  EXPECT_EQ(pattern.memory(1), 0u);
  EXPECT_EQ(pattern.memory(last), 24u);
  EXPECT_EQ(Pattern().ranks(), 0);
}

TEST(ContentsOfMemory, FollowMessagesByteByByte) {
  Contents memory(3, 100);
  EXPECT_EQ(memory.read(0, 100), piece(100, {{3, 0}}));
  memory.write(10, piece(20, {{1, 5}}));
  EXPECT_EQ(memory.read(0, 100), (std::vector<Piece>{{10, {{3, 0}}}, {20, {{1, 5}}}, {70, {{3, 30}}}}));
  memory.write(10, piece(20, {{3, 10}}));
  EXPECT_EQ(memory.read(0, 100), piece(100, {{3, 0}}));
  EXPECT_EQ(combined(piece(8, {{0, 0}}), {{4, {{1, 0}}}, {4, {{0, 4}}}}),
            (std::vector<Piece>{{4, {{0, 0}, {1, 0}}}, {4, {}}}));
}

// Carries out a plan on real bytes: what every back end has to do.
std::vector<std::vector<std::byte>> carried_out(const Plan& plan, std::vector<std::vector<std::byte>> memories) {
  for (const Step& step : plan.steps()) {
    for (const Message& m : step.pattern.messages())
      std::copy_n(memories[static_cast<size_t>(m.source)].begin() + static_cast<int64_t>(m.source_offset), m.bytes,
                  memories[static_cast<size_t>(m.destination)].begin() + static_cast<int64_t>(m.destination_offset));
    for (const Combine& c : step.combines)
      for (uint64_t i = 0; i < c.bytes; ++i)
        memories[static_cast<size_t>(c.rank)][c.to + i] ^= memories[static_cast<size_t>(c.rank)][c.from + i];
  }
  return memories;
}

std::vector<Plan> many_plans() {
  std::vector<Plan> plans;
  for (int collective = 0; collective <= static_cast<int>(Collective::kAllToAll); ++collective)
    plans.push_back(taken(make_collective(static_cast<Collective>(collective), 6, 13)));
  plans.push_back(taken(make_striped(std::vector<uint64_t>{5, 0, 77})));
  plans.push_back(plans.back().then(plans[4]));
  plans.push_back(taken(plans[1].beside(plans[6])));
  plans.emplace_back(
      taken(make_irregular({.ranks = 6, .messages = 17, .least = 2, .most = 5, .bytes = 300, .seed = 3})));
  plans.emplace_back(taken(make_pattern({2, 3, 2, Family::kSelf, Direction::kOut, 1})));
  return plans;
}

TEST(Expectations, HoldForARightRunAndFindEveryMissingMessage) {
  size_t dropped = 0;
  for (const Plan& plan : many_plans()) {
    std::vector<Expectation> expected;
    std::vector<std::vector<std::byte>> memories;
    for (int rank = 0; rank < 6; ++rank) {
      expected.emplace_back(plan, rank, 6);
      memories.emplace_back(expected.back().bytes());
      expected.back().begin(42, memories.back());
    }
    const auto mistakes = [&](const Plan& run, uint64_t round) {
      const auto after = carried_out(run, memories);
      int found = 0;
      for (size_t rank = 0; rank < 6; ++rank)
        found += expected[rank].mistake(round, after[rank]) ? 1 : 0;
      return found;
    };
    EXPECT_EQ(mistakes(plan, 42), 0);
    EXPECT_GT(mistakes(plan, 41), 0) << "what an earlier round would have brought";
    for (size_t step = 0; step < plan.steps().size(); ++step)
      for (size_t i = 0; i < plan.steps()[step].pattern.messages().size(); ++i) {
        std::vector<Step> steps(plan.steps().begin(), plan.steps().end());
        std::vector<Message> left(steps[step].pattern.messages().begin(), steps[step].pattern.messages().end());
        left.erase(left.begin() + static_cast<int64_t>(i));
        steps[step].pattern = taken(Pattern::of(left));
        EXPECT_GT(mistakes(Plan(steps), 42), 0) << "step " << step << " without message " << i;
        ++dropped;
      }
  }
  EXPECT_GT(dropped, 100u);
}

// A reduction that is repeated combines again what it has combined.
TEST(Expectations, AreOfAsManyRepetitionsAsThereAre) {
  for (const Plan& plan : many_plans())
    for (const int times : {2, 3}) {
      std::vector<Expectation> expected;
      std::vector<std::vector<std::byte>> memories;
      for (int rank = 0; rank < 6; ++rank) {
        expected.emplace_back(plan, rank, 6, times);
        memories.emplace_back(expected.back().bytes());
        expected.back().begin(5, memories.back());
      }
      for (int i = 0; i < times; ++i)
        memories = carried_out(plan, memories);
      for (size_t rank = 0; rank < 6; ++rank)
        EXPECT_EQ(expected[rank].mistake(5, memories[rank]).value_or(""), "");
    }
}

TEST(Expectations, NameTheMessage) {
  const Plan plan = taken(make_striped(std::vector<uint64_t>{10, 20}));
  const Expectation expected(plan, 2, 4);
  std::vector<std::byte> memory(expected.bytes());
  expected.begin(1, memory);
  const std::string what = expected.mistake(1, memory).value_or("");
  EXPECT_NE(what.find("byte 64 of rank 2"), std::string::npos) << what;
  EXPECT_NE(what.find("message 0 of step 1, from rank 0 to rank 2, 10 bytes"), std::string::npos) << what;
}

TEST(PlanFiles, AreReadAsTheyAreWritten) {
  const Plan plan = taken(make_striped(std::vector<uint64_t>{5, 6, 7}));
  EXPECT_EQ(taken(parse_plan(to_csv(plan), "x")), plan);
  const Plan other =
      taken(parse_plan("bytes,destination,source,destination_offset,source_offset\r\n9,1,0,4,3\r\n", "x"));
  EXPECT_EQ(other, Plan(taken(Pattern::of({{0, 1, 3, 4, 9}}))));
}

TEST(PlanFiles, SayWhatIsWrongAndWhere) {
  const auto why = [](const std::string& text) {
    const Result<Plan> plan = parse_plan(text, "x");
    return plan.ok() ? "taken" : plan.status().message();
  };
  const std::string header = "step,source,destination,source_offset,destination_offset,bytes\n";
  EXPECT_EQ(why(""), "x: no message");
  EXPECT_EQ(why(header), "x: no message");
  EXPECT_EQ(why("source,bytes\n"), "x:1: no column 'destination'");
  EXPECT_EQ(why("source,source\n"), "x:1: column 'source' twice");
  EXPECT_EQ(why("from,to\n"),
            "x:1: 'from' is no column: there are step, source, destination, source_offset, destination_offset, bytes");
  EXPECT_EQ(why(header + "0,0,1,0,0\n"), "x:2: 5 fields, and the header has 6");
  EXPECT_EQ(why(header + "\n0,0,1,0,-4,8\n"), "x:3: destination_offset is '-4', and no whole number from 0 on");
  EXPECT_EQ(why(header + "0,0,1,0,0,\n"), "x:2: bytes is '', and no whole number from 0 on");
  EXPECT_EQ(why(header + "0,0,9999999,0,0,8\n"), "x:2: rank 9999999 is none of 0 to 1048575");
  EXPECT_EQ(why(header + "0,0,1,0,0,0\n"), "x:2: message 0: 0 bytes, and a message has 1 to 2147483647");
  EXPECT_EQ(why(header + "1,0,1,0,0,8\n"), "x: step 0 has no message");
  EXPECT_EQ(why(header + "0,0,1,0,0,8\n0,2,1,0,0,8\n"),
            "x: of step 0, messages counted from 0, message 0 writes and message 1 writes bytes 0 to 7 of rank 1");
}

TEST(PlanFiles, ThatAreNoneCannotBeRead) {
  EXPECT_EQ(read_text("/nowhere/at/all").status().message(), "/nowhere/at/all: cannot be read");
  EXPECT_EQ(read_text("/").status().message(), "/: cannot be read");  // opens, and fails when it is read
  const Result<std::string> empty = read_text("/dev/null");
  ASSERT_TRUE(empty.ok());
  EXPECT_EQ(empty.value(), "");
}

}  // namespace
}  // namespace lanyard::bench
