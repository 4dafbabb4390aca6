// Persistent collectives on streams: results of every one of them, on as many processes as the test is run with, and
// what is refused.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <complex>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

// A request that is matched, and freed at the end.
class Collective {
 public:
  Collective() = default;
  // By a call and all of its arguments but the last two.
  template <typename Init, typename... Arguments>
  explicit Collective(Init init, Arguments... arguments) {
    EXPECT_TRUE(ok(init(arguments..., MPI_INFO_NULL, &request_)));
  }
  ~Collective() { free(); }
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  MPI_Request* address() { return &request_; }
  MPI_Request handle() const { return request_; }
  void match() { EXPECT_TRUE(ok(MPIX_Match(&request_, MPI_STATUS_IGNORE))); }
  void start(MPIX_Queue queue) { EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request_))); }
  void wait(MPIX_Queue queue) { EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request_))); }
  void free() {
    if (request_ != MPI_REQUEST_NULL) {
      EXPECT_TRUE(ok(MPI_Request_free(&request_)));
    }
  }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

struct Collectives : Misuse {
  void run(Collective& collective) {
    collective.start(queue);
    collective.wait(queue);
    queue.wait();
  }
  // All processes in a line, or in a ring.
  MPI_Comm row(bool closed) {
    const int size = ranks(), periodic = closed ? 1 : 0;
    EXPECT_TRUE(ok(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &row_)));
    return row_;
  }
  void TearDown() override {
    if (row_ != MPI_COMM_NULL)
      MPI_Comm_free(&row_);
    Misuse::TearDown();
  }
  int lower() const { return (rank() + ranks() - 1) % ranks(); }
  int higher() const { return (rank() + 1) % ranks(); }
  MPI_Comm row_ = MPI_COMM_NULL;
  int value(int of, int i, int round) const { return 1000 * round + 17 * of + i; }
};

constexpr int kRounds = 5;
constexpr int kCount = 33;

TEST_F(Collectives, NobodyPassesABarrierBeforeAllHaveCome) {
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  barrier.match();
  // How far each process is, in memory that all of them see.
  MPI_Win window = MPI_WIN_NULL;
  int* own = nullptr;
  ASSERT_TRUE(ok(MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &own, &window)));
  std::vector<int*> all;
  for (int other = 0; other < ranks(); ++other) {
    MPI_Aint bytes = 0;
    int unit = 0;
    int* theirs = nullptr;
    MPI_Win_shared_query(window, other, &bytes, &unit, &theirs);
    all.push_back(theirs);
  }
  *own = 0;
  step("all have begun");
  for (int round = 1; round <= kRounds; ++round) {
    if (rank() == round % ranks())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic_ref(*own).store(round);
    run(barrier);
    for (int* theirs : all)
      EXPECT_GE(std::atomic_ref(*theirs).load(), round);
  }
  MPI_Win_free(&window);
}

TEST_F(Collectives, ABroadcastReachesAll) {
  for (const int root : {0, ranks() - 1}) {
    std::vector<int> data(kCount);
    Collective broadcast(MPIX_Bcast_init, data.data(), kCount, MPI_INT, root, MPI_COMM_WORLD);
    broadcast.match();
    for (int round = 0; round < kRounds; ++round) {
      for (int i = 0; i < kCount; ++i)
        data[static_cast<size_t>(i)] = rank() == root ? value(root, i, round) : -1;
      run(broadcast);
      for (int i = 0; i < kCount; ++i)
        EXPECT_EQ(data[static_cast<size_t>(i)], value(root, i, round));
    }
  }
}

TEST_F(Collectives, AllgatherGathersInPlaceToo) {
  for (const bool in_place : {false, true}) {
    std::vector<int> own(kCount), all(static_cast<size_t>(kCount * ranks()));
    const size_t mine = static_cast<size_t>(kCount * rank());
    Collective gather(MPIX_Allgather_init, in_place ? MPI_IN_PLACE : own.data(), kCount, MPI_INT, all.data(), kCount,
                      MPI_INT, MPI_COMM_WORLD);
    gather.match();
    for (int round = 0; round < kRounds; ++round) {
      std::fill(all.begin(), all.end(), -1);
      for (int i = 0; i < kCount; ++i)
        (in_place ? all[mine + static_cast<size_t>(i)] : own[static_cast<size_t>(i)]) = value(rank(), i, round);
      run(gather);
      for (int of = 0; of < ranks(); ++of)
        for (int i = 0; i < kCount; ++i)
          EXPECT_EQ(all[static_cast<size_t>(kCount * of + i)], value(of, i, round));
    }
  }
}

TEST_F(Collectives, AllgathervTakesUnevenBlocks) {
  std::vector<int> counts, displacements;
  int end = 0;
  for (int of = 0; of < ranks(); ++of) {
    counts.push_back(of % 3 == 1 ? 0 : of + 1);
    displacements.push_back(end + 2);
    end += 2 + counts.back();
  }
  std::vector<int> own(static_cast<size_t>(ranks() + 1)), all(static_cast<size_t>(end + 1), -1);
  Collective gather(MPIX_Allgatherv_init, own.data(), counts[static_cast<size_t>(rank())], MPI_INT, all.data(),
                    counts.data(), displacements.data(), MPI_INT, MPI_COMM_WORLD);
  gather.match();
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < own.size(); ++i)
      own[i] = value(rank(), static_cast<int>(i), round);
    run(gather);
    std::vector<int> expected(all.size(), -1);
    for (size_t of = 0; of < counts.size(); ++of)
      for (int i = 0; i < counts[of]; ++i)
        expected[static_cast<size_t>(displacements[of] + i)] = value(static_cast<int>(of), i, round);
    EXPECT_EQ(all, expected);
  }
}

// ---- Allreduce

// What MPI's own collective gives for integers, bit by bit; all operations that both define.
template <typename T>
void compare_with_mpi(MPIX_Queue queue, MPI_Datatype datatype, std::initializer_list<MPI_Op> operations) {
  for (const MPI_Op op : operations) {
    for (const bool in_place : {false, true}) {
      std::vector<T> own(kCount), result(kCount), expected(kCount);
      Collective reduce(MPIX_Allreduce_init, in_place ? MPI_IN_PLACE : own.data(), result.data(), kCount, datatype, op,
                        MPI_COMM_WORLD);
      reduce.match();
      for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < kCount; ++i)
          own[static_cast<size_t>(i)] = static_cast<T>((rank() + 2) * (i - 5) + round);
        MPI_Allreduce(own.data(), expected.data(), kCount, datatype, op, MPI_COMM_WORLD);
        if (in_place)
          result = own;
        reduce.start(queue);
        reduce.wait(queue);
        EXPECT_TRUE(ok(MPIX_Queue_wait(queue)));
        EXPECT_EQ(result, expected);
      }
    }
  }
}

TEST_F(Collectives, IntegersAreReducedAsByMpi) {
  const auto all = {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR};
  compare_with_mpi<int>(queue, MPI_INT, all);
  // (Open MPI 4.1 adds bytes with saturation where the processor can, and MPICH 4.0 compares them with their sign.)
  compare_with_mpi<unsigned char>(queue, MPI_UNSIGNED_CHAR, {MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR, MPI_BXOR});
  compare_with_mpi<short>(queue, MPI_SHORT, {MPI_SUM, MPI_MAX});
  compare_with_mpi<long>(queue, MPI_LONG, {MPI_SUM, MPI_MIN});
  compare_with_mpi<uint64_t>(queue, MPI_UINT64_T, {MPI_PROD, MPI_BXOR});
  compare_with_mpi<unsigned char>(queue, MPI_BYTE, {MPI_BAND, MPI_BOR, MPI_BXOR});
  compare_with_mpi<MPI_Aint>(queue, MPI_AINT, {MPI_SUM, MPI_MAX});
  compare_with_mpi<int>(queue, MPI_INTEGER, {MPI_SUM, MPI_MAX});
  compare_with_mpi<double>(queue, MPI_DOUBLE, {MPI_MAX, MPI_MIN});
}

TEST_F(Collectives, RealNumbersAreAddedInTheOrderOfRanks) {
  const auto contribution = [](int of, int i) { return 1.0 / (3 * of + i + 1) * (of % 2 == 0 ? 1e10 : 1); };
  std::vector<double> own(kCount), result(kCount);
  Collective sum(MPIX_Allreduce_init, own.data(), result.data(), kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  sum.match();
  for (int i = 0; i < kCount; ++i)
    own[static_cast<size_t>(i)] = contribution(rank(), i);
  for (int round = 0; round < kRounds; ++round) {
    std::fill(result.begin(), result.end(), -1);
    run(sum);
    for (int i = 0; i < kCount; ++i) {
      double expected = contribution(0, i);
      for (int of = 1; of < ranks(); ++of)
        expected = expected + contribution(of, i);
      EXPECT_EQ(result[static_cast<size_t>(i)], expected);
    }
  }
}

TEST_F(Collectives, ComplexNumbersAndPairsAreReduced) {
  std::complex<double> factor(1, rank()), product;
  Collective complex(MPIX_Allreduce_init, &factor, &product, 1, MPI_C_DOUBLE_COMPLEX, MPI_PROD, MPI_COMM_WORLD);
  struct Pair {
    short value;
    int index;
  } own{static_cast<short>(rank() / 2), rank()}, largest{}, smallest{};
  Collective last(MPIX_Allreduce_init, &own, &largest, 1, MPI_SHORT_INT, MPI_MAXLOC, MPI_COMM_WORLD);
  Collective first(MPIX_Allreduce_init, &own, &smallest, 1, MPI_SHORT_INT, MPI_MINLOC, MPI_COMM_WORLD);
  std::vector<MPI_Request> all{complex.handle(), last.handle(), first.handle()};
  ASSERT_TRUE(ok(MPIX_Matchall(3, all.data(), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, 3, all.data())));
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, 3, all.data())));
  queue.wait();
  std::complex<double> expected(1, 0);
  for (int of = 1; of < ranks(); ++of)
    expected *= std::complex<double>(1, of);
  EXPECT_EQ(product, expected);
  EXPECT_EQ(largest.value, (ranks() - 1) / 2);
  EXPECT_EQ(largest.index, (ranks() - 1) / 2 * 2) << "of equal values the lower index";
  EXPECT_EQ(smallest.value, 0);
  EXPECT_EQ(smallest.index, 0);
}

TEST_F(Collectives, NothingIsReducedToNothing) {
  Collective none(MPIX_Allreduce_init, nullptr, nullptr, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  none.match();
  run(none);
}

// ---- Neighbours

// On a grid that is a ring of all processes in one dimension, and closed upon itself in the other.
TEST_F(Collectives, MessagesGoAlongTheDimensionsOfAGrid) {
  MPI_Comm grid = MPI_COMM_NULL;
  const int sizes[] = {ranks(), 1}, periodic[] = {1, 1};
  ASSERT_TRUE(ok(MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periodic, 0, &grid)));
  int out[4], in[4];
  Collective exchange(MPIX_Neighbor_alltoall_init, out, 1, MPI_INT, in, 1, MPI_INT, grid);
  exchange.match();
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 4; ++i)
      out[i] = value(rank(), i, round);
    run(exchange);
    EXPECT_EQ(in[0], value(lower(), 1, round)) << "what the lower one sent upwards";
    EXPECT_EQ(in[1], value(higher(), 0, round));
    EXPECT_EQ(in[2], value(rank(), 3, round));
    EXPECT_EQ(in[3], value(rank(), 2, round));
  }
  MPI_Comm_free(&grid);
}

TEST_F(Collectives, AnOpenGridHasNoNeighboursAtItsEnds) {
  const MPI_Comm line = row(false);
  int out[2] = {value(rank(), 0, 0), value(rank(), 1, 0)}, in[2] = {-1, -1};
  const int counts[] = {1, 1}, displacements[] = {0, 1};
  Collective exchange(MPIX_Neighbor_alltoallv_init, out, counts, displacements, MPI_INT, in, counts, displacements,
                      MPI_INT, line);
  exchange.match();
  run(exchange);
  EXPECT_EQ(in[0], rank() == 0 ? -1 : value(rank() - 1, 1, 0));
  EXPECT_EQ(in[1], rank() == ranks() - 1 ? -1 : value(rank() + 1, 0, 0));
}

// Every process sends to rank 0 twice, and to nobody else; with columns of a matrix.
TEST_F(Collectives, AGraphMayHaveSeveralEdgesBetweenTwo) {
  MPI_Comm graph = MPI_COMM_NULL;
  std::vector<int> sources;
  for (int of = 0; of < ranks() && rank() == 0; ++of)
    sources.insert(sources.end(), 2, of);
  const int destinations[] = {0, 0};
  ASSERT_TRUE(
      ok(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
                                        MPI_UNWEIGHTED, 2, destinations, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph)));
  constexpr int kRows = 4, kColumns = 3;
  MPI_Datatype column = MPI_DATATYPE_NULL;
  MPI_Type_vector(kRows, 1, kColumns, MPI_INT, &column);
  MPI_Type_commit(&column);
  std::vector<int> matrix(kRows * kColumns), in(sources.size() * kRows, -1);
  std::iota(matrix.begin(), matrix.end(), 100 * rank());
  const std::vector<int> ones{1, 1};
  const std::vector<MPI_Aint> from{0, 2 * sizeof(int)};
  std::vector<MPI_Aint> to;
  std::vector<int> rows(sources.size(), kRows);
  for (size_t i = 0; i < sources.size(); ++i)
    to.push_back(static_cast<MPI_Aint>(i * kRows * sizeof(int)));
  const std::vector<MPI_Datatype> columns{column, column};
  std::vector<MPI_Datatype> ints(sources.size(), MPI_INT);
  // Open MPI takes no null arrays, even where they have no elements.
  to.reserve(1);
  rows.reserve(1);
  ints.reserve(1);
  in.reserve(1);
  Collective exchange(MPIX_Neighbor_alltoallw_init, matrix.data(), ones.data(), from.data(), columns.data(), in.data(),
                      rows.data(), to.data(), ints.data(), graph);
  MPI_Type_free(&column);
  MPI_Comm_free(&graph);
  exchange.match();
  run(exchange);
  for (size_t edge = 0; edge < sources.size(); ++edge)
    for (int row = 0; row < kRows; ++row)
      EXPECT_EQ(in[edge * kRows + static_cast<size_t>(row)],
                100 * sources[edge] + row * kColumns + (edge % 2 == 0 ? 0 : 2));
}

// From MPI_BOTTOM displacements are addresses, of the one buffer and of the other.
TEST_F(Collectives, BlocksMayLieAtAddresses) {
  const MPI_Comm ring = row(true);
  int first = value(rank(), 0, 0), from_higher = -1;
  const auto second = std::make_unique<int>(value(rank(), 1, 0)), from_lower = std::make_unique<int>(-1);
  MPI_Aint out[2], in[2];
  MPI_Get_address(&first, &out[0]);
  MPI_Get_address(second.get(), &out[1]);
  MPI_Get_address(from_lower.get(), &in[0]);
  MPI_Get_address(&from_higher, &in[1]);
  const int ones[] = {1, 1};
  const MPI_Datatype ints[] = {MPI_INT, MPI_INT};
  Collective exchange(MPIX_Neighbor_alltoallw_init, MPI_BOTTOM, ones, out, ints, MPI_BOTTOM, ones, in, ints, ring);
  exchange.match();
  run(exchange);
  EXPECT_EQ(*from_lower, value(lower(), 1, 0));
  EXPECT_EQ(from_higher, value(higher(), 0, 0));
}

// A match needs none of the arrays and communicators that the call was given.
TEST_F(Collectives, OutliveWhatTheyWereMadeOf) {
  const MPI_Comm ring = row(true);
  int out[] = {value(rank(), 0, 0), value(rank(), 1, 0)}, in[] = {-1, -1}, blocks_in[] = {-1, -1};
  std::vector<int> counts(2, 1), displacements{0, 1};
  int own = rank() + 1, sum = -1;
  Collective reduce(MPIX_Allreduce_init, &own, &sum, 1, MPI_INT, MPI_SUM, ring);
  Collective single(MPIX_Neighbor_alltoall_init, out, 1, MPI_INT, in, 1, MPI_INT, ring);
  Collective blocks(MPIX_Neighbor_alltoallv_init, out, counts.data(), displacements.data(), MPI_INT, blocks_in,
                    counts.data(), displacements.data(), MPI_INT, ring);
  std::fill(counts.begin(), counts.end(), 1000);
  std::fill(displacements.begin(), displacements.end(), 1000);
  MPI_Comm_free(&row_);
  for (Collective* each : {&blocks, &reduce, &single}) {
    each->match();
    run(*each);
  }
  EXPECT_EQ(sum, ranks() * (ranks() + 1) / 2);
  for (const int* got : {in, blocks_in}) {
    EXPECT_EQ(got[0], value(lower(), 1, 0));
    EXPECT_EQ(got[1], value(higher(), 0, 0));
  }
}

// ---- Together

#if MPI_VERSION >= 4
// All forms of a call count alike.
TEST_F(Collectives, CountTheSameByEveryForm) {
  int data = -1, own = rank(), sum = -1;
  Collective broadcast, reduce;
  if (rank() % 2 == 0) {
    ASSERT_TRUE(ok(MPI_Bcast_init_c(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, broadcast.address())));
    ASSERT_TRUE(
        ok(MPI_Allreduce_init_c(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, reduce.address())));
  } else {
    ASSERT_TRUE(ok(MPIX_Bcast_init(&data, 1, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, broadcast.address())));
    ASSERT_TRUE(
        ok(MPI_Allreduce_init(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, reduce.address())));
  }
  reduce.match();
  broadcast.match();
  data = rank() == 0 ? 7 : -1;
  run(broadcast);
  run(reduce);
  EXPECT_EQ(data, 7);
  EXPECT_EQ(sum, ranks() * (ranks() - 1) / 2);
}
#endif

TEST_F(Collectives, AreAnExchangeOrSingleRequestsOnDemand) {
  for (const bool merged : {true, false}) {
    Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
    EXPECT_EQ(facts_of(barrier.handle())["lanyard_route"], "mpi");
    if (!merged) {
      EXPECT_TRUE(ok(hint(barrier.handle(), "none")));
    }
    barrier.match();
    Facts facts = facts_of(barrier.handle());
    EXPECT_EQ(facts["lanyard_route"], "card");
    const bool is_merged = facts["lanyard_exchange"] != "none";
    const bool cannot = facts.count("lanyard_exchange_why") == 1;
    EXPECT_EQ(is_merged, merged && ranks() > 1 && !cannot);
    // Merged, with its two sets, a write a process, and a flag where senders raise those, and one done word; else a
    // clear-to-send and two done words more.
    const bool flags = facts["lanyard_strategy"] == "sender-flag";
    if (ranks() > 1) {
      EXPECT_EQ(facts["lanyard_entries"],
                std::to_string(is_merged ? (flags ? 2 : 1) * (ranks() - 1) + 1 : 4 * (ranks() - 1)));
    }
    for (int round = 0; round < kRounds; ++round)
      run(barrier);
    refused([&] { return hint(barrier.handle(), "none"); }, MPI_ERR_REQUEST, {"MPI_Barrier of", "matched already"});
  }
}

// Also beside other requests in one call. Each start takes the other of an allreduce's two sets.
TEST_F(Collectives, ChangeTheCallAndTheQueue) {
  Stream another_stream;
  Queue another(another_stream);
  int own = 0, sum = 0;
  Collective reduce(MPIX_Allreduce_init, &own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  Requests pair;
  add_pair(pair);
  std::vector<MPI_Request> all{*pair.at(0), reduce.handle(), *pair.at(1), barrier.handle()};
  ASSERT_TRUE(ok(MPIX_Matchall(4, all.data(), MPI_STATUSES_IGNORE)));
  for (int round = 0; round < 12; ++round) {
    own = rank() + round;
    out.fill(seed_of(rank(), rank(), round));
    Queue& here = round / 3 % 2 == 0 ? queue : another;
    const bool alone = round % 3 == 1;
    MPI_Request* const requests = alone ? reduce.address() : all.data();
    EXPECT_TRUE(ok(MPIX_Enqueue_startall(here, alone ? 1 : 4, requests)));
    EXPECT_TRUE(ok(MPIX_Enqueue_waitall(here, alone ? 1 : 4, requests)));
    here.wait();
    EXPECT_EQ(sum, ranks() * (ranks() - 1) / 2 + ranks() * round);
    EXPECT_EQ(alone ? 0u : in.mistakes(seed_of(rank(), rank(), round)), 0u);
  }
}

TEST_F(Collectives, AreTheMpisOwnAsLongAsTheyAreNotMatched) {
  int own = rank() + 1, sum = 0;
  Collective reduce(MPIX_Allreduce_init, &own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_TRUE(ok(MPI_Start(reduce.address())));
  EXPECT_TRUE(ok(MPI_Wait(reduce.address(), MPI_STATUS_IGNORE)));
  EXPECT_EQ(sum, ranks() * (ranks() + 1) / 2);
  reduce.match();
  refused([&] { return MPI_Start(reduce.address()); }, MPI_ERR_REQUEST, {"start it on a queue"});
  sum = 0;
  run(reduce);
  EXPECT_EQ(sum, ranks() * (ranks() + 1) / 2);
}

// ---- Misuse

void first_of_both(void* in, void* inout, int* count, MPI_Datatype*) {
  std::memcpy(inout, in, static_cast<size_t>(*count) * sizeof(int));
}

TEST_F(Collectives, WhatIsNotMpisOwnIsRefusedWhenMatched) {
  int own = 1, sum = 0;
  MPI_Op operation = MPI_OP_NULL;
  MPI_Op_create(first_of_both, 0, &operation);
  Collective user(MPIX_Allreduce_init, &own, &sum, 1, MPI_INT, operation, MPI_COMM_WORLD);
  refused([&] { return MPIX_Match(user.address(), MPI_STATUS_IGNORE); }, MPI_ERR_OP, {"none of MPI's own"});
  EXPECT_TRUE(ok(MPI_Start(user.address()))) << "the MPI can do it";
  EXPECT_TRUE(ok(MPI_Wait(user.address(), MPI_STATUS_IGNORE)));
  user.free();
  MPI_Op_free(&operation);
}

// Some of MPI's own, which not every MPI can reduce either.
TEST_F(Collectives, DatatypesThatStreamsDoNotReduceAreRefusedByName) {
  double own[4] = {}, result[4] = {};
  for (const auto& [datatype, name] : {std::pair{MPI_REAL16, "MPI_REAL16"}, {MPI_COMPLEX32, "MPI_COMPLEX32"}}) {
    Collective sum;
    if (datatype != MPI_DATATYPE_NULL && MPIX_Allreduce_init(own, result, 1, datatype, MPI_SUM, MPI_COMM_WORLD,
                                                             MPI_INFO_NULL, sum.address()) == MPI_SUCCESS)
      refused([&] { return MPIX_Match(sum.address(), MPI_STATUS_IGNORE); }, MPI_ERR_TYPE, {name});
  }
}

// All but the last process, and that one.
TEST_F(Collectives, ThoseOfAnInterCommunicatorAreTheMpisAlone) {
  if (ranks() == 1)
    GTEST_SKIP() << "there is no other group";
  const bool is_last = rank() == ranks() - 1;
  MPI_Comm half = MPI_COMM_NULL, inter = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, is_last ? 1 : 0, rank(), &half);
  ASSERT_TRUE(ok(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, is_last ? 0 : ranks() - 1, 7, &inter)));
  MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN);
  const int others = is_last ? ranks() - 1 : 1;
  std::vector<int> counts(static_cast<size_t>(others), 1), displacements(counts.size());
  std::iota(displacements.begin(), displacements.end(), 0);
  int own = rank();
  std::vector<int> all(static_cast<size_t>(others), -1);
  {
    Collective gather(MPIX_Allgatherv_init, &own, 1, MPI_INT, all.data(), counts.data(), displacements.data(), MPI_INT,
                      inter);
    refused([&] { return MPIX_Match(gather.address(), MPI_STATUS_IGNORE); }, MPI_ERR_UNSUPPORTED_OPERATION,
            {"inter-communicator"});
  }
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

TEST_F(Collectives, WithoutATopologyNobodyHasNeighbours) {
  int out[1] = {1}, in[1] = {2};
  const int counts[1] = {1}, displacements[1] = {0};
  const MPI_Aint bytes[1] = {0};
  const MPI_Datatype types[1] = {MPI_INT};
  MPI_Request request = MPI_REQUEST_NULL;
  const auto expect_refusal = [&](auto init, auto... arguments) {
    refused([&] { return init(arguments..., MPI_COMM_WORLD, MPI_INFO_NULL, &request); }, MPI_ERR_TOPOLOGY,
            {"no topology"});
  };
  expect_refusal(MPIX_Neighbor_alltoall_init, out, 1, MPI_INT, in, 1, MPI_INT);
  expect_refusal(MPIX_Neighbor_alltoallv_init, out, counts, displacements, MPI_INT, in, counts, displacements, MPI_INT);
  expect_refusal(MPIX_Neighbor_alltoallw_init, out, counts, bytes, types, in, counts, bytes, types);
  EXPECT_EQ(request, MPI_REQUEST_NULL);
}

// Where the root has more to say than the others make room for, no message of it is matched.
TEST_F(Collectives, AMatchThatFailsLeavesNothingBehind) {
  if (ranks() == 1)
    GTEST_SKIP() << "a broadcast to nobody fits";
  std::vector<int> data(kCount);
  {
    const int count = rank() == 0 ? kCount : kCount - 1;
    Collective broadcast(MPIX_Bcast_init, data.data(), count, MPI_INT, 0, MPI_COMM_WORLD);
    for (int i = 0; i < 2; ++i) {
      refused([&] { return MPIX_Match(broadcast.address(), MPI_STATUS_IGNORE); }, MPI_ERR_TRUNCATE);
      int matched = 1;
      EXPECT_TRUE(ok(MPIX_Is_matched(broadcast.handle(), &matched)));
      EXPECT_EQ(matched, 0);
      refused([&] { return MPIX_Enqueue_start(queue, broadcast.address()); }, MPI_ERR_REQUEST, {"not matched"});
    }
  }
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  barrier.match();
  run(barrier);
}

TEST_F(Collectives, StartsAndWaitsTakeTurnsAsOfAllRequests) {
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  refused([&] { return MPIX_Enqueue_start(queue, barrier.address()); }, MPI_ERR_REQUEST, {"not matched"});
  barrier.match();
  refused([&] { return MPIX_Enqueue_wait(queue, barrier.address()); }, MPI_ERR_REQUEST, {"no start to wait for"});
  refused([&] { return MPIX_Match(barrier.address(), MPI_STATUS_IGNORE); }, MPI_ERR_REQUEST,
          {"MPI_Barrier of", "matched already"});
  barrier.start(queue);
  refused([&] { return MPIX_Enqueue_start(queue, barrier.address()); }, MPI_ERR_REQUEST,
          {"previous start was not enqueued"});
  MPI_Request request = barrier.handle();
  refused([&] { return MPI_Request_free(&request); }, MPI_ERR_REQUEST, {"was not enqueued"});
  barrier.wait(queue);
  queue.wait();
  run(barrier);
}

TEST_F(Collectives, MatchInTheBackground) {
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  MPI_Request match = MPI_REQUEST_NULL;
  ASSERT_TRUE(ok(MPIX_Imatch(barrier.address(), &match)));
  EXPECT_TRUE(ok(MPI_Wait(&match, MPI_STATUS_IGNORE)));
  int matched = 0;
  EXPECT_TRUE(ok(MPIX_Is_matched(barrier.handle(), &matched)));
  EXPECT_EQ(matched, 1);
  run(barrier);
}

}  // namespace
}  // namespace lanyard::api_test
