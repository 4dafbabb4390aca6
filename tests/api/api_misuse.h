// What the tests of misuse have in common: a refused call says why, changes nothing, and what follows works.
#ifndef LANYARD_TESTS_API_MISUSE_H_
#define LANYARD_TESTS_API_MISUSE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {

// Holds a stream up until it is opened.
class Gate {
 public:
  explicit Gate(Stream& stream) {
    stream.launch([state = state_] {
      state->closed = true;
      while (!state->open.load())
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    });
    // On the stream's own thread, so that no thread that waits for the stream is caught in it.
    while (!state_->closed.load())
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ~Gate() { open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void open() { state_->open = true; }

 private:
  // The stream looks at it once more after it was opened, when the gate may be gone.
  struct State {
    std::atomic<bool> closed{false};
    std::atomic<bool> open{false};
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct Misuse : ::testing::Test {
  Stream stream;
  Queue queue{stream};
  Buffer out{40}, in{40};

  void TearDown() override { verify_exchange(queue, stream); }

  // Requires that nothing is under way in the queue.
  void refused(const std::function<int()>& call, int error_class, std::initializer_list<std::string> facts = {}) {
    const Enqueued before(queue);
    EXPECT_TRUE(fails(call(), error_class, facts));
    EXPECT_EQ(Enqueued(queue), before);
  }
  // A receive and a send, to oneself.
  void add_pair(Requests& requests, int tag = 3) {
    requests.receive(in.data(), in.count(), rank(), tag);
    requests.send(out.data(), out.count(), rank(), tag);
  }
  // The pair works `iterations` times.
  void verify_pair(Requests& requests, int iterations = 2) {
    for (int i = 0; i < iterations; ++i) {
      out.fill(seed_of(rank(), rank(), i));
      in.poison();
      requests.start(queue);
      requests.wait(queue);
      queue.wait();
      EXPECT_EQ(in.mistakes(seed_of(rank(), rank(), i)), 0u);
    }
  }
  std::string myself() const { return "peer " + std::to_string(rank()); }
};

}  // namespace lanyard::api_test

#endif  // LANYARD_TESTS_API_MISUSE_H_
