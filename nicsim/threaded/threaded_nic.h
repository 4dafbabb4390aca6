// ThreadedNic: the simulated NIC on host threads, one a process (or several in one process, for tests).
//
// It runs nicsim/model, and adds what the model leaves out: a lock ("who drives"), a queue of commands so that posting
// and ringing never wait for the driver, doorbell words, bytes, and sleep. Whoever waits for something drives: a thread
// inside progress() does the NIC's work at once, without a change of threads. The NIC's own thread drives when nobody
// attends, so that transfers go on while every other thread computes; it sleeps when there is nothing to do.
//
// Doorbell words (kAtomicAdd) can be rung by anything that can add to memory and cannot wake a thread. While such a
// word is handed out and nobody attends, the NIC's own thread therefore looks at it: all the time as long as work waits
// and something has happened within ThreadedOptions::spin_for, else every kDoorbellPeriod. The same holds while a
// device copies (device_mover.h).
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
  // How long after something has happened the NIC's own thread goes on looking at doorbell words; 0: it never does, but
  // looks now and then.
  std::chrono::milliseconds spin_for{20};
  // Makes regions of device memory possible; outlives the NIC.
  DeviceMemory* memory = nullptr;
};

class ThreadedNic final : public nic::Nic, private Sink, private DeviceMover::Client {
 public:
  ThreadedNic(const ModelLimits& limits, std::unique_ptr<Wire> wire, const ThreadedOptions& options = {});
  // Requires that no other thread uses it any more. What is under way is abandoned.
  ~ThreadedNic() override;

  // Before the first operation. The witness outlives the NIC.
  void set_witness(Witness* witness);
  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return wire_->address(); }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override;
  Status add_peer(uint32_t peer, const nic::Address& address) override;

  Result<nic::CounterId> open_counter() override;
  Status close_counter(nic::CounterId counter) override;
  Result<nic::CounterValue> read(nic::CounterId counter) override;
  Status add(nic::CounterId counter, uint64_t value) override;
  Status add_error(nic::CounterId counter, uint32_t value) override;
  Status reset(nic::CounterId counter) override;
  // As NicModel's.
  Status set(nic::CounterId counter, uint64_t value);
  Status set_error(nic::CounterId counter, uint32_t value);
  Status listen(nic::CounterId counter, nic::Listener listener) override;
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override;

  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write) override {
    return register_region(base, bytes, remote_write, RegionOptions());
  }
  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write,
                                        const RegionOptions& options);
  Status deregister_region(nic::RegionId region) override;
  Result<nic::RemoteKey> key(nic::RegionId region) const override;

  Status post(std::span<const nic::DeferredOp> ops) override;
  Result<nic::PreparedId> prepare(const nic::Op& op) override;
  Status post_prepared(std::span<const nic::Posting> postings) override;
  Status release(nic::PreparedId prepared) override;
  Status issue(const nic::Op& op) override;
  uint32_t free_entries() const override { return free_entries_.load(std::memory_order_relaxed); }
  Status cancel(nic::CounterId trigger) override;
  Status flush() override;

  size_t progress() override;
  uint64_t activity() const override { return activity_.load(std::memory_order_seq_cst); }
  void wait_since(uint64_t seen, Nanoseconds timeout) override;
  void attend() override;
  void leave() override;
  std::optional<nic::FailureRecord> take_failure() override;
  nic::Usage usage() const override;
  uint64_t lost_peers() const override { return lost_count_.load(std::memory_order_acquire); }
  bool is_lost(uint32_t peer) const override {
    return peer < peer_count_.load(std::memory_order_acquire) && lost_[peer].load(std::memory_order_acquire);
  }
  std::string why_lost(uint32_t peer) const override { return why_lost_[peer]; }
  uint64_t failures() const override { return failures_.load(std::memory_order_acquire); }

 private:
  struct Command {
    static constexpr uint32_t kPostings = 4;  // as many as take no more memory than an operation

    enum class Kind : uint8_t { kPost, kPostPrepared, kIssue, kRing } kind;
    uint32_t postings;  // kPostPrepared: how many. Prepared until they have run, as release() runs them first
    union {
      nic::DeferredOp deferred;  // kPost; kIssue: .op; kRing: .trigger and .threshold, the value to add
      nic::Posting posting[kPostings];
    };
    Command() : deferred() {}
  };

  // The right to drive, from construction to destruction, for calls that need the model's state now. Whatever was
  // posted before counts by then.
  class LANYARD_SCOPED_CAPABILITY Driving {
   public:
    // kLittle: what has arrived is left to others, where nothing else is to be done. For calls that make and name
    // things, of which a program makes thousands in a row.
    enum class Afterwards { kAll, kLittle };

    explicit Driving(ThreadedNic& nic, Afterwards afterwards = Afterwards::kAll) LANYARD_ACQUIRE(nic.right_)
        : nic_(nic), afterwards_(afterwards) {
      nic_.right_.take();
      nic_.publish(nic_.run_all_commands());  // what was posted before this call counts
    }
    ~Driving() LANYARD_RELEASE() {
      const bool all = afterwards_ == Afterwards::kAll || nic_.has_made_ready();
      nic_.right_.give_back();
      // A command of a thread that found this one driving is this one's to run.
      if (all || !nic_.commands_.empty())
        nic_.progress();  // whatever the call made ready
    }
    Driving(const Driving&) = delete;
    Driving& operator=(const Driving&) = delete;

   private:
    ThreadedNic& nic_;
    const Afterwards afterwards_;
  };

  size_t drive() LANYARD_REQUIRES(right_);
  // Whether something is to be done that is in the model already.
  bool has_made_ready() const LANYARD_REQUIRES(right_) { return model_.ready() || model_.held() > 0; }
  void publish(size_t steps) LANYARD_REQUIRES(right_);
  void tell_listener() LANYARD_REQUIRES(right_);
  size_t run_commands() LANYARD_REQUIRES(right_);
  // All that was posted before the call.
  size_t run_all_commands() LANYARD_REQUIRES(right_) {
    return nic::run_all_before(commands_, [this] {
      right_.assert_held();
      return run_commands();
    });
  }
  size_t read_doorbells() LANYARD_REQUIRES(right_);
  bool has_work() const;
  Status remove_region(nic::RegionId region) LANYARD_REQUIRES(right_);
  bool is_device(nic::RegionId region) const { return mover_ != nullptr && mover_->is_device(region); }
  Status check_operands(const nic::Op& op) const;
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
  // In line: every post asks.
  void wake_owner_if_asleep() {
    if (owner_asleep_.load(std::memory_order_seq_cst) && attending_.load(std::memory_order_seq_cst) == 0)
      wire_->wake(Wire::Sleeper::kOwner);
  }
  bool idle() const;
  Status start_owner();
  void run_owner();
  void knows(uint32_t peer) LANYARD_REQUIRES(right_);
  bool reaches(const nic::Op& op) const {
    return !op.moves_data() || (op.remote.peer < peer_count_.load(std::memory_order_relaxed) &&
                                known_[op.remote.peer].load(std::memory_order_relaxed));
  }

  std::byte* place(const Packet& packet) override LANYARD_REQUIRES(right_);
  void landed(const Packet& packet, bool placed) override LANYARD_REQUIRES(right_);
  void abandoned(const Packet& packet, Code code) override LANYARD_REQUIRES(right_);
  void atomic_arrived(const Packet& packet) override LANYARD_REQUIRES(right_);
  void ack_arrived(const Packet& packet) override LANYARD_REQUIRES(right_);
  void pull_arrived(const Packet& packet, const std::byte* loan) override LANYARD_REQUIRES(right_);
  void pull_refused(const Packet& packet) override LANYARD_REQUIRES(right_);
  void peer_lost(uint32_t peer, const std::string& why) override LANYARD_REQUIRES(right_);
  void transmit(uint32_t peer, const Packet& packet, const std::byte* payload) override LANYARD_REQUIRES(right_);
  void not_sent(uint32_t peer, const Packet& packet, Code code) override LANYARD_REQUIRES(right_);
  void moved(const Packet& packet, Code code) override LANYARD_REQUIRES(right_);
  Packet apply(const Packet& packet) LANYARD_REQUIRES(right_);
  void answer(const Packet& packet, Code code) LANYARD_REQUIRES(right_);

  nic::Caps caps_;
  // Where there is device memory; belongs to whoever drives; outlives the wire, which uses its staging memory.
  const std::unique_ptr<DeviceMover> mover_;
  const std::unique_ptr<Wire> wire_;
  NicModel model_;  // belongs to whoever drives; validate() also to posters
  nic::DriveRight right_;
  MpscRing<Command> commands_;
  std::atomic<uint32_t> free_entries_;
  std::atomic<uint32_t> free_issues_;
  std::atomic<uint64_t> failures_{0};
  std::atomic<uint64_t> activity_{0};  // grows whenever a driver did something
  std::atomic<uint32_t> peer_count_{0};
  std::unique_ptr<std::atomic<bool>[]> lost_, known_;  // by rank; there once peer_count_ is
  std::vector<std::string> why_lost_;                  // likewise; written once, before lost_
  std::atomic<uint64_t> lost_count_{0};
  uint32_t self_ = 0;

  nic::CounterId listened_ LANYARD_GUARDED_BY(right_);
  nic::Listener listener_ LANYARD_GUARDED_BY(right_);
  bool heard_ LANYARD_GUARDED_BY(right_) = false;  // a message has been counted there since the listener was called

  DoorbellWords words_ LANYARD_GUARDED_BY(right_);
  std::atomic<uint32_t> armed_count_{0};
  std::atomic<bool> under_way_{false};  // operations that have not ended
  std::atomic<bool> moving_{false};     // a device copies, and wakes nobody when it has ended
  const Nanoseconds spin_for_;

  std::mutex owner_mutex_;  // guards the start of owner_
  std::thread owner_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> attending_{0};
  std::atomic<bool> owner_asleep_{false};  // without a time limit: posters must wake it
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_THREADED_THREADED_NIC_H_
