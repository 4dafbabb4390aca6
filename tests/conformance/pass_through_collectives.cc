// Persistent collectives: see pass_through.h. Where the MPI has them under the names of its extension only, by those.
// MPI 4.0, sections 6.13.1, 6.13.2, 6.13.4, 6.13.8, 8.8.2.
#include <algorithm>

#include "tests/conformance/pass_through.h"

#if MPI_VERSION >= 4
#define LANYARDS(name) MPI_##name
#define MPIS(name) PMPI_##name
#else
#include <mpi-ext.h>
#define LANYARDS(name) MPIX_##name
#define MPIS(name) PMPIX_##name
#endif

namespace lanyard::conformance {
namespace {

// What a collective reads and writes.
struct Buffers {
  std::vector<int> from_ints = std::vector<int>(4), to_ints = std::vector<int>(static_cast<size_t>(4 + ranks()));
  int* from = from_ints.data();
  int* to = to_ints.data();
};

// Makes a request, runs it twice, and tells what has come.
template <typename Function, typename Make>
void same_rounds(PassThrough& test, Function lanyards, Function mpis, Make make) {
  Buffers buffers;
  test.same(lanyards, mpis, [&](auto init) {
    MPI_Request request = MPI_REQUEST_NULL;
    Observed seen{error_class(make(init, buffers, &request))};
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < buffers.from_ints.size(); ++i)
        buffers.from[i] = 100 * rank() + 10 * round + static_cast<int>(i);
      std::fill(buffers.to_ints.begin(), buffers.to_ints.end(), -1);
      PMPI_Start(&request);
      seen.push_back(error_class(PMPI_Wait(&request, MPI_STATUS_IGNORE)));
      seen.insert(seen.end(), buffers.from_ints.begin(), buffers.from_ints.end());
      seen.insert(seen.end(), buffers.to_ints.begin(), buffers.to_ints.end());
    }
    seen.push_back(error_class(MPI_Request_free(&request)));
    return seen;
  });
}

// The same on an open line of all processes.
template <typename Function, typename Make>
void same_neighbours(PassThrough& test, Function lanyards, Function mpis, Make make) {
  MPI_Comm line = MPI_COMM_NULL;
  const int size = ranks(), periodic = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &line);
  same_rounds(test, lanyards, mpis,
              [&](auto init, Buffers& buffers, MPI_Request* request) { return make(init, buffers, line, request); });
  MPI_Comm_free(&line);
}

// The calls, with counts and displacements of either kind.
constexpr auto broadcast = [](auto init, Buffers& b, MPI_Request* request) {
  return init(b.from, 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request);
};
constexpr auto reduce = [](auto init, Buffers& b, MPI_Request* request) {
  return init(b.from, b.to, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, request);
};
constexpr auto gather = [](auto init, Buffers& b, MPI_Request* request) {
  return init(b.from, 1, MPI_INT, b.to, 1, MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL, request);
};
template <typename Count, typename Place>
auto gather_uneven() {
  std::vector<Count> counts(static_cast<size_t>(ranks()), 1);
  std::vector<Place> places;
  for (int of = 0; of < ranks(); ++of)
    places.push_back(ranks() - of);
  return [counts, places](auto init, Buffers& b, MPI_Request* request) {
    return init(b.from, 1, MPI_INT, b.to, counts.data(), places.data(), MPI_INT, MPI_COMM_WORLD, MPI_INFO_NULL,
                request);
  };
}
constexpr auto exchange = [](auto init, Buffers& b, MPI_Comm line, MPI_Request* request) {
  return init(b.from, 1, MPI_INT, b.to, 1, MPI_INT, line, MPI_INFO_NULL, request);
};
template <typename Count, typename Place>
auto exchange_blocks() {
  return [](auto init, Buffers& b, MPI_Comm line, MPI_Request* request) {
    static constexpr Count kOnes[] = {1, 1};
    static constexpr Place kPlaces[] = {0, 1};
    return init(b.from, kOnes, kPlaces, MPI_INT, b.to, kOnes, kPlaces, MPI_INT, line, MPI_INFO_NULL, request);
  };
}
template <typename Count>
auto exchange_types() {
  return [](auto init, Buffers& b, MPI_Comm line, MPI_Request* request) {
    static constexpr Count kOnes[] = {1, 1};
    static constexpr MPI_Aint kPlaces[] = {0, sizeof(int)};
    static const MPI_Datatype kInts[] = {MPI_INT, MPI_INT};
    return init(b.from, kOnes, kPlaces, kInts, b.to, kOnes, kPlaces, kInts, line, MPI_INFO_NULL, request);
  };
}

TEST_F(PassThrough, MPI_Barrier_init) {
  same_rounds(*this, LANYARDS(Barrier_init), MPIS(Barrier_init),
              [](auto init, Buffers&, MPI_Request* request) { return init(MPI_COMM_WORLD, MPI_INFO_NULL, request); });
}
TEST_F(PassThrough, MPI_Bcast_init) { same_rounds(*this, LANYARDS(Bcast_init), MPIS(Bcast_init), broadcast); }
TEST_F(PassThrough, MPI_Allreduce_init) { same_rounds(*this, LANYARDS(Allreduce_init), MPIS(Allreduce_init), reduce); }
TEST_F(PassThrough, MPI_Allgather_init) { same_rounds(*this, LANYARDS(Allgather_init), MPIS(Allgather_init), gather); }
TEST_F(PassThrough, MPI_Allgatherv_init) {
  same_rounds(*this, LANYARDS(Allgatherv_init), MPIS(Allgatherv_init), gather_uneven<int, int>());
}
TEST_F(PassThrough, MPI_Neighbor_alltoall_init) {
  same_neighbours(*this, LANYARDS(Neighbor_alltoall_init), MPIS(Neighbor_alltoall_init), exchange);
}
TEST_F(PassThrough, MPI_Neighbor_alltoallv_init) {
  same_neighbours(*this, LANYARDS(Neighbor_alltoallv_init), MPIS(Neighbor_alltoallv_init), exchange_blocks<int, int>());
}
TEST_F(PassThrough, MPI_Neighbor_alltoallw_init) {
  same_neighbours(*this, LANYARDS(Neighbor_alltoallw_init), MPIS(Neighbor_alltoallw_init), exchange_types<int>());
}

#if MPI_VERSION >= 4
TEST_F(PassThrough, MPI_Bcast_init_c) { same_rounds(*this, MPI_Bcast_init_c, PMPI_Bcast_init_c, broadcast); }
TEST_F(PassThrough, MPI_Allreduce_init_c) { same_rounds(*this, MPI_Allreduce_init_c, PMPI_Allreduce_init_c, reduce); }
TEST_F(PassThrough, MPI_Allgather_init_c) { same_rounds(*this, MPI_Allgather_init_c, PMPI_Allgather_init_c, gather); }
TEST_F(PassThrough, MPI_Allgatherv_init_c) {
  same_rounds(*this, MPI_Allgatherv_init_c, PMPI_Allgatherv_init_c, gather_uneven<MPI_Count, MPI_Aint>());
}
TEST_F(PassThrough, MPI_Neighbor_alltoall_init_c) {
  same_neighbours(*this, MPI_Neighbor_alltoall_init_c, PMPI_Neighbor_alltoall_init_c, exchange);
}
TEST_F(PassThrough, MPI_Neighbor_alltoallv_init_c) {
  same_neighbours(*this, MPI_Neighbor_alltoallv_init_c, PMPI_Neighbor_alltoallv_init_c,
                  exchange_blocks<MPI_Count, MPI_Aint>());
}
TEST_F(PassThrough, MPI_Neighbor_alltoallw_init_c) {
  same_neighbours(*this, MPI_Neighbor_alltoallw_init_c, PMPI_Neighbor_alltoallw_init_c, exchange_types<MPI_Count>());
}
#endif

}  // namespace
}  // namespace lanyard::conformance
