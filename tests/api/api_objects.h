// Lanyard's objects with C++ lifetimes, and checks of results, figures, hints and bytes for
// the API's tests.
#ifndef LANYARD_TESTS_API_OBJECTS_H_
#define LANYARD_TESTS_API_OBJECTS_H_

#include <gtest/gtest.h>
#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <lanyard/lanyard.h>
#include "tests/api/mpi_suite.h"
#include "tests/support/expect.h"

namespace lanyard::api_test {

using mpi_suite::partner;
using mpi_suite::rank;
using mpi_suite::ranks;
using mpi_suite::step;

// ---- Results

inline int error_class(int code) {
  int result = MPI_SUCCESS;
  MPI_Error_class(code, &result);
  return result;
}

inline std::string error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

inline ::testing::AssertionResult ok(int code) {
  if (code == MPI_SUCCESS)  // no text, since cases count allocations around it
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "class " << error_class(code) << ": " << error_text(code);
}

// Whether the code has this class, and `text` contains all `facts` and none of `not_facts`.
inline ::testing::AssertionResult fails(int code, int expected_class, std::initializer_list<std::string> facts,
                                        std::initializer_list<std::string> not_facts, const std::string& text) {
  if (code == MPI_SUCCESS)
    return ::testing::AssertionFailure() << "the call returned MPI_SUCCESS";
  if (error_class(code) != expected_class)
    return ::testing::AssertionFailure() << "class " << error_class(code) << ", expected " << expected_class << ": "
                                         << text;
  for (const std::string& fact : facts)
    if (auto found = has(text, fact); !found)
      return found;
  for (const std::string& fact : not_facts)
    if (auto found = has(text, fact))
      return !found;
  return ::testing::AssertionSuccess() << text;
}
inline ::testing::AssertionResult fails(int code, int expected_class, std::initializer_list<std::string> facts = {}) {
  return fails(code, expected_class, facts, {}, error_text(code));
}

// Like fails(), but also searches what `call` writes to stderr: a report may be longer than MPI's
// error strings.
template <typename Call>
inline ::testing::AssertionResult reports(Call call, int expected_class, std::initializer_list<std::string> facts,
                                          std::initializer_list<std::string> not_facts = {}) {
  ::testing::internal::CaptureStderr();
  const int code = call();
  const std::string written = ::testing::internal::GetCapturedStderr();
  return fails(code, expected_class, facts, not_facts, error_text(code) + "\n" + written);
}

using Facts = std::map<std::string, std::string>;

// Returns the content of an info object and frees it.
inline Facts facts_in(MPI_Info info) {
  Facts facts;
  if (info == MPI_INFO_NULL)
    return facts;
  int keys = 0;
  MPI_Info_get_nkeys(info, &keys);
  for (int i = 0; i < keys; ++i) {
    char key[MPI_MAX_INFO_KEY + 1];
    char value[MPI_MAX_INFO_VAL + 1];
    int found = 0;
    MPI_Info_get_nthkey(info, i, key);
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    facts[key] = value;
  }
  MPI_Info_free(&info);
  return facts;
}

// ---- Streams and queues

class Stream {
 public:
  Stream() { EXPECT_TRUE(ok(MPIX_Host_stream_create(&handle_))); }
  ~Stream() {
    if (handle_ != MPIX_HOST_STREAM_NULL) {
      EXPECT_TRUE(ok(MPIX_Host_stream_free(&handle_)));
    }
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  MPIX_Host_stream& handle() { return handle_; }
  void launch(std::function<void()> kernel) {
    const auto run = [](void* argument) {
      const std::unique_ptr<std::function<void()>> body(static_cast<std::function<void()>*>(argument));
      (*body)();
    };
    EXPECT_TRUE(ok(MPIX_Host_stream_launch(handle_, run, new std::function<void()>(std::move(kernel)))));
  }
  void synchronize() { EXPECT_TRUE(ok(MPIX_Host_stream_synchronize(handle_))); }

 private:
  MPIX_Host_stream handle_ = MPIX_HOST_STREAM_NULL;
};

class Queue {
 public:
  explicit Queue(Stream& stream) { EXPECT_TRUE(ok(MPIX_Queue_init(&handle_, MPIX_QUEUE_HOST, &stream.handle()))); }
  ~Queue() {
    if (handle_ != MPIX_QUEUE_NULL) {
      EXPECT_TRUE(ok(MPIX_Queue_free(&handle_)));
    }
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  MPIX_Queue& handle() { return handle_; }
  operator MPIX_Queue() const { return handle_; }
  void wait() { EXPECT_TRUE(ok(MPIX_Queue_wait(handle_))); }

  Facts info() const {
    MPI_Info info = MPI_INFO_NULL;
    EXPECT_TRUE(ok(MPIX_Queue_get_info(handle_, &info)));
    return facts_in(info);
  }
  uint64_t figure(const char* name) const { return std::strtoull(info()[name].c_str(), nullptr, 10); }

 private:
  MPIX_Queue handle_ = MPIX_QUEUE_NULL;
};

// Figures that a refused call must not change.
struct Enqueued {
  uint64_t starts = 0, waits = 0, triggers = 0, entries_posted = 0;
  explicit Enqueued(const Queue& queue)
      : starts(queue.figure("starts")),
        waits(queue.figure("waits")),
        triggers(queue.figure("triggers")),
        entries_posted(queue.figure("entries_posted")) {}
  friend bool operator==(const Enqueued&, const Enqueued&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Enqueued& figures) {
    return out << figures.starts << " starts, " << figures.waits << " waits, " << figures.triggers << " triggers, "
               << figures.entries_posted << " entries";
  }
};

struct OnAQueue : ::testing::Test {
  Stream stream;
  Queue queue{stream};
};

// ---- Requests

enum class Mode { kSend, kRsend, kSsend };

// In tests with one sender per pair, the partner with the even rank sends.
inline bool sends() { return rank() % 2 == 0; }

// Persistent requests. The destructor frees them.
class Requests {
 public:
  Requests() = default;
  ~Requests() { free(); }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  // Adds a request and returns its index.
  int send(const void* buffer, int count, int peer, int tag, MPI_Comm communicator = MPI_COMM_WORLD,
           Mode mode = Mode::kSend, MPI_Datatype datatype = MPI_BYTE) {
    const auto init = mode == Mode::kSend ? MPI_Send_init : mode == Mode::kRsend ? MPI_Rsend_init : MPI_Ssend_init;
    return add([&](MPI_Request* r) { return init(buffer, count, datatype, peer, tag, communicator, r); });
  }
  int receive(void* buffer, int count, int peer, int tag, MPI_Comm communicator = MPI_COMM_WORLD,
              MPI_Datatype datatype = MPI_BYTE) {
    return add([&](MPI_Request* r) { return MPI_Recv_init(buffer, count, datatype, peer, tag, communicator, r); });
  }
  // Adds this rank's side of a message between partners.
  int half(void* buffer, int count, int tag, Mode mode = Mode::kSend) {
    return sends() ? send(buffer, count, partner(), tag, MPI_COMM_WORLD, mode) : receive(buffer, count, partner(), tag);
  }
  void free() {
    for (MPI_Request& request : requests_)
      if (request != MPI_REQUEST_NULL) {
        EXPECT_TRUE(ok(MPI_Request_free(&request)));
      }
    requests_.clear();
  }

  int count() const { return static_cast<int>(requests_.size()); }
  MPI_Request* data() { return requests_.data(); }
  MPI_Request* at(int index) { return &requests_[static_cast<size_t>(index)]; }
  MPI_Request& operator[](int index) { return requests_[static_cast<size_t>(index)]; }

  // Calls on all requests, which must succeed.
  void match() { EXPECT_TRUE(ok(MPIX_Matchall(count(), data(), MPI_STATUSES_IGNORE))); }
  void start(Queue& queue) { EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, count(), data()))); }
  void wait(Queue& queue) { EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, count(), data()))); }
  // Runs all requests once, to completion.
  void run(Queue& queue) {
    start(queue);
    wait(queue);
    queue.wait();
  }

 private:
  int add(const std::function<int(MPI_Request*)>& init) {
    MPI_Request request = MPI_REQUEST_NULL;
    EXPECT_TRUE(ok(init(&request)));
    requests_.push_back(request);
    return count() - 1;
  }

  std::vector<MPI_Request> requests_;
};

// The request of a persistent collective. The destructor frees it.
class Collective {
 public:
  Collective() = default;
  // `init` is an initialization call, `arguments` all its arguments but the last two.
  template <typename Init, typename... Arguments>
  explicit Collective(Init init, Arguments... arguments) {
    EXPECT_TRUE(ok(init(arguments..., MPI_INFO_NULL, &request_)));
  }
  ~Collective() { free(); }
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  MPI_Request* address() { return &request_; }
  MPI_Request handle() const { return request_; }
  void match() { EXPECT_TRUE(ok(MPIX_Match(&request_, MPI_STATUS_IGNORE))); }
  void start(MPIX_Queue queue) { EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request_))); }
  void wait(MPIX_Queue queue) { EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request_))); }
  // Runs the collective once, to completion.
  void run(Queue& queue) {
    start(queue);
    wait(queue);
    queue.wait();
  }
  void free() {
    if (request_ != MPI_REQUEST_NULL) {
      EXPECT_TRUE(ok(MPI_Request_free(&request_)));
    }
  }

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

// ---- Hints on requests, and their effect

inline Facts facts_of(MPI_Request request) {
  MPI_Info info = MPI_INFO_NULL;
  EXPECT_TRUE(ok(MPIX_Request_get_info(request, &info)));
  return facts_in(info);
}
inline int hint(MPI_Request request, const char* name, const char* key = "lanyard_exchange") {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, name);
  const int code = MPIX_Request_set_info(request, info);
  MPI_Info_free(&info);
  return code;
}

inline void hint_all(Requests& requests, const char* name) {
  for (int i = 0; i < requests.count(); ++i)
    EXPECT_TRUE(ok(hint(*requests.at(i), name)));
}

// Whether the queue uses sender flags.
inline bool flags(Queue& queue) { return queue.info()["strategy"] == "sender-flag"; }

// ---- Bytes

// Content of a message: differs by seed and place.
inline uint64_t content_word(uint64_t seed, uint64_t place) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + place + 1;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

// A buffer with guard bytes before and after it.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : bytes_(bytes), memory_(bytes + 2 * kGuard, kGuardByte) {}

  void* data() { return memory_.data() + kGuard; }
  int count() const { return static_cast<int>(bytes_); }

  void fill(uint64_t seed) {
    visit(seed, [](unsigned char& byte, unsigned char expected) { byte = expected; });
  }
  void poison() { std::fill_n(memory_.begin() + kGuard, bytes_, kPoison); }
  // Counts wrong bytes: the first `bytes` bytes must be the seed's, the rest poison, the
  // guards unchanged.
  size_t mistakes(uint64_t seed, size_t bytes = SIZE_MAX) {
    size_t wrong = 0;
    size_t place = 0;
    visit(seed, [&](unsigned char& byte, unsigned char expected) {
      wrong += byte != (place++ < bytes ? expected : kPoison);
    });
    for (size_t i = 0; i < kGuard; ++i)
      wrong += (memory_[i] != kGuardByte) + (memory_[kGuard + bytes_ + i] != kGuardByte);
    return wrong;
  }
  // Whether nothing was received.
  bool untouched() { return mistakes(0, 0) == 0; }

 private:
  static constexpr size_t kGuard = 64;
  static constexpr unsigned char kGuardByte = 0xa5;
  static constexpr unsigned char kPoison = 0xdb;

  template <typename Visitor>
  void visit(uint64_t seed, Visitor visitor) {
    uint64_t word = 0;
    for (size_t i = 0; i < bytes_; ++i, word >>= 8) {
      if (i % 8 == 0)
        word = content_word(seed, i);
      visitor(memory_[kGuard + i], static_cast<unsigned char>(word));
    }
  }

  size_t bytes_;
  std::vector<unsigned char> memory_;
};

// A seed for the message from `from` to `to` in an iteration.
inline uint64_t seed_of(int from, int to, int iteration, int extra = 0) {
  return content_word(static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to),
                      static_cast<uint64_t>(iteration) << 16 | static_cast<uint32_t>(extra));
}

#define NEEDS_A_PARTNER()  \
  if (partner() == rank()) \
  GTEST_SKIP() << "needs an even number of ranks"

// Pairs of a receive and a send. Each message's content depends on its ranks and its iteration.
class Messages {
  struct Pair {
    Buffer out, in;
    int peer, tag;
  };
  std::vector<std::unique_ptr<Pair>> pairs_;  // must outlive the requests

 public:
  Requests requests;  // for each pair the receive, then the send
  size_t wrong = 0;   // wrong bytes in the checked messages

  void add(size_t bytes, int peer, int tag, MPI_Comm communicator = MPI_COMM_WORLD, Mode mode = Mode::kSend) {
    Pair& pair = *pairs_.emplace_back(std::make_unique<Pair>(Pair{Buffer(bytes), Buffer(bytes), peer, tag}));
    pair.in.poison();
    requests.receive(pair.in.data(), pair.in.count(), peer, tag, communicator);
    requests.send(pair.out.data(), pair.out.count(), peer, tag, communicator, mode);
  }
  MPI_Request* receive(int pair) { return requests.at(2 * pair); }
  MPI_Request* send(int pair) { return requests.at(2 * pair + 1); }

  void fill(Stream& stream, int iteration) {
    stream.launch([this, iteration] {
      for (const auto& pair : pairs_)
        pair->out.fill(seed_of(rank(), pair->peer, iteration, pair->tag));
    });
  }
  void check(Stream& stream, int iteration) {
    stream.launch([this, iteration] {
      for (const auto& pair : pairs_) {
        wrong += pair->in.mistakes(seed_of(pair->peer, rank(), iteration, pair->tag));
        pair->in.poison();
      }
    });
  }
  void poison_sent(Stream& stream) {
    stream.launch([this] {
      for (const auto& pair : pairs_)
        pair->out.poison();
    });
  }
  // Enqueues an iteration of all pairs. The host does not wait.
  void run(Stream& stream, Queue& queue, int iteration) {
    fill(stream, iteration);
    requests.start(queue);
    requests.wait(queue);
    check(stream, iteration);
  }
};

// Expects that messages still work, with the partner and from the rank to itself.
inline void verify_exchange(Queue& queue, Stream& stream, int iterations = 3) {
  for (const int peer : {partner(), rank()}) {
    Messages messages;
    messages.add(1000, peer, 32'000);
    messages.requests.match();
    for (int i = 0; i < iterations; ++i)
      messages.run(stream, queue, i);
    queue.wait();
    EXPECT_EQ(messages.wrong, 0u);
  }
}

// ---- Refused calls

// Holds a stream until open().
class Gate {
 public:
  explicit Gate(Stream& stream) {
    stream.launch([state = state_] {
      state->closed = true;
      while (!state->open.load())
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    });
    // The stream's own thread must run the gate, so that no thread that waits for the stream does.
    while (!state_->closed.load())
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() { state_->open = true; }

 private:
  // The stream reads the state once more after open(), when the gate may be destroyed.
  struct State {
    std::atomic<bool> closed{false};
    std::atomic<bool> open{false};
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A refused call reports the reason and changes nothing, and later calls work.
struct Misuse : OnAQueue {
  Buffer out{40}, in{40};

  void TearDown() override { verify_exchange(queue, stream); }

  // Requires that nothing is in flight on the queue.
  void refused(const std::function<int()>& call, int error_class, std::initializer_list<std::string> facts = {}) {
    const Enqueued before(queue);
    EXPECT_TRUE(fails(call(), error_class, facts));
    EXPECT_EQ(Enqueued(queue), before);
  }
  // Adds a receive and a send from the rank to itself.
  void add_pair(Requests& requests, int tag = 3, MPI_Comm communicator = MPI_COMM_WORLD) {
    requests.receive(in.data(), in.count(), rank(), tag, communicator);
    requests.send(out.data(), out.count(), rank(), tag, communicator);
  }
  // Expects that the pair works.
  void verify_pair(Requests& requests, int iterations = 2) {
    for (int i = 0; i < iterations; ++i) {
      out.fill(seed_of(rank(), rank(), i));
      in.poison();
      requests.run(queue);
      EXPECT_EQ(in.mistakes(seed_of(rank(), rank(), i)), 0u);
    }
  }
  std::string myself() const { return "peer " + std::to_string(rank()); }
};

// The same with a pair of requests from the rank to itself.
struct MisuseOfPair : Misuse {
  Requests pair;

  void SetUp() override { add_pair(pair); }
  void TearDown() override {
    pair.free();
    Misuse::TearDown();
  }
};

}  // namespace lanyard::api_test

#endif  // LANYARD_TESTS_API_OBJECTS_H_
