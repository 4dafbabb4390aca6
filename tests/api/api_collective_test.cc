// Persistent collectives on streams: the results of each, with any number of processes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <complex>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Collectives : Misuse {
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

TEST_F(Collectives, NoRankPassesABarrierBeforeAllHaveEntered) {
  Collective barrier(MPIX_Barrier_init, MPI_COMM_WORLD);
  barrier.match();
  // Each process's progress, in shared memory.
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
  step("after all have begun");
  for (int round = 1; round <= kRounds; ++round) {
    if (rank() == round % ranks())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic_ref(*own).store(round);
    barrier.run(queue);
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
      broadcast.run(queue);
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
      gather.run(queue);
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
    gather.run(queue);
    std::vector<int> expected(all.size(), -1);
    for (size_t of = 0; of < counts.size(); ++of)
      for (int i = 0; i < counts[of]; ++i)
        expected[static_cast<size_t>(displacements[of] + i)] = value(static_cast<int>(of), i, round);
    EXPECT_EQ(all, expected);
  }
}

// ---- Allreduce

// Compares with MPI's own collective bit by bit, for integers and all operations that both define.
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
  // Only these for bytes: Open MPI 4.1 may add them with saturation, and MPICH 4.0 compares
  // them as signed.
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
    sum.run(queue);
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
  EXPECT_EQ(largest.index, (ranks() - 1) / 2 * 2) << "expected the lower index of equal values";
  EXPECT_EQ(smallest.value, 0);
  EXPECT_EQ(smallest.index, 0);
}

// MPI_Type_create_f90_real and its like return predefined types of these sizes.
TEST_F(Collectives, ReduceTypesThatFortranSelectsByPrecision) {
  const auto sums = [&]<typename T>(T, const char* name, auto create, auto... arguments) {
    MPI_Datatype datatype = MPI_DATATYPE_NULL;
    if (create(arguments..., &datatype) != MPI_SUCCESS)
      return;  // this MPI has no type of that precision
    T own = static_cast<T>(rank() + 1), sum = 0;
    Collective reduce(MPIX_Allreduce_init, &own, &sum, 1, datatype, MPI_SUM, MPI_COMM_WORLD);
    ASSERT_TRUE(ok(MPIX_Match(reduce.address(), MPI_STATUS_IGNORE))) << name;
    reduce.run(queue);
    EXPECT_EQ(sum, static_cast<T>(ranks() * (ranks() + 1) / 2)) << name;
  };
  sums(float(), "real(4)", MPI_Type_create_f90_real, 6, 30);
  sums(double(), "real(8)", MPI_Type_create_f90_real, 15, MPI_UNDEFINED);
  sums(static_cast<long double>(0), "real(10)", MPI_Type_create_f90_real, 18, MPI_UNDEFINED);
  sums(std::complex<float>(), "complex(4)", MPI_Type_create_f90_complex, 6, 30);
  sums(std::complex<double>(), "complex(8)", MPI_Type_create_f90_complex, 15, 300);
  sums(int8_t(), "integer(1)", MPI_Type_create_f90_integer, 2);
  sums(int16_t(), "integer(2)", MPI_Type_create_f90_integer, 4);
  sums(int32_t(), "integer(4)", MPI_Type_create_f90_integer, 9);
  sums(int64_t(), "integer(8)", MPI_Type_create_f90_integer, 18);
}

TEST_F(Collectives, NothingIsReducedToNothing) {
  Collective none(MPIX_Allreduce_init, nullptr, nullptr, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  none.match();
  none.run(queue);
}

// ---- Neighbours

// On a grid: a ring of all processes in one dimension, one process and periodic in the other.
TEST_F(Collectives, MessagesFollowTheDimensionsOfAGrid) {
  MPI_Comm grid = MPI_COMM_NULL;
  const int sizes[] = {ranks(), 1}, periodic[] = {1, 1};
  ASSERT_TRUE(ok(MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periodic, 0, &grid)));
  int out[4], in[4];
  Collective exchange(MPIX_Neighbor_alltoall_init, out, 1, MPI_INT, in, 1, MPI_INT, grid);
  exchange.match();
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < 4; ++i)
      out[i] = value(rank(), i, round);
    exchange.run(queue);
    EXPECT_EQ(in[0], value(lower(), 1, round)) << "expected the message that the lower neighbour sent upwards";
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
  exchange.run(queue);
  EXPECT_EQ(in[0], rank() == 0 ? -1 : value(rank() - 1, 1, 0));
  EXPECT_EQ(in[1], rank() == ranks() - 1 ? -1 : value(rank() + 1, 0, 0));
}

// Every process sends columns of a matrix to rank 0, twice.
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
  // Open MPI refuses null arrays even if they have no elements.
  to.reserve(1);
  rows.reserve(1);
  ints.reserve(1);
  in.reserve(1);
  Collective exchange(MPIX_Neighbor_alltoallw_init, matrix.data(), ones.data(), from.data(), columns.data(), in.data(),
                      rows.data(), to.data(), ints.data(), graph);
  MPI_Type_free(&column);
  MPI_Comm_free(&graph);
  exchange.match();
  exchange.run(queue);
  for (size_t edge = 0; edge < sources.size(); ++edge)
    for (int row = 0; row < kRows; ++row)
      EXPECT_EQ(in[edge * kRows + static_cast<size_t>(row)],
                100 * sources[edge] + row * kColumns + (edge % 2 == 0 ? 0 : 2));
}

// With MPI_BOTTOM, displacements are addresses of both buffers.
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
  exchange.run(queue);
  EXPECT_EQ(*from_lower, value(lower(), 1, 0));
  EXPECT_EQ(from_higher, value(higher(), 0, 0));
}

// A match must not use the arrays and communicators that the initialization call got.
TEST_F(Collectives, OutliveTheirArguments) {
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
    each->run(queue);
  }
  EXPECT_EQ(sum, ranks() * (ranks() + 1) / 2);
  for (const int* got : {in, blocks_in}) {
    EXPECT_EQ(got[0], value(lower(), 1, 0));
    EXPECT_EQ(got[1], value(higher(), 0, 0));
  }
}

}  // namespace
}  // namespace lanyard::api_test
