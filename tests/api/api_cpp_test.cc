// lanyard.hpp: what its calls do, how they report errors, and the lifetimes of its objects: moved,
// destroyed in any order, with work in flight, and after MPI_Finalize.
#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <complex>
#include <cstddef>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/api/api_cpp_objects.h"

namespace lanyard::cpp_test {
namespace {

struct Calls : Cpp {};

// ---- Buffers

TEST(Buffers, HaveTheirSourcesAddressAndCount) {
  std::vector<double> vector(5);
  const std::array<float, 3> array{};
  char text[7] = "";
  const std::string string = "twelve chars";
  const ConstBuffer of[] = {vector, array, text, string, std::span(vector).subspan(1), {vector.data(), 2}};
  const std::tuple<const void*, int, MPI_Datatype> expected[] = {
      {vector.data(), 5, MPI_DOUBLE}, {array.data(), 3, MPI_FLOAT},       {text, 7, MPI_CHAR},
      {string.data(), 12, MPI_CHAR},  {vector.data() + 1, 4, MPI_DOUBLE}, {vector.data(), 2, MPI_DOUBLE}};
  for (size_t i = 0; i < std::size(of); ++i)
    EXPECT_EQ(std::tuple(of[i].address(), of[i].count(), of[i].datatype()), expected[i]) << i;
  const Buffer bytes(vector.data(), size_t{40}, MPI_BYTE);
  EXPECT_EQ(std::tuple(bytes.address(), bytes.count(), bytes.datatype()),
            std::tuple(static_cast<void*>(vector.data()), 40, MPI_BYTE));
}

TEST(Buffers, CountToAsManyAsMpiCan) {
  int element = 0;
  EXPECT_EQ(Buffer(&element, size_t{INT_MAX}).count(), INT_MAX);
  EXPECT_EQ(Buffer(&element, size_t{INT_MAX} + 1).count(), -1);
  EXPECT_EQ(Buffer(&element, (size_t{1} << 32) + 1).count(), -1);
  EXPECT_EQ(Buffer(&element, -3).count(), -1);
}

// A receive cannot write a const buffer, and a buffer cannot be made of a temporary.
static_assert(std::is_constructible_v<ConstBuffer, const std::vector<int>&>);
static_assert(!std::is_constructible_v<ConstBuffer, int*>);
static_assert(!std::is_constructible_v<ConstBuffer, std::list<int>&>);

template <typename... T>
struct Types {};

template <typename... T>
void exchange_each(Queue& queue, Types<T...>) {
  const auto exchange = [&](auto value) {
    using Value = decltype(value);
    int bytes = 0;
    MPI_Type_size(datatype_of<Value>(), &bytes);
    EXPECT_EQ(static_cast<size_t>(bytes), sizeof(Value));
    std::array<Value, 3> in{}, out{value, Value{}, value};
    std::array pair{Request::receive(in, partner(), 1, MPI_COMM_WORLD),
                    Request::send(out, partner(), 1, MPI_COMM_WORLD)};
    match_all(pair);
    queue.start_all(pair);
    queue.wait_all(pair);
    queue.synchronize();
    EXPECT_EQ(in, out);
  };
  (exchange(static_cast<T>(1)), ...);
}

TEST_F(Calls, EveryBuiltInTypeTravels) {
  exchange_each(queue, Types<std::byte, bool, char, signed char, unsigned char, wchar_t, short, unsigned short, int,
                             unsigned, long, unsigned long, long long, unsigned long long, float, double, long double,
                             std::complex<float>, std::complex<double>, std::complex<long double>>());
}

// ---- Requests

TEST_F(Calls, EveryKindOfSend) {
  const int right = (rank() + 1) % ranks();
  const int left = (rank() + ranks() - 1) % ranks();
  for (const auto make : {Request::send, Request::ready_send, Request::synchronous_send}) {
    int in = -1, out = -1;
    Request receive = Request::receive({&in, 1}, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD);
    Request send = make({&out, 1}, right, 30 + rank(), MPI_COMM_WORLD, {});
    EXPECT_FALSE(receive.is_matched());
    std::vector<MPI_Status> statuses;
    match_all({receive, send}, statuses);
    ASSERT_EQ(statuses.size(), 2u);
    EXPECT_EQ(statuses[0].MPI_SOURCE, left);
    EXPECT_EQ(statuses[0].MPI_TAG, 30 + left);
    EXPECT_TRUE(receive.is_matched());
    for (int step = 0; step < 3; ++step) {
      queue.start(receive);
      stream.launch([&out, step] { out = 10 * step + rank(); });
      stream.synchronize();
      MPI_Barrier(MPI_COMM_WORLD);  // all receives have started: ready sends may start
      queue.start(send);
      queue.wait(send);
      queue.wait(receive);
      queue.synchronize();
      EXPECT_EQ(in, 10 * step + left);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST_F(Calls, MatchingOneByOneAndLater) {
  Pair first(1), second(2, 5);
  MPI_Request matching = imatch(first.send);
  const MPI_Status status = match(first.receive);
  EXPECT_EQ(status.MPI_SOURCE, partner());
  MPI_Wait(&matching, MPI_STATUS_IGNORE);
  EXPECT_EQ(matching, MPI_REQUEST_NULL);
  matching = imatch_all({second.receive, second.send});
  MPI_Wait(&matching, MPI_STATUS_IGNORE);
  for (const Request* each : {&first.send, &first.receive, &second.send, &second.receive})
    EXPECT_TRUE(each->is_matched());
}

TEST_F(Calls, ManyRequestsOfAnyRange) {
  for (const int count : {0, 1, 16, 17}) {
    std::vector<int> in(static_cast<size_t>(count), -1), out(in.size());
    std::list<Request> requests;
    for (int i = 0; i < count; ++i) {
      const size_t place = static_cast<size_t>(i);
      out[place] = 100 * rank() + i;
      requests.push_back(Request::receive({&in[place], 1}, partner(), i, MPI_COMM_WORLD));
      requests.push_front(Request::send({&out[place], 1}, partner(), i, MPI_COMM_WORLD));
    }
    match_all(requests);
    queue.start_all(requests);
    queue.wait_all(requests);
    queue.synchronize();
    for (int i = 0; i < count; ++i)
      EXPECT_EQ(in[static_cast<size_t>(i)], 100 * partner() + i) << count;
  }
}

TEST_F(Calls, RequestsMayBeOfAnExchangeWithTwoSets) {
  Pair first(1), second(2);
  for (Request* each : {&first.send, &first.receive})
    each->set_exchange("halo", 0);
  second.send.set_exchange("halo", 1);
  second.receive.set_exchange("halo");
  EXPECT_EQ(second.receive.info().count("lanyard_exchange_set"), 0u);
  second.receive.set_exchange("halo", 1);
  refused([&](OnError e) { second.send.set_exchange("halo", 2, e); }, MPI_ERR_INFO_VALUE, {"0, 1 or none"});
  match_all({first.receive, first.send, second.receive, second.send});
  const bool merged = queue.info().at("strategy") == "target-counter";
  EXPECT_EQ(second.send.info().at("lanyard_exchange_set"), merged ? "1" : "none");
  for (Pair* each : {&first, &second, &first}) {
    queue.start_all({each->receive, each->send});
    queue.wait_all({each->receive, each->send});
    queue.synchronize();
    EXPECT_TRUE(each->has_arrived());
  }
}

TEST_F(Calls, KernelsElsewhereStartSets) {
  Pair pair(1);
  match_all({pair.receive, pair.send});
  DeviceRequests set(queue, {pair.receive, pair.send});
  DeviceRequests moved = std::move(set);
  EXPECT_EQ(set.get(), nullptr);
  ASSERT_NE(moved.get(), nullptr);
  const auto exchange = [&] {
    MPIX_Device_startall(moved.get());
    MPIX_Device_waitall(moved.get());
  };
  std::thread(exchange).join();
  EXPECT_TRUE(pair.has_arrived());
  refused([&](OnError e) { queue.start(pair.send, e); }, MPI_ERR_REQUEST, {"kernel"});
  refused([&](OnError e) { queue.free(e); }, MPIX_ERR_BUSY, {"sets"});
  moved.free();
  EXPECT_EQ(moved.get(), nullptr);
  EXPECT_TRUE(fails([&](OnError e) { moved.free(e); }, MPI_ERR_ARG));
  { DeviceRequests again(queue, {pair.receive, pair.send}); }
  queue.start_all({pair.receive, pair.send});
  queue.wait_all({pair.receive, pair.send});
}

// ---- Kernels

void count_up() {
  static int calls = 0;
  ++calls;
}

TEST_F(Calls, AStreamOwnsItsKernelsUntilTheyHaveRun) {
  auto owned = std::make_shared<int>(1);
  std::weak_ptr<int> watched = owned;
  auto alone = std::make_unique<int>(3);
  int sum = 0;
  stream.launch([&sum, owned = std::move(owned)] { sum += *owned; });
  stream.launch([&sum, alone = std::move(alone)] { sum += *alone; });
  stream.launch([](void* argument) { *static_cast<int*>(argument) += 5; }, &sum);
  stream.launch(count_up);
  stream.synchronize();
  EXPECT_EQ(sum, 9);
  EXPECT_TRUE(watched.expired());
}

TEST_F(Calls, ARefusedKernelIsDestroyed) {
  HostStream other;
  HostStream moved = std::move(other);
  auto owned = std::make_shared<int>(1);
  refused([&](OnError e) { other.launch([owned] {}, e); }, MPI_ERR_ARG, {"stream"});
  EXPECT_EQ(owned.use_count(), 1);
}

// ---- Errors

TEST_F(Calls, RefusedOnes) {
  Pair pair(1), matched(2);
  refused([&](OnError e) { queue.start(pair.send, e); }, MPI_ERR_REQUEST, {"not matched"});
  refused([&](OnError e) { queue.start_all({pair.receive, pair.send}, e); }, MPI_ERR_REQUEST, {"request 0"});
  refused([&](OnError e) { queue.wait(pair.send, e); }, MPI_ERR_REQUEST, {"not matched"});
  match_all({matched.receive, matched.send});
  refused([&](OnError e) { (void)match(matched.send, e); }, MPI_ERR_REQUEST, {"matched already"});
  refused([&](OnError e) { match_all({matched.send}, e); }, MPI_ERR_REQUEST, {"matched already"});
  refused([&](OnError e) { (void)imatch(matched.send, e); }, MPI_ERR_REQUEST, {"matched already"});
  refused([&](OnError e) { (void)imatch_all({matched.send}, e); }, MPI_ERR_REQUEST, {"matched already"});
  refused([&](OnError e) { queue.wait_all({matched.send}, e); }, MPI_ERR_REQUEST);
  refused([&](OnError e) { queue.start_all({matched.receive, pair.send}, e); }, MPI_ERR_REQUEST, {"request 1"});
  refused([&](OnError e) { Queue second(stream, e); }, MPIX_ERR_BUSY, {"queue already"});
  // A refused start needs no wait: the pair and the matched requests are freed without an error.
}

TEST_F(Calls, ARequestInFlightIsNotFreed) {
  Pair pair(1);
  match_all({pair.receive, pair.send});
  queue.start_all({pair.receive, pair.send});
  EXPECT_TRUE(fails([&](OnError e) { pair.send.free(e); }, MPI_ERR_REQUEST, {"send", "tag 1"}));
  EXPECT_NE(pair.send.handle(), MPI_REQUEST_NULL);
  EXPECT_TRUE(fails([&](OnError e) { queue.free(e); }, MPIX_ERR_BUSY, {"tag 1"}));
  queue.wait_all({pair.receive, pair.send});
  queue.synchronize();
  pair.send.free();
  EXPECT_EQ(pair.send.handle(), MPI_REQUEST_NULL);
}

TEST_F(Calls, EmptyObjects) {
  Pair pair(1);
  match_all({pair.receive, pair.send});
  Request no_request;
  Queue no_queue;
  HostStream gone;
  { HostStream elsewhere = std::move(gone); }
  refused([&](OnError e) { no_queue.start(pair.send, e); }, MPIX_ERR_QUEUE, {"queue"});
  refused([&](OnError e) { no_queue.wait_all({pair.send}, e); }, MPIX_ERR_QUEUE);
  refused([&](OnError e) { no_queue.synchronize(e); }, MPIX_ERR_QUEUE);
  refused([&](OnError e) { no_queue.free(e); }, MPIX_ERR_QUEUE);
  refused([&](OnError e) { EXPECT_TRUE(no_queue.info(e).empty()); }, MPIX_ERR_QUEUE);
  refused([&](OnError e) { DeviceRequests set(no_queue, {pair.send}, e); }, MPIX_ERR_QUEUE);
  refused([&](OnError e) { queue.start(no_request, e); }, MPI_ERR_REQUEST, {"MPI_REQUEST_NULL"});
  refused([&](OnError e) { (void)match(no_request, e); }, MPI_ERR_REQUEST);
  refused([&](OnError e) { no_request.free(e); }, MPI_ERR_REQUEST);
  refused([&](OnError e) { EXPECT_FALSE(no_request.is_matched(e)); }, MPI_ERR_REQUEST);
  refused([&](OnError e) { gone.synchronize(e); }, MPI_ERR_ARG, {"stream"});
  refused([&](OnError e) { EXPECT_EQ(Queue(gone, e).handle(), MPIX_QUEUE_NULL); }, MPI_ERR_ARG, {"stream"});
}

// A pointer to an incomplete type, like cudaStream_t without CUDA's headers.
TEST_F(Calls, StreamsOfMissingGpus) {
  struct unknown* none = nullptr;
  refused([&](OnError e) { (void)Queue::cuda(none, e); }, MPI_ERR_UNSUPPORTED_OPERATION);
  refused([&](OnError e) { (void)Queue::hip(none, e); }, MPI_ERR_UNSUPPORTED_OPERATION);
}

TEST_F(Calls, ACodeIsClearedOnSuccess) {
  Request none;
  std::error_code code;
  queue.start(none, code);
  EXPECT_TRUE(code);
  EXPECT_EQ(&code.category(), &mpi_category());
  queue.synchronize(code);
  EXPECT_FALSE(code) << code.message();
  EXPECT_THROW(queue.start(none), std::system_error);
}

// ---- Lifetimes: moves

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
