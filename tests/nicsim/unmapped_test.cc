// ThreadedNic between two processes: a message whose memory has been unmapped fails at its sender,
// and nothing else fails. For short messages, and for those through the inbox, the copying process
// gets SIGSEGV instead.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

constexpr uint64_t kLong = uint64_t{1} << 20;
constexpr std::chrono::seconds kBound{20};

// One of two ranks, with a channel beside the NIC and memory that the other rank may write.
struct Rank {
  uint32_t self = 0;
  int channel = -1;
  std::unique_ptr<nicsim::ThreadedNic> nic = {};
  nic::CounterId arrivals = {}, done = {};
  std::byte* memory = nullptr;
  nic::RegionId region = {};
  nic::RemoteKey key = {};  // of the other rank's region

  template <typename T>
  bool exchange(T& word) {
    return ::write(channel, &word, sizeof word) == sizeof word &&
           ::recv(channel, &word, sizeof word, MSG_WAITALL) == sizeof word;
  }
  bool connect(bool tcp) {
    std::unique_ptr<nicsim::Wire> wire = tcp ? std::move(nicsim::make_tcp_wire({.interface = "127.0.0.1"}).value())
                                             : std::move(nicsim::make_shm_wire().value());
    nic = std::make_unique<nicsim::ThreadedNic>(nicsim::ModelLimits(), std::move(wire));
    std::vector<nic::Address> addresses(2, nic->address());
    std::array<std::byte, nic::Address::kMaxBytes> other{};
    std::copy(addresses[self].bytes.begin(), addresses[self].bytes.end(), other.begin());
    if (!exchange(other))
      return false;
    std::copy_n(other.begin(), addresses[self].bytes.size(), addresses[1 - self].bytes.begin());
    if (!nic->set_peers(addresses, self).ok())
      return false;
    arrivals = nic->open_counter().value();
    done = nic->open_counter().value();
    memory =
        static_cast<std::byte*>(::mmap(nullptr, kLong, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    region = nic->register_region(memory, kLong, arrivals).value();
    key = nic->key(region).value();
    return exchange(key);
  }
  // Makes all but the first 4096 bytes inaccessible. The addresses stay reserved.
  bool unmap() { return ::mprotect(memory + 4096, kLong - 4096, PROT_NONE) == 0; }
  bool write(uint64_t bytes) {
    nic::Op op;
    op.completion = done;
    op.local = {region, 0};
    op.remote = {1 - self, key, 0};
    op.bytes = bytes;
    op.context = 77;
    return nic->issue(op).ok();
  }
  bool counts(nic::CounterId counter, nic::CounterValue wanted) {
    const auto deadline = std::chrono::steady_clock::now() + kBound;
    while (nic->read(counter).value() != wanted && std::chrono::steady_clock::now() < deadline)
      nic->progress();
    return nic->read(counter).value() == wanted;
  }
};

bool fail_once_and_go_on(Rank& rank) {
  if (!rank.write(kLong) || !rank.counts(rank.done, {0, 1}))
    return false;
  const std::optional<nic::FailureRecord> failure = rank.nic->take_failure();
  return failure.has_value() && failure->code == Code::kUnmapped && failure->context == 77 && rank.write(4096) &&
         rank.counts(rank.done, {1, 1}) && !rank.nic->is_lost(0);
}

class Unmapped : public ::testing::TestWithParam<const char*> {
 protected:
  // The sender is a child process: fork() runs while this process has one thread.
  static void expect_one_failure(bool of_source) {
    const bool tcp = GetParam() == std::string("tcp");
    int channel[2], status = 0;
    char word = 'm';
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, channel), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::close(channel[0]);
      Rank sender{.self = 1, .channel = channel[1]};
      const bool well = sender.connect(tcp) && (!of_source || sender.unmap()) && sender.exchange(word) &&
                        fail_once_and_go_on(sender) && sender.exchange(word);
      ::_exit(well ? 0 : 1);
    }
    ::close(channel[1]);
    Rank receiver{.channel = channel[0]};
    ASSERT_TRUE(receiver.connect(tcp) && (of_source || receiver.unmap()) && receiver.exchange(word));
    EXPECT_TRUE(receiver.counts(receiver.arrivals, {1})) << "only the short message should arrive";
    EXPECT_FALSE(receiver.nic->is_lost(1));
    EXPECT_TRUE(receiver.nic->deregister_region(receiver.region).ok());
    EXPECT_TRUE(receiver.exchange(word));
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the sender's checks failed";
    receiver.nic.reset();
    ::munmap(receiver.memory, kLong);
    ::close(channel[0]);
  }
};
INSTANTIATE_TEST_SUITE_P(Over, Unmapped, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(Unmapped, TheSource) { expect_one_failure(true); }
TEST_P(Unmapped, TheTarget) { expect_one_failure(false); }

}  // namespace
}  // namespace lanyard
