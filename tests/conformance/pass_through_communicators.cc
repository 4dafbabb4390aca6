// Constructors and ends of communicators: see pass_through.h.
// MPI 4.0, sections 7.4.2, 7.4.3, 8.5.1, 8.5.3, 8.5.4, 8.5.7, 11.10.4.
#include "tests/conformance/pass_through.h"

namespace lanyard::conformance {
namespace {

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

}  // namespace
}  // namespace lanyard::conformance
