// Lifetimes of lanyard.hpp's objects: moved, destroyed in any order, with work in flight, and
// after MPI_Finalize.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/api/api_cpp_objects.h"

namespace lanyard::cpp_test {
namespace {

template <typename T>
constexpr bool is_moved_only =
    std::is_nothrow_move_constructible_v<T>&& std::is_nothrow_move_assignable_v<T> &&
    !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> && std::is_nothrow_destructible_v<T>;
static_assert(is_moved_only<HostStream> && is_moved_only<Queue> && is_moved_only<Request> &&
              is_moved_only<DeviceRequests>);

struct Lives : Cpp {
  // Makes one partner late.
  static void sleep_a_while() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }
  // Matches and starts the pair. One partner starts late, so that the messages are in
  // flight afterwards.
  static void start(Queue& on, Pair& pair) {
    match_all({pair.receive, pair.send});
    if (rank() % 2 == 0)
      sleep_a_while();
    on.start_all({pair.receive, pair.send});
  }
};

// ---- Moves

template <typename T, typename Handle>
void move_about(T first, T second, Handle handle, decltype(handle(first)) null) {
  const auto one = handle(first), two = handle(second);
  ASSERT_NE(one, two);
  using std::swap;
  swap(first, second);
  EXPECT_EQ(handle(first), two);
  EXPECT_EQ(handle(second), one);
  T& itself = first;
  first = std::move(itself);
  EXPECT_EQ(handle(first), two);
  T third = std::move(first);
  EXPECT_EQ(handle(third), two);
  EXPECT_EQ(handle(first), null);
  T fourth = std::move(first);  // a moved-from object is empty
  EXPECT_EQ(handle(fourth), null);
  first = std::move(second);  // a moved-from object may be assigned to
  EXPECT_EQ(handle(first), one);
  first = std::move(third);  // frees the old object
  EXPECT_EQ(handle(first), two);
}

TEST_F(Lives, OfStreams) {
  move_about(
      HostStream(), HostStream(), [](HostStream& s) { return s.handle(); }, MPIX_HOST_STREAM_NULL);
}

TEST_F(Lives, OfQueues) {
  HostStream one, two;
  move_about(
      Queue(one), Queue(two), [](Queue& q) { return q.handle(); }, MPIX_QUEUE_NULL);
  Queue again(one), and_again(two);  // the streams have no queue now
}

TEST_F(Lives, OfRequests) {
  const auto before = held(queue);
  {
    Pair one(1), two(2);
    match_all({one.receive, two.receive, one.send, two.send});
    const auto handle = [](Request& r) { return r.handle(); };
    move_about(std::move(one.receive), std::move(two.receive), handle, MPI_REQUEST_NULL);
    move_about(std::move(one.send), std::move(two.send), handle, MPI_REQUEST_NULL);
  }
  EXPECT_EQ(held(queue), before);
}

TEST_F(Lives, OfSets) {
  Pair pair(1);
  match_all({pair.receive, pair.send});
  move_about(
      DeviceRequests(queue, {pair.receive}), DeviceRequests(queue, {pair.send}),
      [](DeviceRequests& s) { return s.get(); }, nullptr);
  MPI_Barrier(MPI_COMM_WORLD);  // a set cannot be made of a request whose peer was freed
}

TEST_F(Lives, MovedWhileEnqueued) {
  Pair pair(1);
  Request receive;
  Queue elsewhere;
  start(queue, pair);
  elsewhere = std::move(queue);
  receive = std::move(pair.receive);
  elsewhere.wait_all({receive, pair.send});
  queue = std::move(elsewhere);
  receive = Request();  // the destructor waits
  EXPECT_TRUE(pair.has_arrived());
}

// ---- Destruction

// Counts calls of the error handler, which gets the errors of destructors.
class ErrorCount {
 public:
  ErrorCount() {
    count() = 0;
    MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
    MPI_Comm_create_errhandler(hear, &handler);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Errhandler_free(&handler);
  }
  ~ErrorCount() { MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); }
  ErrorCount(const ErrorCount&) = delete;
  ErrorCount& operator=(const ErrorCount&) = delete;
  int errors() const { return count(); }

 private:
  static void hear(MPI_Comm*, int*, ...) { ++count(); }
  static int& count() {
    static int the_count = 0;
    return the_count;
  }
};

// A stream, its queue and a pair in flight are destroyed in every order. The first destructor waits
// for the messages, and everything is freed.
TEST_F(Lives, EndInAnyOrder) {
  const auto before = held(queue);
  const ErrorCount heard;
  std::array order{0, 1, 2};
  do {
    auto own_stream = std::make_unique<HostStream>();
    auto own_queue = std::make_unique<Queue>(*own_stream);
    Pair pair(1);
    bool has_run = false;
    start(*own_queue, pair);
    own_queue->wait_all({pair.receive, pair.send});
    own_stream->launch([&has_run] { has_run = true; });
    for (const int each : order) {
      if (each == 0)
        own_stream.reset();
      else if (each == 1)
        own_queue.reset();
      else
        pair.free();
      EXPECT_TRUE(pair.has_arrived()) << order[0] << order[1] << order[2];
      EXPECT_TRUE(has_run);
    }
    EXPECT_EQ(heard.errors(), 0) << order[0] << order[1] << order[2];
    EXPECT_EQ(held(queue), before) << order[0] << order[1] << order[2];
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(Lives, AStartWithoutAWaitEndsWithItsRequest) {
  const auto before = held(queue);
  const ErrorCount heard;
  {
    HostStream own_stream;
    Queue own_queue(own_stream);
    Pair pair(1);
    start(own_queue, pair);
    pair.receive = Request();
    EXPECT_TRUE(pair.has_arrived());
    pair.send = Request();
    own_queue.free();  // must succeed
  }
  EXPECT_EQ(held(queue), before);
  EXPECT_EQ(heard.errors(), 0);
}

// The only wrong order: the queue's destructor waits for the message but cannot free the queue. The
// queue stays and its requests still work.
TEST_F(Lives, AQueueBeforeARequestWhoseStartHasNoWait) {
  const ErrorCount heard;
  HostStream own_stream;
  Pair pair(1);
  {
    Queue own_queue(own_stream);
    start(own_queue, pair);
    EXPECT_EQ(heard.errors(), 0);
  }
  EXPECT_EQ(heard.errors(), 1);
  EXPECT_TRUE(pair.has_arrived());
  pair.free();
  std::error_code code;
  Queue second(own_stream, code);
  EXPECT_EQ(error_class(code), MPIX_ERR_BUSY);
}

// ---- After MPI_Finalize

struct Late {
  HostStream stream;
  Queue queue{stream};
  Pair pair{98, 3};
};
std::unique_ptr<Late> late;

TEST_F(Lives, BeyondMpiFinalize) {
  late = std::make_unique<Late>();
  start(late->queue, late->pair);
  late->queue.wait_all({late->pair.receive, late->pair.send});
}

bool ends_well() {
  if (late == nullptr)  // this run has not made it
    return true;
  std::error_code code;
  late->queue.synchronize(code);
  const bool right = late->pair.has_arrived(3) && code && !code.message().empty();
  late.reset();
  return right;
}

[[maybe_unused]] const bool is_registered = (mpi_suite::after_finalize().push_back(ends_well), true);

}  // namespace
}  // namespace lanyard::cpp_test
