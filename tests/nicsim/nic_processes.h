// Two ranks, of which one is a child made by fork(), while this process has one thread, and ends by a signal: what a
// test of NICs between processes needs.
#ifndef LANYARD_TESTS_NIC_PROCESSES_H_
#define LANYARD_TESTS_NIC_PROCESSES_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"
#include "nicsim/wire/wire.h"
#include "transport/nic/nic.h"

namespace lanyard {

// Longer than anything that works ever takes, under any sanitizer.
inline constexpr std::chrono::seconds kProcessBound{20};

// One of two ranks, with a way to talk beside the NIC, and memory of its own that the other may write.
struct NicRank {
  uint32_t self = 0;
  int channel = -1;
  std::unique_ptr<nicsim::ThreadedNic> nic = {};
  nic::CounterId arrivals = {}, done = {};
  std::byte* memory = nullptr;  // whole pages, for the process's life or until unmap()
  uint64_t bytes = 0;
  nic::RegionId region = {};
  nic::RemoteKey key = {};  // of the other's

  template <typename T>
  bool tell(const T& word) {
    return ::write(channel, &word, sizeof word) == sizeof word;
  }
  template <typename T>
  bool hear(T& word) {
    return ::recv(channel, &word, sizeof word, MSG_WAITALL) == sizeof word;
  }
  bool meet() {
    char word = 'm';
    return tell(word) && hear(word);
  }

  // `wire`: "tcp", "shm", or "inbox", which is shm without copies from memory to memory.
  bool connect(const std::string& wire, uint64_t length) {
    std::unique_ptr<nicsim::Wire> made =
        wire == "tcp"
            ? std::move(nicsim::make_tcp_wire({.interface = "127.0.0.1"}).value())
            : std::unique_ptr<nicsim::Wire>(std::move(nicsim::ShmWire::create({.use_cma = wire != "inbox"}).value()));
    nic = std::make_unique<nicsim::ThreadedNic>(nicsim::ModelLimits(), std::move(made));
    std::vector<nic::Address> addresses(2);
    addresses[self] = nic->address();
    std::byte buffer[nic::Address::kMaxBytes] = {};
    std::copy(addresses[self].bytes.begin(), addresses[self].bytes.end(), buffer);
    if (!tell(buffer) || !hear(buffer))
      return false;
    addresses[1 - self].bytes.assign(buffer, buffer + addresses[self].bytes.size());
    if (!nic->set_peers(addresses, self).ok())
      return false;
    arrivals = nic->open_counter().value();
    done = nic->open_counter().value();
    bytes = length;
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
      return false;
    memory = static_cast<std::byte*>(mapped);
    region = nic->register_region(memory, bytes, arrivals).value();
    key = nic->key(region).value();
    return tell(key) && hear(key);
  }
  // All from there on, or `from` bytes from its beginning, becomes a hole that nothing else is mapped into.
  bool unmap(uint64_t from) { return ::mprotect(memory + from, bytes - from, PROT_NONE) == 0; }

  Status write(uint64_t length) {
    nic::Op op;
    op.completion = done;
    op.local = {region, 0};
    op.remote = {1 - self, key, 0};
    op.bytes = length;
    op.context = 77;
    return nic->issue(op);
  }
  // As whoever waits does it: helps, and sleeps as long as it may.
  bool wait_until(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + kProcessBound;
    while (true) {
      const uint64_t seen = nic->activity();
      if (holds())
        return true;
      if (std::chrono::steady_clock::now() > deadline)
        return false;
      if (nic->progress() == 0)
        nic->wait_since(seen, kProcessBound);
    }
  }
  bool wait_for(nic::CounterId counter, nic::CounterValue wanted) {
    return wait_until([&] { return nic->read(counter).value() == wanted; });
  }
};

// Without a call into the NIC but loads.
inline bool becomes_true(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kProcessBound;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// The parameter is the wire.
class TwoNicProcesses : public ::testing::TestWithParam<const char*> {
 protected:
  ~TwoNicProcesses() override {
    rank.nic.reset();
    kill();
    ::close(rank.channel);
    if (rank.memory != nullptr)
      ::munmap(rank.memory, rank.bytes);
  }
  // Rank 1 is a child that runs `body` and then waits for its end; `rank` is this process.
  void start(const std::function<void(NicRank&)>& body, uint64_t bytes = 4096) {
    int channel[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, channel), 0);
    std::fflush(nullptr);
    child_ = ::fork();
    ASSERT_GE(child_, 0);
    if (child_ == 0) {
      ::close(channel[0]);
      NicRank other{.self = 1, .channel = channel[1]};
      if (other.connect(GetParam(), bytes))
        body(other);
      while (true)
        ::pause();
    }
    ::close(channel[1]);
    rank.channel = channel[0];
    ASSERT_TRUE(rank.connect(GetParam(), bytes));
  }
  // The child stands still, with all its threads.
  void stop() {
    ASSERT_EQ(::kill(child_, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child_, &status, WUNTRACED), child_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  void go_on() { ASSERT_EQ(::kill(child_, SIGCONT), 0); }
  void kill() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(std::exchange(child_, -1), nullptr, 0);
    }
  }

  NicRank rank;

 private:
  pid_t child_ = -1;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_NIC_PROCESSES_H_
