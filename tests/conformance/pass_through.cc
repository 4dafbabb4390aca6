// Requests and errors: see pass_through.h. MPI 4.0, sections 3.7.3, 3.7.5, 3.7.6, 3.8.4, 3.9, 4.2, 9.4.
#include "tests/conformance/pass_through.h"

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
    PMPI_Isend(&out, 1, MPI_INT, partner(), 1, MPI_COMM_WORLD, &request);
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

TEST_F(PassThrough, MPI_Waitsome) {
  same_completion(MPI_Waitsome, PMPI_Waitsome, [](auto wait, auto& both, Observed& seen) {
    std::array<int, 2> indices{};
    int count = 0, done = 0;
    while (count != MPI_UNDEFINED) {
      seen.push_back(0);
      if (error_class(wait(2, both.data(), &count, indices.data(), MPI_STATUSES_IGNORE)) != MPI_SUCCESS)
        break;
      done += count == MPI_UNDEFINED ? 0 : count;
    }
    seen = {done, count == MPI_UNDEFINED};
  });
}

TEST_F(PassThrough, MPI_Testsome) {
  same_completion(MPI_Testsome, PMPI_Testsome, [](auto test, auto& both, Observed& seen) {
    std::array<int, 2> indices{};
    int count = 0, done = 0;
    while (count != MPI_UNDEFINED && test(2, both.data(), &count, indices.data(), MPI_STATUSES_IGNORE) == MPI_SUCCESS)
      done += count == MPI_UNDEFINED ? 0 : count;
    seen = {done, count == MPI_UNDEFINED};
  });
}

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
      if (code != failed)  // whose text may hold a number of its own
        seen.insert(seen.end(), text.begin(), text.begin() + length);
    }
    return seen;
  });
}

}  // namespace
}  // namespace lanyard::conformance
