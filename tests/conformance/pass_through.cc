// Requests, errors, communicators and collectives: see PassThrough in conformance.h.
// MPI 4.0, sections 3.7.3,
// 3.7.5, 3.7.6, 3.8.4, 3.9, 4.2, 6.13, 7.4.2, 7.4.3, 8.5, 8.8.2, 9.4, 11.10.4.
#include <algorithm>

#include "tests/conformance/conformance.h"

// Persistent collectives. Before MPI 4 the MPI has them only under MPIX_ names.
#if MPI_VERSION >= 4
#define LANYARDS(name) MPI_##name
#define MPIS(name) PMPI_##name
#else
#include <mpi-ext.h>
#define LANYARDS(name) Lanyard_##name
#define MPIS(name) PMPIX_##name
#endif

namespace lanyard::conformance {
namespace {

TEST_F(PassThrough, MPI_Send_init) { same_send(MPI_Send_init, PMPI_Send_init); }
TEST_F(PassThrough, MPI_Bsend_init) { same_send(MPI_Bsend_init, PMPI_Bsend_init); }
TEST_F(PassThrough, MPI_Ssend_init) { same_send(MPI_Ssend_init, PMPI_Ssend_init); }
TEST_F(PassThrough, MPI_Rsend_init) { same_send(MPI_Rsend_init, PMPI_Rsend_init); }

TEST_F(PassThrough, MPI_Recv_init) { same_receive(MPI_Recv_init, PMPI_Recv_init); }

#if MPI_VERSION >= 4
TEST_F(PassThrough, MPI_Send_init_c) { same_send(MPI_Send_init_c, PMPI_Send_init_c); }
TEST_F(PassThrough, MPI_Bsend_init_c) { same_send(MPI_Bsend_init_c, PMPI_Bsend_init_c); }
TEST_F(PassThrough, MPI_Ssend_init_c) { same_send(MPI_Ssend_init_c, PMPI_Ssend_init_c); }
TEST_F(PassThrough, MPI_Rsend_init_c) { same_send(MPI_Rsend_init_c, PMPI_Rsend_init_c); }
TEST_F(PassThrough, MPI_Recv_init_c) { same_receive(MPI_Recv_init_c, PMPI_Recv_init_c); }

TEST_F(PassThrough, MPI_Psend_init) {
  same(MPI_Psend_init, PMPI_Psend_init, [&](auto init) { return partitioned(init, PMPI_Precv_init); });
}
TEST_F(PassThrough, MPI_Precv_init) {
  same(MPI_Precv_init, PMPI_Precv_init, [&](auto init) { return partitioned(PMPI_Psend_init, init); });
}
#endif

// ---- Starting and freeing

TEST_F(PassThrough, MPI_Start) {
  same(MPI_Start, PMPI_Start, [&](auto start) {
    Requests pair;
    add_pair(pair);
    MPI_Request none = MPI_REQUEST_NULL;
    Observed seen{error_class(start(&none)), error_class(start(pair.at(0))), error_class(start(pair.at(1)))};
    PMPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE);
    seen.push_back(in);
    return seen;
  });
}

TEST_F(PassThrough, MPI_Startall) {
  same(MPI_Startall, PMPI_Startall, [&](auto start) {
    Requests pair;
    add_pair(pair);
    Observed seen{error_class(start(2, pair.data()))};
    PMPI_Waitall(2, pair.data(), MPI_STATUSES_IGNORE);
    seen.insert(seen.end(), {in, error_class(start(0, pair.data())), error_class(start(-1, pair.data()))});
    return seen;
  });
}

TEST_F(PassThrough, MPI_Request_free) {
  same(MPI_Request_free, PMPI_Request_free, [&](auto free) {
    MPI_Request request = MPI_REQUEST_NULL;
    Observed seen{error_class(free(&request))};
    PMPI_Recv_init(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &request);
    seen.insert(seen.end(), {error_class(free(&request)), request == MPI_REQUEST_NULL});
    // An active send may be freed, and still arrives.
    MPI_Send_init(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &request);
    MPI_Start(&request);
    seen.insert(seen.end(), {error_class(free(&request)), request == MPI_REQUEST_NULL});
    MPI_Recv(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    seen.push_back(in);
    return seen;
  });
}

TEST_F(PassThrough, MPI_Cancel) {
  same(MPI_Cancel, PMPI_Cancel, [&](auto cancel) {
    MPI_Request receive = MPI_REQUEST_NULL;
    MPI_Status status = unfilled();
    int cancelled = 0;
    PMPI_Irecv(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &receive);
    Observed seen{error_class(cancel(&receive))};
    PMPI_Wait(&receive, &status);
    MPI_Test_cancelled(&status, &cancelled);
    seen.insert(seen.end(), {cancelled, error_class(cancel(&receive))});
    return seen;
  });
}

TEST_F(PassThrough, MPI_Request_get_status) {
  same(MPI_Request_get_status, PMPI_Request_get_status, [&](auto get) {
    MPI_Request receive = MPI_REQUEST_NULL;
    MPI_Status status = unfilled();
    int flag = kUntouched;
    Observed seen{error_class(get(MPI_REQUEST_NULL, &flag, &status)), flag};
    add(seen, status);
    PMPI_Irecv(&in, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &receive);
    seen.insert(seen.end(), {error_class(get(receive, &flag, &status)), flag});
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Send(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD);
    for (flag = 0; !flag;)
      get(receive, &flag, &status);
    add(seen, status);
    PMPI_Wait(&receive, MPI_STATUS_IGNORE);
    return seen;
  });
}

// ---- Completion

TEST_F(PassThrough, MPI_Wait) {
  same_completion(MPI_Wait, PMPI_Wait, [](auto wait, auto& both, Observed& seen) {
    MPI_Status status = unfilled();
    seen.push_back(error_class(wait(&both[1], MPI_STATUS_IGNORE)));
    seen.push_back(error_class(wait(&both[0], &status)));
    add(seen, status);
  });
}

TEST_F(PassThrough, MPI_Test) {
  same_completion(MPI_Test, PMPI_Test, [](auto test, auto& both, Observed& seen) {
    for (const size_t i : {1u, 0u}) {
      MPI_Status status = unfilled();
      for (int flag = 0; !flag;)
        test(&both[i], &flag, &status);
      if (i == 0)
        add(seen, status);
    }
  });
}

TEST_F(PassThrough, MPI_Waitall) {
  same_completion(MPI_Waitall, PMPI_Waitall, [](auto wait, auto& both, Observed& seen) {
    std::array<MPI_Status, 2> statuses{unfilled(), unfilled()};
    seen.push_back(error_class(wait(2, both.data(), statuses.data())));
    add(seen, statuses[0]);
  });
}

TEST_F(PassThrough, MPI_Testall) {
  same_completion(MPI_Testall, PMPI_Testall, [](auto test, auto& both, Observed& seen) {
    std::array<MPI_Status, 2> statuses{unfilled(), unfilled()};
    for (int flag = 0; !flag;)
      test(2, both.data(), &flag, statuses.data());
    add(seen, statuses[0]);
  });
}

TEST_F(PassThrough, MPI_Waitany) {
  same_completion(MPI_Waitany, PMPI_Waitany, [](auto wait, auto& both, Observed& seen) {
    int sum = 0, index = kUntouched;
    for (int i = 0; i < 3; ++i, sum += index == MPI_UNDEFINED ? 100 : index)
      seen.push_back(error_class(wait(2, both.data(), &index, MPI_STATUS_IGNORE)));
    seen.push_back(sum);
  });
}

TEST_F(PassThrough, MPI_Testany) {
  same_completion(MPI_Testany, PMPI_Testany, [](auto test, auto& both, Observed& seen) {
    int sum = 0, index = kUntouched;
    for (int i = 0; i < 3; ++i, sum += index == MPI_UNDEFINED ? 100 : index)
      for (int flag = 0; !flag;)
        test(2, both.data(), &index, &flag, MPI_STATUS_IGNORE);
    seen.push_back(sum);
  });
}

constexpr auto complete_some = [](auto some, auto& both, Observed& seen) {
  std::array<int, 2> indices{};
  int count = 0, done = 0;
  while (count != MPI_UNDEFINED && some(2, both.data(), &count, indices.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS)
    done += count == MPI_UNDEFINED ? 0 : count;
  seen = {done, count == MPI_UNDEFINED};
};

TEST_F(PassThrough, MPI_Waitsome) { same_completion(MPI_Waitsome, PMPI_Waitsome, complete_some); }
TEST_F(PassThrough, MPI_Testsome) { same_completion(MPI_Testsome, PMPI_Testsome, complete_some); }

// ---- Errors

TEST_F(PassThrough, MPI_Error_class) {
  same(MPI_Error_class, PMPI_Error_class, [&](auto function) {
    int a = kUntouched, b = kUntouched, added = kUntouched, code = kUntouched, c = kUntouched;
    const int failed = MPI_Send(&out, 1, MPI_INT, ranks() + 3, 0, MPI_COMM_WORLD);
    MPI_Add_error_class(&added);
    MPI_Add_error_code(added, &code);
    Observed seen{function(MPI_SUCCESS, &a), function(failed, &b), function(code, &c)};
    seen.insert(seen.end(), {a, b, c == added});
    return seen;
  });
}

TEST_F(PassThrough, MPI_Error_string) {
  same(MPI_Error_string, PMPI_Error_string, [&](auto function) {
    Observed seen;
    const int failed = MPI_Send(&out, 1, MPI_INT, ranks() + 3, 0, MPI_COMM_SELF);
    for (const int code : {MPI_SUCCESS, MPI_ERR_TRUNCATE, failed}) {
      std::array<char, MPI_MAX_ERROR_STRING> text{};
      int length = kUntouched;
      seen.push_back(function(code, text.data(), &length));
      seen.push_back(length > 0);
      if (code != failed)  // the failure's text may contain a number that changes
        seen.insert(seen.end(), text.begin(), text.begin() + length);
    }
    return seen;
  });
}

// ---- Construction and destruction of communicators

TEST_F(PassThrough, MPI_Comm_dup) {
  same_child(MPI_Comm_dup, PMPI_Comm_dup, [](auto f, MPI_Comm* child) { return f(MPI_COMM_WORLD, child); });
}

TEST_F(PassThrough, MPI_Comm_dup_with_info) {
  same_child(MPI_Comm_dup_with_info, PMPI_Comm_dup_with_info,
             [](auto f, MPI_Comm* child) { return f(MPI_COMM_WORLD, MPI_INFO_NULL, child); });
}

TEST_F(PassThrough, MPI_Comm_idup) {
  same_child(MPI_Comm_idup, PMPI_Comm_idup, [](auto f, MPI_Comm* child) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = f(MPI_COMM_WORLD, child, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return code;
  });
}

#if MPI_VERSION >= 4
TEST_F(PassThrough, MPI_Comm_idup_with_info) {
  same_child(MPI_Comm_idup_with_info, PMPI_Comm_idup_with_info, [](auto f, MPI_Comm* child) {
    MPI_Request request = MPI_REQUEST_NULL;
    const int code = f(MPI_COMM_WORLD, MPI_INFO_NULL, child, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return code;
  });
}
#endif

TEST_F(PassThrough, MPI_Comm_create) {
  same_child(MPI_Comm_create, PMPI_Comm_create, [](auto f, MPI_Comm* child) {
    MPI_Group group = MPI_GROUP_NULL, first = MPI_GROUP_NULL;
    const int zero = 0;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_incl(group, 1, &zero, &first);
    const int code = f(MPI_COMM_WORLD, first, child);
    MPI_Group_free(&group);
    MPI_Group_free(&first);
    return code;
  });
}

TEST_F(PassThrough, MPI_Comm_create_group) {
  same_child(MPI_Comm_create_group, PMPI_Comm_create_group, [](auto f, MPI_Comm* child) {
    MPI_Group group = MPI_GROUP_NULL;
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    const int code = f(MPI_COMM_WORLD, group, 4, child);
    MPI_Group_free(&group);
    return code;
  });
}

TEST_F(PassThrough, MPI_Comm_split) {
  same_child(MPI_Comm_split, PMPI_Comm_split, [](auto f, MPI_Comm* child) {
    return f(MPI_COMM_WORLD, rank() == 0 ? MPI_UNDEFINED : 3, -rank(), child);
  });
}

TEST_F(PassThrough, MPI_Comm_split_type) {
  same_child(MPI_Comm_split_type, PMPI_Comm_split_type, [](auto f, MPI_Comm* child) {
    return f(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank(), MPI_INFO_NULL, child);
  });
}

TEST_F(PassThrough, MPI_Cart_create) {
  same_child(MPI_Cart_create, PMPI_Cart_create, [](auto f, MPI_Comm* child) {
    const int size = ranks(), periodic = 1;
    return f(MPI_COMM_WORLD, 1, &size, &periodic, 0, child);
  });
}

TEST_F(PassThrough, MPI_Cart_sub) {
  const int sizes[] = {ranks(), 1}, periodic[] = {1, 0}, remain[] = {0, 1};
  MPI_Comm grid = MPI_COMM_NULL;
  ASSERT_TRUE(ok(MPI_Cart_create(MPI_COMM_WORLD, 2, sizes, periodic, 0, &grid)));
  same_child(MPI_Cart_sub, PMPI_Cart_sub, [&](auto f, MPI_Comm* child) { return f(grid, remain, child); });
  MPI_Comm_free(&grid);
}

TEST_F(PassThrough, MPI_Graph_create) {
  same_child(MPI_Graph_create, PMPI_Graph_create, [](auto f, MPI_Comm* child) {
    std::vector<int> index, edges;
    for (int i = 0; i < ranks(); ++i) {
      edges.push_back((i + 1) % ranks());
      edges.push_back((i + ranks() - 1) % ranks());
      index.push_back(static_cast<int>(edges.size()));
    }
    return f(MPI_COMM_WORLD, ranks(), index.data(), edges.data(), 0, child);
  });
}

TEST_F(PassThrough, MPI_Dist_graph_create) {
  same_child(MPI_Dist_graph_create, PMPI_Dist_graph_create, [](auto f, MPI_Comm* child) {
    const int source = rank(), degree = 1, destination = (rank() + 1) % ranks();
    return f(MPI_COMM_WORLD, 1, &source, &degree, &destination, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, child);
  });
}

TEST_F(PassThrough, MPI_Dist_graph_create_adjacent) {
  same_child(MPI_Dist_graph_create_adjacent, PMPI_Dist_graph_create_adjacent, [](auto f, MPI_Comm* child) {
    const int from = (rank() + ranks() - 1) % ranks(), to = (rank() + 1) % ranks();
    return f(MPI_COMM_WORLD, 1, &from, MPI_UNWEIGHTED, 1, &to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, child);
  });
}

TEST_F(PassThrough, MPI_Comm_free) {
  same(MPI_Comm_free, PMPI_Comm_free, [](auto free) {
    MPI_Comm copy = MPI_COMM_NULL, self = MPI_COMM_SELF;
    Observed seen{error_class(free(&copy)) != MPI_SUCCESS, error_class(free(&self)) != MPI_SUCCESS};
    PMPI_Comm_dup(MPI_COMM_WORLD, &copy);
    seen.insert(seen.end(), {error_class(free(&copy)), copy == MPI_COMM_NULL});
    return seen;
  });
}

TEST_F(PassThrough, MPI_Comm_disconnect) {
  same(MPI_Comm_disconnect, PMPI_Comm_disconnect, [](auto disconnect) {
    MPI_Comm copy = MPI_COMM_NULL;
    PMPI_Comm_dup(MPI_COMM_WORLD, &copy);
    return Observed{error_class(disconnect(&copy)), copy == MPI_COMM_NULL};
  });
}

// ---- Persistent collectives

// Buffers that a collective reads and writes.
struct Buffers {
  std::vector<int> from_ints = std::vector<int>(4), to_ints = std::vector<int>(static_cast<size_t>(4 + ranks()));
  int* from = from_ints.data();
  int* to = to_ints.data();
};

// Makes a request, runs it twice, and compares the results.
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

// The same on a non-periodic line of all processes.
template <typename Function, typename Make>
void same_neighbours(PassThrough& test, Function lanyards, Function mpis, Make make) {
  MPI_Comm line = MPI_COMM_NULL;
  const int size = ranks(), periodic = 0;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &line);
  same_rounds(test, lanyards, mpis,
              [&](auto init, Buffers& buffers, MPI_Request* request) { return make(init, buffers, line, request); });
  MPI_Comm_free(&line);
}

// The calls, with counts and displacements of either type.
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
