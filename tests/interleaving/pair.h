// Pair: two NICs joined by a shared-memory wire in one schedule, and helpers for their threads.
// It uses copied sources only (copies.bzl): include it in interleaving programs alone.
#ifndef LANYARD_TESTS_INTERLEAVING_PAIR_H_
#define LANYARD_TESTS_INTERLEAVING_PAIR_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nicsim/model/nic_model.h"
#include "tests/interleaving/copies/nicsim/threaded/threaded_nic.h"
#include "tests/interleaving/copies/nicsim/wire/shm_wire.h"
#include "tests/interleaving/copies/nicsim/wire/wire.h"
#include "tests/interleaving/primitives.h"
#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::interleaving {

// In effect no limit: a wait that lasts this long has lost its wake-up.
inline constexpr std::chrono::hours kEver{1};

inline void expect(bool condition, const char* fault) {
  if (!condition)
    Scheduler::running()->fail(fault);
}
inline void expect_ok(const Status& status) {
  if (!status.ok())
    Scheduler::running()->fail(status.to_string());
}
inline void settle(Where where = Where::here()) { Scheduler::running()->settle(where); }

// A wire that asserts W3: one thread at a time sends and polls, each ordered after the last.
class DriversWire final : public nicsim::Wire {
 public:
  explicit DriversWire(std::unique_ptr<Wire> wire) : wire_(std::move(wire)) {}

  const char* name() const override { return wire_->name(); }
  nic::Address address() const override { return wire_->address(); }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override {
    return wire_->set_peers(peers, self);
  }
  Status add_peer(uint32_t peer, const nic::Address& address) override { return wire_->add_peer(peer, address); }
  bool shares_host(uint32_t peer) const override { return wire_->shares_host(peer); }
  void send(uint32_t peer, const nicsim::Packet& packet, const std::byte* payload) override {
    const Inside inside(*this);
    wire_->send(peer, packet, payload);
  }
  size_t poll(nicsim::Sink& sink) override {
    const Inside inside(*this);
    return wire_->poll(sink);
  }
  bool give_up_stalled(uint64_t key, nicsim::Sink& sink) override {
    const Inside inside(*this);
    return wire_->give_up_stalled(key, sink);
  }
  void attend() override { wire_->attend(); }
  void leave() override { wire_->leave(); }
  void sleep(Sleeper who, Nanoseconds timeout, const Idle& idle) override { wire_->sleep(who, timeout, idle); }
  void wake(Sleeper who) override { wire_->wake(who); }

 private:
  class Inside {
   public:
    explicit Inside(DriversWire& wire) : wire_(wire), thread_(Scheduler::running()->thread()) {
      expect(wire_.depth_ == 0 || wire_.thread_ == thread_, "two threads drive the wire at once");
      touch(&wire_.depth_, "the wire's driver state");
      wire_.thread_ = thread_;
      ++wire_.depth_;
    }
    ~Inside() {
      touch(&wire_.depth_, "the wire's driver state");
      --wire_.depth_;
    }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    DriversWire& wire_;
    const uint32_t thread_;
  };

  const std::unique_ptr<Wire> wire_;
  uint32_t depth_ = 0;  // above 1 where poll() sends
  uint32_t thread_ = 0;
};

struct PairOptions {
  uint32_t slots = 4;  // in an inbox
  size_t bytes = 256;  // in each side's memory
};

// A NIC with one region that counts arrivals. The first word of its memory is 1, the operand of
// sums; the second word is the sum.
class Side {
 public:
  Side(const PairOptions& options, uint32_t rank)
      : memory_(options.bytes / sizeof(uint64_t)),
        nic_({.deferred_depth = 4,
              .max_counters = 8,
              .max_regions = 8,
              .max_in_flight = 8,
              .max_held = 4,
              .kept_failures = 8},
             make_wire(options), {.spin_for = {}}),
        rank_(rank) {
    memory_[0] = 1;
  }

  nicsim::ThreadedNic& nic() { return nic_; }
  uint32_t rank() const { return rank_; }
  uint64_t* memory() { return memory_.data(); }
  nic::CounterId landed() const { return landed_; }
  nic::CounterId ended() const { return ended_; }
  nic::RemoteKey key() const { return key_; }

  void open() {
    landed_ = counter();
    ended_ = counter();
    Result<nic::RegionId> region = nic_.register_region(memory(), memory_.size() * sizeof(uint64_t), landed_);
    expect_ok(region.status());
    region_ = region.value();
    key_ = nic_.key(region_).value();
  }
  // Expects that no counter and no region is left.
  void close() {
    expect_ok(nic_.deregister_region(region_));
    expect_ok(nic_.close_counter(landed_));
    expect_ok(nic_.close_counter(ended_));
    const nic::Usage usage = nic_.usage();
    expect(usage.counters == 0 && usage.regions == 0, "a counter or region is still open after close()");
  }
  nic::CounterId counter() {
    Result<nic::CounterId> counter = nic_.open_counter();
    expect_ok(counter.status());
    return counter.value();
  }
  void close(nic::CounterId counter) { expect_ok(nic_.close_counter(counter)); }

  // Adds 1 to the second word of `to`.
  nic::Op sum(Side& to) {
    nic::Op op;
    op.kind = nic::OpKind::kAtomic;
    op.completion = ended_;
    op.local = {region_, 0};
    op.remote = {to.rank(), to.key(), sizeof(uint64_t)};
    return op;
  }
  // Copies the memory from its third word onwards.
  nic::Op write(Side& to) {
    nic::Op op;
    op.completion = ended_;
    op.local = {region_, 2 * sizeof(uint64_t)};
    op.remote = {to.rank(), to.key(), 2 * sizeof(uint64_t)};
    op.bytes = (memory_.size() - 2) * sizeof(uint64_t);
    return op;
  }
  uint64_t sums() const { return memory_[1]; }
  nic::Doorbell bell(nic::CounterId counter, nic::DoorbellKind kind = nic::DoorbellKind::kHostCall) {
    Result<nic::Doorbell> bell = nic_.doorbell(counter, kind);
    expect_ok(bell.status());
    return bell.value();
  }
  static void ring(const nic::Doorbell& bell) { bell.call(bell.object, bell.counter, 1); }

  // Calls `give` (post() or issue()) until it finds room.
  template <typename Give>
  void give(Give give) {
    while (true) {
      const uint64_t seen = nic_.activity();
      const Status status = give();
      if (status.code() != Code::kAgain)
        return expect_ok(status);
      if (nic_.progress() == 0)
        nic_.wait_since(seen, kEver);
    }
  }
  void post(const nic::Op& op, nic::CounterId trigger, uint64_t threshold) {
    const nic::DeferredOp deferred{.op = op, .trigger = trigger, .threshold = threshold};
    give([&] { return nic_.post({&deferred, 1}); });
  }
  void issue(const nic::Op& op) {
    give([&] { return nic_.issue(op); });
  }
  // Issues, then calls progress() once.
  void issue_and_go(const nic::Op& op) {
    issue(op);
    nic_.progress();
  }

  // Polls between sleeps, like a thread that waits for a counter.
  template <typename Done>
  void wait_until(Done done) {
    while (true) {
      const uint64_t seen = nic_.activity();
      if (done())
        return;
      if (nic_.progress() == 0)
        nic_.wait_since(seen, kEver);
    }
  }
  // The same, but attends (polls itself) for `rounds` rounds before each sleep.
  template <typename Done>
  void attend_until(uint32_t rounds, Done done) {
    while (true) {
      uint64_t seen = 0;
      nic_.attend();
      for (uint32_t i = 0; i < rounds; ++i) {
        seen = nic_.activity();
        if (done())
          return nic_.leave();
        nic_.progress();
        yield();
      }
      nic_.leave();
      nic_.wait_since(seen, kEver);
    }
  }
  void wait_for(nic::CounterId counter, uint64_t count) {
    wait_until([&] { return nic_.read(counter).value().success >= count; });
  }
  void expect_count(nic::CounterId counter, uint64_t count) {
    expect(nic_.read(counter).value() == nic::CounterValue{.success = count}, "a counter has the wrong value");
  }

 private:
  static std::unique_ptr<nicsim::Wire> make_wire(const PairOptions& options) {
    // No peer dies here, and each check for a dead peer would be a nap.
    auto wire = nicsim::make_shm_wire({.slots = options.slots, .watch_period = 24 * kEver});
    expect_ok(wire.status());
    return std::make_unique<DriversWire>(std::move(wire.value()));
  }

  std::vector<uint64_t> memory_;
  nicsim::ThreadedNic nic_;
  const uint32_t rank_;
  nic::CounterId landed_, ended_;
  nic::RegionId region_;
  nic::RemoteKey key_;
};

class Pair {
 public:
  explicit Pair(const PairOptions& options = {}) : sides_{Side(options, 0), Side(options, 1)} {
    const std::array<nic::Address, 2> addresses{sides_[0].nic().address(), sides_[1].nic().address()};
    for (Side& side : sides_)
      expect_ok(side.nic().set_peers(addresses, side.rank()));
    for (Side& side : sides_)
      side.open();
  }
  // Any order is possible from here on. Mostly the NICs' own threads are in a long sleep by then.
  static void set_off(Where where = Where::here()) {
    Scheduler& scheduler = *Scheduler::running();
    if (!scheduler.one_in(4))
      scheduler.rest(where);
    scheduler.set_off();
  }
  Side& operator[](size_t rank) { return sides_[rank]; }
  void close() {
    for (Side& side : sides_) {
      expect(side.nic().failures() == 0, "an operation failed");
      side.close();
    }
  }

 private:
  std::array<Side, 2> sides_;
};

// ---- Programs
// Each sets up two NICs, a lane or a lock, starts its threads, and checks the end state that nic.h
// and wire.h promise for every order.
namespace programs {

// nic_programs.cc
void posting(), ringing(), full_ring(), releasing(), due_when_posted(), doorbell_words(), arming_while_attending(),
    canceling(), deregistering(), full_inboxes(), long_messages(), listening(), waiting(), handing_over(),
    going_to_sleep();
// lane_programs.cc
void lanes_in_chunks(), lanes_waited_for_in_turn();

}  // namespace programs
}  // namespace lanyard::interleaving

#endif  // LANYARD_TESTS_INTERLEAVING_PAIR_H_
