// ThreadedNic: the simulated NIC on host threads, one per process (for tests also several). It runs
// nicsim/model and adds what the model lacks: the right to drive, doorbell words, bytes and sleep
// (nicsim/README.md).
#ifndef LANYARD_NICSIM_THREADED_THREADED_NIC_H_
#define LANYARD_NICSIM_THREADED_THREADED_NIC_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include "nicsim/model/nic_model.h"
#include "nicsim/threaded/device_mover.h"
#include "nicsim/threaded/doorbell_words.h"
#include "nicsim/wire/wire.h"
#include "transport/base/device_memory.h"
#include "transport/base/mpsc_ring.h"
#include "transport/base/thread_annotations.h"
#include "transport/nic/drive_right.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

struct ThreadedOptions {
  // How long after the last event the NIC's own thread polls doorbell words all the time. 0: it
  // only looks every kDoorbellPeriod.
  std::chrono::milliseconds spin_for{20};
  // Allows regions of device memory. Outlives the NIC.
  DeviceMemory* memory = nullptr;
};

class ThreadedNic final : public nic::Nic, private Sink {
 public:
  ThreadedNic(const ModelLimits& limits, std::unique_ptr<Wire> wire, const ThreadedOptions& options = {});
  // No other thread may use it any more. Operations in flight are abandoned.
  ~ThreadedNic() override;

  // Call before the first operation. The witness outlives the NIC.
  void set_witness(Witness* witness) { Driving(*this)->set_witness(witness); }
  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return wire_->address(); }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override;
  Status add_peer(uint32_t peer, const nic::Address& address) override;

  Result<nic::CounterId> open_counter() override;
  Status close_counter(nic::CounterId counter) override;
  Result<nic::CounterValue> read(nic::CounterId counter) override;
  Status add(nic::CounterId counter, uint64_t value) override { return Driving(*this)->add(counter, value); }
  Status add_error(nic::CounterId counter, uint32_t value) override {
    return Driving(*this)->add_error(counter, value);
  }
  Status reset(nic::CounterId counter) override { return Driving(*this)->reset(counter); }
  // As NicModel::set().
  Status set(nic::CounterId counter, uint64_t value) { return Driving(*this)->set(counter, value); }
  Status set_error(nic::CounterId counter, uint64_t value) { return Driving(*this)->set_error(counter, value); }
  Status listen(nic::CounterId counter, nic::Listener listener) override;
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override;

  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write) override {
    return register_region(base, bytes, remote_write, RegionOptions());
  }
  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write,
                                        const RegionOptions& options);
  Status deregister_region(nic::RegionId region) override;
  Result<nic::RemoteKey> key(nic::RegionId region) const override {
    return Driving(const_cast<ThreadedNic&>(*this), Driving::Afterwards::kLittle)->key(region);
  }

  Status post(std::span<const nic::DeferredOp> ops) override;
  Result<nic::PreparedId> prepare(const nic::Op& op) override;
  Status post_prepared(std::span<const nic::Posting> postings) override;
  Status release(nic::PreparedId prepared) override {
    return Driving(*this, Driving::Afterwards::kLittle)->release(prepared);
  }
  Status issue(const nic::Op& op) override;
  uint32_t free_entries() const override { return free_entries_.load(std::memory_order_relaxed); }
  Status cancel(nic::CounterId trigger) override;
  Status flush() override;

  size_t progress() override;
  uint64_t activity() const override { return activity_.load(std::memory_order_seq_cst); }
  void wait_since(uint64_t seen, Nanoseconds timeout) override;
  void attend() override;
  void leave() override;
  std::optional<nic::FailureRecord> take_failure() override { return Driving(*this)->take_failure(); }
  nic::Usage usage() const override {
    const Driving driving(const_cast<ThreadedNic&>(*this));
    return {.counters = model_.open_counters(), .regions = model_.open_regions()};
  }
  uint64_t lost_peers() const override { return lost_count_.load(std::memory_order_acquire); }
  bool is_lost(uint32_t peer) const override {
    return peer < peer_count_.load(std::memory_order_acquire) && lost_[peer].load(std::memory_order_acquire);
  }
  std::string why_lost(uint32_t peer) const override { return why_lost_[peer]; }
  uint64_t failures() const override { return failures_.load(std::memory_order_acquire); }

 private:
  struct Command {
    static constexpr uint32_t kPostings = 4;  // so many take no more memory than one operation

    enum class Kind : uint8_t { kPost, kPostPrepared, kIssue, kRing } kind;
    uint32_t postings;  // kPostPrepared: their number. Valid until run: release() runs earlier commands first
    union {
      nic::DeferredOp deferred;  // kPost; kIssue: .op; kRing: .trigger and .threshold, the value to add
      nic::Posting posting[kPostings];
    };
    Command() : deferred() {}
  };

  // Holds the right to drive during its lifetime, for calls that need the model's current state.
  // First runs everything posted before.
  class LANYARD_SCOPED_CAPABILITY Driving {
   public:
    // kLittle: leaves arrived packets to other threads if there is nothing else to do. For calls
    // that open or name objects, which a program makes thousands of times in a row.
    enum class Afterwards { kAll, kLittle };

    explicit Driving(ThreadedNic& nic, Afterwards afterwards = Afterwards::kAll) LANYARD_ACQUIRE(nic.right_)
        : nic_(nic), afterwards_(afterwards) {
      nic_.right_.take();
      nic_.publish(nic_.run_all_commands());  // includes what was posted before this call
    }
    ~Driving() LANYARD_RELEASE() {
      const bool all = afterwards_ == Afterwards::kAll || nic_.model_.ready() || nic_.model_.held() > 0;
      nic_.right_.give_back();
      // A command of a thread that saw this one driving: this thread must run it.
      if (all || !nic_.commands_.empty())
        nic_.progress();  // work that the call made ready
    }
    Driving(const Driving&) = delete;
    Driving& operator=(const Driving&) = delete;

    NicModel* operator->() const { return &nic_.model_; }

   private:
    ThreadedNic& nic_;
    const Afterwards afterwards_;
  };

  size_t drive() LANYARD_REQUIRES(right_);
  void publish(size_t steps) LANYARD_REQUIRES(right_);
  size_t run_commands() LANYARD_REQUIRES(right_);
  // Runs everything posted before the call.
  size_t run_all_commands() LANYARD_REQUIRES(right_) {
    return nic::run_all_before(commands_, [this] {
      right_.assert_held();
      return run_commands();
    });
  }
  size_t read_doorbells() LANYARD_REQUIRES(right_);
  Status remove_region(nic::RegionId region) LANYARD_REQUIRES(right_);
  bool is_device(nic::RegionId region) const { return mover_ != nullptr && mover_->is_device(region); }
  template <typename What>
  Status check(const nic::Op& op, const What& what) const;
  Status take_entries(size_t wanted);
  void watch_moves() LANYARD_REQUIRES(right_);
  size_t fire_ready() LANYARD_REQUIRES(right_);
  void carry(const Launch& launch) LANYARD_REQUIRES(right_);
  void complete(const Packet& ack) LANYARD_REQUIRES(right_);
  void count(const Packet& packet) LANYARD_REQUIRES(right_);
  template <typename Fill>
  void push(Fill fill) {
    nic::push_command(commands_, fill, [this] { return progress(); });
  }
  // Inline, because every post calls it.
  void wake_owner_if_asleep() {
    if (owner_asleep_.load(std::memory_order_seq_cst) && attending_.load(std::memory_order_seq_cst) == 0)
      wire_->wake(Wire::Sleeper::kOwner);
  }
  bool idle() const { return commands_.empty(); }
  Status start_owner();
  void run_owner();
  void knows(uint32_t peer) LANYARD_REQUIRES(right_);
  bool reaches(const nic::Op& op) const {
    return op.remote.peer < peer_count_.load(std::memory_order_relaxed) &&
           known_[op.remote.peer].load(std::memory_order_relaxed);
  }

  std::byte* place(const Packet& packet) override LANYARD_REQUIRES(right_);
  void landed(const Packet& packet, bool placed) override LANYARD_REQUIRES(right_);
  void abandoned(const Packet& packet, Code code) override LANYARD_REQUIRES(right_);
  void arrived(const Packet& packet, const std::byte* loan) override LANYARD_REQUIRES(right_);
  void peer_lost(uint32_t peer, const std::string& why) override LANYARD_REQUIRES(right_);
  // The mover reports: a write could not be read from the device; a message has reached its target,
  // or has failed.
  friend class DeviceMover;
  void not_sent(uint32_t peer, const Packet& packet, Code code);
  void moved(const Packet& packet, Code code);
  void ack_arrived(const Packet& packet) LANYARD_REQUIRES(right_);
  void pull_arrived(const Packet& packet, const std::byte* loan) LANYARD_REQUIRES(right_);
  // Applies an atomic and returns its ack.
  Packet apply(const Packet& packet) LANYARD_REQUIRES(right_);
  Packet ack(const Packet& packet, Code code) const {
    return {.kind = PacketKind::kAck, .code = code, .source = self_, .token = packet.token};
  }
  void answer(const Packet& packet, Code code) LANYARD_REQUIRES(right_) {
    wire_->send(packet.source, ack(packet, code), nullptr);
  }

  nic::Caps caps_;
  // Null without device memory. For the driver only. Outlives the wire, which uses
  // its staging memory.
  const std::unique_ptr<DeviceMover> mover_;
  const std::unique_ptr<Wire> wire_;
  NicModel model_;  // for the driver only, except validate()
  nic::DriveRight right_;
  MpscRing<Command> commands_;
  std::atomic<uint32_t> free_entries_;
  std::atomic<uint32_t> free_issues_;
  std::atomic<uint64_t> failures_{0};
  std::atomic<uint64_t> activity_{0};  // grows with every step of a driver
  std::atomic<uint32_t> peer_count_{0};
  std::unique_ptr<std::atomic<bool>[]> lost_, known_;  // by rank; allocated before peer_count_ is set
  std::vector<std::string> why_lost_;                  // as lost_; written once, before lost_
  std::atomic<uint64_t> lost_count_{0};
  uint32_t self_ = 0;

  nic::CounterId listened_ LANYARD_GUARDED_BY(right_);
  nic::Listener listener_ LANYARD_GUARDED_BY(right_);
  bool heard_ LANYARD_GUARDED_BY(right_) = false;  // a message was counted since the last call of the listener

  DoorbellWords words_ LANYARD_GUARDED_BY(right_);
  std::atomic<uint32_t> armed_count_{0};
  std::atomic<bool> under_way_{false};  // operations are in flight
  std::atomic<bool> moving_{false};     // a device copies; its end wakes no thread
  const Nanoseconds spin_for_;

  std::mutex owner_mutex_;  // guards the start of owner_
  std::thread owner_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> attending_{0};
  std::atomic<bool> owner_asleep_{false};  // without a timeout: posters must wake it
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_THREADED_NIC_H_
