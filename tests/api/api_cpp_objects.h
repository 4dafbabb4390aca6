// Shared by the tests of lanyard.hpp: a stream with its queue, and pairs of requests
// with the partner.
#ifndef LANYARD_TESTS_API_CPP_OBJECTS_H_
#define LANYARD_TESTS_API_CPP_OBJECTS_H_

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <numeric>
#include <string>
#include <system_error>
#include <vector>

#include <lanyard/lanyard.hpp>
#include "tests/api/mpi_suite.h"
#include "tests/support/expect.h"

namespace lanyard::cpp_test {

using mpi_suite::partner;
using mpi_suite::rank;
using mpi_suite::ranks;

// A receive from the partner and a send to it, with their buffers.
struct Pair {
  std::vector<int> in, out;
  Request receive, send;

  explicit Pair(int tag, int seed = 0, size_t count = 1000) : in(count, -1), out(count) {
    std::iota(out.begin(), out.end(), seed + 1000000 * rank());
    receive = Request::receive(in, partner(), tag, MPI_COMM_WORLD);
    send = Request::send(out, partner(), tag, MPI_COMM_WORLD);
  }
  void free() {
    receive = Request();
    send = Request();
  }
  // Whether the receive holds the partner's message.
  bool has_arrived(int seed = 0) const {
    std::vector<int> expected(in.size());
    std::iota(expected.begin(), expected.end(), seed + 1000000 * partner());
    return in == expected;
  }
};

// Whether `call` fails with this class and with all `facts` in its text. `call` takes an OnError;
// it is made twice, with an error code and with an exception.
template <typename Call>
::testing::AssertionResult fails(Call call, int expected_class, std::initializer_list<std::string> facts = {}) {
  std::error_code code;
  call(OnError(code));
  if (error_class(code) != expected_class)
    return ::testing::AssertionFailure() << "class " << error_class(code) << ", expected " << expected_class << ": "
                                         << code.message();
  for (const std::string& fact : facts)
    if (auto found = has(code.message(), fact); !found)
      return found;
  try {
    call(OnError());
  } catch (const Error& error) {
    // The codes may differ: MPICH makes a new code for each error.
    if (error.error_class() != expected_class || error.what() != error.code().message())
      return ::testing::AssertionFailure() << "wrong exception: class " << error.error_class() << ": " << error.what();
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "the call throws nothing";
}

inline std::map<std::string, std::string> figures(const Queue& queue, std::initializer_list<const char*> names) {
  std::map<std::string, std::string> all = queue.info(), some;
  for (const char* name : names)
    some[name] = all.at(name);
  return some;
}
// Figures that a refused call must not change: the queue's operations, and the process's
// NIC resources.
inline auto enqueued(const Queue& queue) {
  return figures(queue, {"starts", "waits", "triggers", "counters", "regions"});
}
// NIC resources of the process. They return to the old values when all later objects are freed.
inline auto held(const Queue& queue) { return figures(queue, {"counters", "regions"}); }

struct Cpp : ::testing::Test {
  HostStream stream;
  Queue queue{stream};

  // Like fails(), and expects that the figures of enqueued() have not changed.
  template <typename Call>
  void refused(Call call, int expected_class, std::initializer_list<std::string> facts = {}) {
    const auto before = enqueued(queue);
    EXPECT_TRUE(fails(call, expected_class, facts));
    EXPECT_EQ(enqueued(queue), before);
  }
  // Expects that messages still work after the test.
  void TearDown() override {
    Pair pair(99, 7);
    match_all({pair.receive, pair.send});
    queue.start_all({pair.receive, pair.send});
    queue.wait_all({pair.receive, pair.send});
    queue.synchronize();
    EXPECT_TRUE(pair.has_arrived(7));
  }
};

}  // namespace lanyard::cpp_test

#endif  // LANYARD_TESTS_API_CPP_OBJECTS_H_
