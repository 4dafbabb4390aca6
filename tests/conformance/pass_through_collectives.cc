// Persistent collectives: see pass_through.h. Where the MPI has them under the names of its extension only, by those.
// MPI 4.0, sections 6.13.1, 6.13.2, 6.13.4, 6.13.8, 8.8.2.
#include <algorithm>
#include <array>

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

constexpr std::array<int, 2> kOnes{1, 1}, kPlaces{0, 1};

// What a collective reads and writes.
struct Buffers {
  std::vector<int> from = std::vector<int>(4), to = std::vector<int>(static_cast<size_t>(4 + ranks()));
};

// Makes a request, runs it twice, and tells what has come.
template <typename Function, typename Make>
void same_rounds(PassThrough& test, Function lanyards, Function mpis, Make make) {
  Buffers buffers;
  test.same(lanyards, mpis, [&](auto init) {
    MPI_Request request = MPI_REQUEST_NULL;
    Observed seen{error_class(make(init, buffers, &request))};
    for (int round = 0; round < 2; ++round) {
      for (size_t i = 0; i < buffers.from.size(); ++i)
        buffers.from[i] = 100 * rank() + 10 * round + static_cast<int>(i);
      std::fill(buffers.to.begin(), buffers.to.end(), -1);
      PMPI_Start(&request);
      seen.push_back(error_class(PMPI_Wait(&request, MPI_STATUS_IGNORE)));
      seen.insert(seen.end(), buffers.from.begin(), buffers.from.end());
      seen.insert(seen.end(), buffers.to.begin(), buffers.to.end());
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

TEST_F(PassThrough, MPI_Barrier_init) {
  same_rounds(*this, LANYARDS(Barrier_init), MPIS(Barrier_init),
              [](auto init, Buffers&, MPI_Request* request) { return init(MPI_COMM_WORLD, MPI_INFO_NULL, request); });
}

TEST_F(PassThrough, MPI_Bcast_init) {
  same_rounds(*this, LANYARDS(Bcast_init), MPIS(Bcast_init), [](auto init, Buffers& buffers, MPI_Request* request) {
    return init(buffers.from.data(), 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request);
  });
}

TEST_F(PassThrough, MPI_Allreduce_init) {
  same_rounds(*this, LANYARDS(Allreduce_init), MPIS(Allreduce_init),
              [](auto init, Buffers& buffers, MPI_Request* request) {
                return init(buffers.from.data(), buffers.to.data(), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                            request);
              });
}

TEST_F(PassThrough, MPI_Allgather_init) {
  same_rounds(*this, LANYARDS(Allgather_init), MPIS(Allgather_init),
              [](auto init, Buffers& buffers, MPI_Request* request) {
                return init(buffers.from.data(), 1, MPI_INT, buffers.to.data(), 1, MPI_INT, MPI_COMM_WORLD,
                            MPI_INFO_NULL, request);
              });
}

TEST_F(PassThrough, MPI_Allgatherv_init) {
  std::vector<int> counts(static_cast<size_t>(ranks()), 1), places;
  for (int of = 0; of < ranks(); ++of)
    places.push_back(ranks() - of);
  same_rounds(*this, LANYARDS(Allgatherv_init), MPIS(Allgatherv_init),
              [&](auto init, Buffers& buffers, MPI_Request* request) {
                return init(buffers.from.data(), 1, MPI_INT, buffers.to.data(), counts.data(), places.data(), MPI_INT,
                            MPI_COMM_WORLD, MPI_INFO_NULL, request);
              });
}

TEST_F(PassThrough, MPI_Neighbor_alltoall_init) {
  same_neighbours(*this, LANYARDS(Neighbor_alltoall_init), MPIS(Neighbor_alltoall_init),
                  [](auto init, Buffers& buffers, MPI_Comm line, MPI_Request* request) {
                    return init(buffers.from.data(), 1, MPI_INT, buffers.to.data(), 1, MPI_INT, line, MPI_INFO_NULL,
                                request);
                  });
}

TEST_F(PassThrough, MPI_Neighbor_alltoallv_init) {
  same_neighbours(*this, LANYARDS(Neighbor_alltoallv_init), MPIS(Neighbor_alltoallv_init),
                  [](auto init, Buffers& buffers, MPI_Comm line, MPI_Request* request) {
                    return init(buffers.from.data(), kOnes.data(), kPlaces.data(), MPI_INT, buffers.to.data(),
                                kOnes.data(), kPlaces.data(), MPI_INT, line, MPI_INFO_NULL, request);
                  });
}

TEST_F(PassThrough, MPI_Neighbor_alltoallw_init) {
  const std::array<MPI_Aint, 2> places{0, sizeof(int)};
  const std::array<MPI_Datatype, 2> ints{MPI_INT, MPI_INT};
  same_neighbours(*this, LANYARDS(Neighbor_alltoallw_init), MPIS(Neighbor_alltoallw_init),
                  [&](auto init, Buffers& buffers, MPI_Comm line, MPI_Request* request) {
                    return init(buffers.from.data(), kOnes.data(), places.data(), ints.data(), buffers.to.data(),
                                kOnes.data(), places.data(), ints.data(), line, MPI_INFO_NULL, request);
                  });
}

#if MPI_VERSION >= 4

constexpr std::array<MPI_Count, 2> kOnesC{1, 1};
constexpr std::array<MPI_Aint, 2> kPlacesC{0, 1};

TEST_F(PassThrough, MPI_Bcast_init_c) {
  same_rounds(*this, MPI_Bcast_init_c, PMPI_Bcast_init_c, [](auto init, Buffers& buffers, MPI_Request* request) {
    return init(buffers.from.data(), 4, MPI_INT, 0, MPI_COMM_WORLD, MPI_INFO_NULL, request);
  });
}

TEST_F(PassThrough, MPI_Allreduce_init_c) {
  same_rounds(*this, MPI_Allreduce_init_c, PMPI_Allreduce_init_c,
              [](auto init, Buffers& buffers, MPI_Request* request) {
                return init(buffers.from.data(), buffers.to.data(), 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                            request);
              });
}

TEST_F(PassThrough, MPI_Allgather_init_c) {
  same_rounds(*this, MPI_Allgather_init_c, PMPI_Allgather_init_c,
              [](auto init, Buffers& buffers, MPI_Request* request) {
                return init(buffers.from.data(), 1, MPI_INT, buffers.to.data(), 1, MPI_INT, MPI_COMM_WORLD,
                            MPI_INFO_NULL, request);
              });
}

TEST_F(PassThrough, MPI_Allgatherv_init_c) {
  std::vector<MPI_Count> counts(static_cast<size_t>(ranks()), 1);
  std::vector<MPI_Aint> places;
  for (int of = 0; of < ranks(); ++of)
    places.push_back(ranks() - of);
  same_rounds(*this, MPI_Allgatherv_init_c, PMPI_Allgatherv_init_c,
              [&](auto init, Buffers& buffers, MPI_Request* request) {
                return init(buffers.from.data(), 1, MPI_INT, buffers.to.data(), counts.data(), places.data(), MPI_INT,
                            MPI_COMM_WORLD, MPI_INFO_NULL, request);
              });
}

TEST_F(PassThrough, MPI_Neighbor_alltoall_init_c) {
  same_neighbours(*this, MPI_Neighbor_alltoall_init_c, PMPI_Neighbor_alltoall_init_c,
                  [](auto init, Buffers& buffers, MPI_Comm line, MPI_Request* request) {
                    return init(buffers.from.data(), 1, MPI_INT, buffers.to.data(), 1, MPI_INT, line, MPI_INFO_NULL,
                                request);
                  });
}

TEST_F(PassThrough, MPI_Neighbor_alltoallv_init_c) {
  same_neighbours(*this, MPI_Neighbor_alltoallv_init_c, PMPI_Neighbor_alltoallv_init_c,
                  [](auto init, Buffers& buffers, MPI_Comm line, MPI_Request* request) {
                    return init(buffers.from.data(), kOnesC.data(), kPlacesC.data(), MPI_INT, buffers.to.data(),
                                kOnesC.data(), kPlacesC.data(), MPI_INT, line, MPI_INFO_NULL, request);
                  });
}

TEST_F(PassThrough, MPI_Neighbor_alltoallw_init_c) {
  const std::array<MPI_Aint, 2> places{0, sizeof(int)};
  const std::array<MPI_Datatype, 2> ints{MPI_INT, MPI_INT};
  same_neighbours(*this, MPI_Neighbor_alltoallw_init_c, PMPI_Neighbor_alltoallw_init_c,
                  [&](auto init, Buffers& buffers, MPI_Comm line, MPI_Request* request) {
                    return init(buffers.from.data(), kOnesC.data(), places.data(), ints.data(), buffers.to.data(),
                                kOnesC.data(), places.data(), ints.data(), line, MPI_INFO_NULL, request);
                  });
}

#endif

}  // namespace
}  // namespace lanyard::conformance
