// What the tests of lanyard.hpp have in common: a stream with its queue, and pairs of requests with a partner.
#ifndef LANYARD_TESTS_API_CPP_OBJECTS_H_
#define LANYARD_TESTS_API_CPP_OBJECTS_H_

#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <map>
#include <numeric>
#include <string>
#include <system_error>
#include <vector>

#include <lanyard/lanyard.hpp>
#include "tests/api/mpi_suite.h"

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
  // Whether what the partner sent is there.
  bool has_arrived(int seed = 0) const {
    std::vector<int> expected(in.size());
    std::iota(expected.begin(), expected.end(), seed + 1000000 * partner());
    return in == expected;
  }
};

// Whether `call`, given how to tell of errors, fails with this class and with all these facts in its text: by a code
// and by an exception.
template <typename Call>
::testing::AssertionResult fails(Call call, int expected_class, std::initializer_list<std::string> facts = {}) {
  std::error_code code;
  call(OnError(code));
  if (error_class(code) != expected_class)
    return ::testing::AssertionFailure() << "class " << error_class(code) << " instead of " << expected_class << ": "
                                         << code.message();
  for (const std::string& fact : facts)
    if (code.message().find(fact) == std::string::npos)
      return ::testing::AssertionFailure() << "\"" << fact << "\" is not in: " << code.message();
  try {
    call(OnError());
  } catch (const Error& error) {
    // Not the same code: MPICH makes one for each error.
    if (error.error_class() != expected_class || error.what() != error.code().message())
      return ::testing::AssertionFailure() << "thrown: class " << error.error_class() << ": " << error.what();
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "nothing was thrown";
}

inline std::map<std::string, std::string> figures(const Queue& queue, std::initializer_list<const char*> names) {
  std::map<std::string, std::string> all = queue.info(), some;
  for (const char* name : names)
    some[name] = all.at(name);
  return some;
}
// What a refused call must not change: what this queue was given, and what the process holds of its card.
inline auto enqueued(const Queue& queue) {
  return figures(queue, {"starts", "waits", "triggers", "counters", "regions"});
}
// What is as before when all that was made since has gone.
inline auto held(const Queue& queue) { return figures(queue, {"counters", "regions"}); }

struct Cpp : ::testing::Test {
  HostStream stream;
  Queue queue{stream};

  // As fails(), and nothing has changed.
  template <typename Call>
  void refused(Call call, int expected_class, std::initializer_list<std::string> facts = {}) {
    const auto before = enqueued(queue);
    EXPECT_TRUE(fails(call, expected_class, facts));
    EXPECT_EQ(enqueued(queue), before);
  }
  // Whatever went before, an exchange works.
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
