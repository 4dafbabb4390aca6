// ThreadedNic: its own thread is awake where a doorbell word may be rung, which wakes nobody.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "nicsim/threaded/threaded_nic.h"
#include "nicsim/wire/shm_wire.h"
#include "nicsim/wire/tcp_wire.h"
#include "nicsim/wire/wire.h"
#include "transport/nic/nic.h"

namespace lanyard {
namespace {

using nicsim::Wire;
using Clock = std::chrono::steady_clock;

// Longer than anything that works ever takes, under any sanitizer.
constexpr std::chrono::seconds kBound{60};
// What the owner sleeps while there is nothing to watch; every other sleep of its is far shorter.
constexpr std::chrono::minutes kForLong{1};

bool eventually(const std::function<bool()>& happens) {
  const auto deadline = Clock::now() + kBound;
  while (!happens()) {
    if (Clock::now() > deadline)
      return false;
    std::this_thread::yield();
  }
  return true;
}

// What a test sees of the owner's sleep, and does just before it.
struct Watch {
  std::function<void()> falls_asleep;  // called once, by the owner, before its first long sleep
  std::atomic<bool> asleep{false};     // in a long sleep, seen by wakers
};

class WatchedWire final : public Wire {
 public:
  WatchedWire(std::unique_ptr<Wire> wire, Watch& watch) : wire_(std::move(wire)), watch_(watch) {}

  const char* name() const override { return wire_->name(); }
  nic::Address address() const override { return wire_->address(); }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override {
    return wire_->set_peers(peers, self);
  }
  bool shares_host(uint32_t peer) const override { return wire_->shares_host(peer); }
  void send(uint32_t peer, const nicsim::Packet& packet, const std::byte* payload) override {
    wire_->send(peer, packet, payload);
  }
  size_t poll(nicsim::Sink& sink) override { return wire_->poll(sink); }
  bool give_up_stalled(uint64_t key, nicsim::Sink& sink) override { return wire_->give_up_stalled(key, sink); }
  void attend() override { wire_->attend(); }
  void leave() override { wire_->leave(); }
  void wake(Sleeper who) override { wire_->wake(who); }
  void sleep(Sleeper who, Nanoseconds timeout, bool (*idle)(void*), void* object) override {
    if (who != Sleeper::kOwner || timeout < kForLong)
      return wire_->sleep(who, timeout, idle, object);
    if (watch_.falls_asleep)
      std::exchange(watch_.falls_asleep, nullptr)();
    struct Question {
      Watch& watch;
      bool (*idle)(void*);
      void* object;
    } question{watch_, idle, object};
    const auto ask = [](void* argument) {
      const auto& question = *static_cast<Question*>(argument);
      if (!question.idle(question.object))
        return false;
      question.watch.asleep.store(true);
      return true;
    };
    wire_->sleep(who, timeout, ask, &question);
    watch_.asleep.store(false);
  }

 private:
  const std::unique_ptr<Wire> wire_;
  Watch& watch_;
};

// A NIC that has an operation on a doorbell's counter, and nobody but its own thread to look at the word.
class OwnersSleep : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<Wire> make_wire() {
    if (std::string(GetParam()) == "tcp")
      return std::move(nicsim::make_tcp_wire({.interface = "127.0.0.1"}).value());
    return std::move(nicsim::ShmWire::create({}).value());
  }
  // `falls_asleep`: what happens just before the owner's first long sleep.
  void start(std::function<void()> falls_asleep = nullptr) {
    watch.falls_asleep = std::move(falls_asleep);
    auto wire = std::make_unique<WatchedWire>(make_wire(), watch);
    nic = std::make_unique<nicsim::ThreadedNic>(nicsim::ModelLimits{}, std::move(wire));
    const nic::Address address = nic->address();
    ASSERT_TRUE(nic->set_peers({&address, 1}, 0).ok());
    trigger = nic->open_counter().value();
    const nic::RegionId region = nic->register_region(memory, sizeof memory, {}).value();
    nic::DeferredOp op{.op = {}, .trigger = trigger, .threshold = 1};
    op.op.kind = nic::OpKind::kAtomic;
    op.op.atomic = nic::AtomicKind::kSum;
    op.op.local = {region, 0};
    op.op.remote = {0, nic->key(region).value(), sizeof(uint64_t)};
    ASSERT_TRUE(nic->post({&op, 1}).ok());
    ready.store(true);
  }
  void arm() { word.store(nic->doorbell(trigger, nic::DoorbellKind::kAtomicAdd).value().word); }
  // As a device does it. The memory is looked at without a call into the NIC, which would do its work.
  ::testing::AssertionResult a_ring_is_seen() {
    std::atomic_ref(*word.load()).fetch_add(1);
    if (eventually([&] { return std::atomic_ref(memory[1]).load() == 1; }))
      return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "the NIC's thread sleeps";
  }

  alignas(8) uint64_t memory[2] = {1, 0};
  Watch watch;
  std::unique_ptr<nicsim::ThreadedNic> nic;
  nic::CounterId trigger;
  std::atomic<uint64_t*> word{nullptr};
  std::atomic<bool> ready{false};
};
INSTANTIATE_TEST_SUITE_P(Over, OwnersSleep, ::testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(OwnersSleep, EndsWhenAWordIsArmed) {
  start();
  ASSERT_TRUE(eventually([&] { return watch.asleep.load(); }));
  arm();
  EXPECT_TRUE(a_ring_is_seen());
}

// Nobody is asleep yet whom arming could wake, but the owner has looked for words and found none.
TEST_P(OwnersSleep, DoesNotBeginWhenAWordIsArmedMeanwhile) {
  start([this] {
    eventually([this] { return ready.load(); });
    arm();
  });
  ASSERT_TRUE(eventually([this] { return word.load() != nullptr; }));
  EXPECT_TRUE(a_ring_is_seen());
}

// While a thread attends the owner may sleep whatever is armed. It must not sleep on when that thread leaves.
TEST_P(OwnersSleep, EndsWhenWhoAttendedLeavesAWordArmed) {
  start([this] {
    eventually([this] { return ready.load(); });
    nic->attend();
    arm();
  });
  ASSERT_TRUE(eventually([&] { return watch.asleep.load(); }));
  nic->leave();
  EXPECT_TRUE(a_ring_is_seen());
}

}  // namespace
}  // namespace lanyard
