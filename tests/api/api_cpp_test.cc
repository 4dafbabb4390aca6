// lanyard.hpp: what its calls do, and how they report errors.
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

}  // namespace
}  // namespace lanyard::cpp_test
