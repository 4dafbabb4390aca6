// OfiNic: the triggered NIC over the deferred work (fi_trigger(3)) of libfabric's CXI provider,
// that of Slingshot or the simulated one (nicsim/fi).
//
// The card executes transfers. The host does little. It passes on what was posted and reads
// completions (else the provider stops accepting work). It also counts what was issued and
// reports failures. One thread at a time drives this: a thread inside progress(), or the NIC's
// own thread when no thread is in progress(). The NIC wakes no thread, so its own thread polls,
// less often when nothing happens.
//
// The driver calls a counter's listener when it sees a new value of that counter, at most as often
// as the NIC's own thread polls. A peer is lost when libfabric reports that it cannot be reached.
// An invalid key does not mean that.
//
// An entry becomes free when its operation ends, not already when it fires, because the provider
// does not report that. The effect of an operation is visible shortly before its end. So
// close_counter() and deregister_region() wait, at most a second, for operations that have fired.
#ifndef LANYARD_TRANSPORT_CXI_OFI_NIC_H_
#define LANYARD_TRANSPORT_CXI_OFI_NIC_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "transport/base/device_memory.h"
#include "transport/base/mpsc_ring.h"
#include "transport/base/thread_annotations.h"
#include "transport/cxi/fabric.h"
#include "transport/cxi/library.h"
#include "transport/cxi/objects.h"
#include "transport/nic/drive_right.h"
#include "transport/nic/driver.h"
#include "transport/nic/nic.h"

namespace lanyard::ofi {

struct OfiOptions {
  std::string domain = {};  // empty: the nearest to this thread's cores
  // Tells GPU memory from host memory and outlives the NIC. If null, all memory counts
  // as host memory.
  const DeviceMemory* device_memory = nullptr;
  uint32_t deferred_depth = 0;   // most entries to use; 0: as many as the provider reports
  uint32_t max_counters = 4096;  // these three are limits; a card may have fewer
  uint32_t max_regions = 16384;
  uint64_t max_message_bytes = uint64_t{1} << 30;
  // Relies on the provider's promise that one counter may count both own operations and arrivals.
  bool counts_both = true;
  uint32_t max_issued = 256;  // most operations in flight without an entry
  // If false, only the callers drive it and no call waits. An object that cannot be closed yet is
  // then refused at once.
  bool own_thread = true;
  std::optional<Library> library = {};  // libfabric; none: the installed one
};

// Threads: any. Registered memory must outlive it.
class OfiNic final : public nic::Nic {
 public:
  // kUnsupported names what is missing; otherwise the error of the device.
  static Result<std::unique_ptr<OfiNic>> open(const OfiOptions& options);
  // No other thread may use it any more. Operations in flight are abandoned.
  ~OfiNic() override;

  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return fabric_->address(); }
  Status set_peers(std::span<const nic::Address> peers, uint32_t self) override;
  Status add_peer(uint32_t peer, const nic::Address& address) override;

  Result<nic::CounterId> open_counter() override;
  Status close_counter(nic::CounterId counter) override;
  Result<nic::CounterValue> read(nic::CounterId counter) override;
  Status add(nic::CounterId counter, uint64_t value) override;
  Status add_error(nic::CounterId counter, uint32_t value) override;
  Status reset(nic::CounterId counter) override;
  Status listen(nic::CounterId counter, nic::Listener listener) override;
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override;

  Result<nic::RegionId> register_region(void* base, uint64_t bytes, nic::CounterId remote_write) override;
  Status deregister_region(nic::RegionId region) override;
  Result<nic::RemoteKey> key(nic::RegionId region) const override;

  Status post(std::span<const nic::DeferredOp> ops) override;
  Result<nic::PreparedId> prepare(const nic::Op& op) override;
  Status post_prepared(std::span<const nic::Posting> postings) override;
  Status release(nic::PreparedId prepared) override;
  Status issue(const nic::Op& op) override;
  uint32_t free_entries() const override { return free_entries_.load(std::memory_order_relaxed); }
  Status flush() override;

  size_t progress() override;
  uint64_t activity() const override { return activity_.load(std::memory_order_seq_cst); }
  void wait_since(uint64_t seen, Nanoseconds timeout) override;
  void attend() override { attending_.fetch_add(1); }
  void leave() override { attending_.fetch_sub(1); }
  std::optional<nic::FailureRecord> take_failure() override;
  nic::Usage usage() const override;
  uint64_t failures() const override { return failures_.load(std::memory_order_acquire); }
  bool confirms(std::span<const nic::ContextStarts> starts) override;
  uint64_t lost_peers() const override { return lost_count_.load(std::memory_order_acquire); }
  bool is_lost(uint32_t peer) const override {
    return peer < peer_count_.load(std::memory_order_acquire) && lost_[peer].load(std::memory_order_acquire) != 0;
  }
  std::string why_lost(uint32_t peer) const override;

 private:
  struct Command {
    enum class Kind : uint8_t { kPost, kPostPrepared, kIssue, kRing } kind;
    nic::DeferredOp deferred;  // kPost; kIssue: .op; kRing: .trigger and .threshold, the value to add
    nic::Posting posting;      // kPostPrepared: valid until run, as release() runs earlier commands first
  };
  // Holds the right to drive during its lifetime, for calls that need the current state. First runs
  // everything posted before.
  class LANYARD_SCOPED_CAPABILITY Driving {
   public:
    explicit Driving(OfiNic& nic) LANYARD_ACQUIRE(nic.right_) : nic_(nic) {
      nic_.right_.take();
      (void)nic_.run_all_commands();
      (void)nic_.drive();
    }
    ~Driving() LANYARD_RELEASE() {
      nic_.right_.give_back();
      nic_.progress();  // work that the call made ready
    }
    Driving(const Driving&) = delete;
    Driving& operator=(const Driving&) = delete;

   private:
    OfiNic& nic_;
  };
  // Tells the descriptor checks what is open.
  struct Open;

  OfiNic(std::unique_ptr<Fabric> fabric, const OfiOptions& options, uint32_t depth);
  void fill_caps(const OfiOptions& options, uint32_t depth);
  Status start();
  Result<MemoryKind> kind_of(const void* base, uint64_t bytes) const;
  // Repeats `call`, which needs the right to drive, while it returns kInvalidState because of
  // operations that end soon. uses() counts what names the object; `names` tells which works do.
  template <typename Call, typename Uses, typename Names>
  Status once_over(Call call, Uses uses, Names names);

  // Any thread may call it.
  bool is_open(nic::CounterId id) const { return id.value < caps_.max_counters && counters_[id.value].is_open(); }
  bool is_open(nic::RegionId id) const { return id.value < caps_.max_regions && regions_[id.value].is_open(); }
  template <typename Fill>
  void push(Fill fill) {
    nic::push_command(commands_, fill, [this] { return progress(); });
  }
  void run_owner();

  // ---- Accepting and driving (ofi_post.cc, ofi_drive.cc)
  // Accepts checked operations, all or none.
  template <typename Each>
  Status take_in(std::span<const Each> batch);
  template <typename Each>
  void leave(std::span<const Each> batch);
  Status look_for_entries(size_t wanted);

  size_t drive() LANYARD_REQUIRES(right_);
  size_t run_commands() LANYARD_REQUIRES(right_);
  // Runs everything posted before the call.
  size_t run_all_commands() LANYARD_REQUIRES(right_) {
    return nic::run_all_before(commands_, [this] {
      right_.assert_held();
      return run_commands();
    });
  }
  size_t read_completions() LANYARD_REQUIRES(right_);
  size_t hand_over() LANYARD_REQUIRES(right_);
  template <typename Each>
  void accept(std::span<const Each> batch) LANYARD_REQUIRES(right_);
  Code offer(Work& work) LANYARD_REQUIRES(right_);
  bool give(Work& work) LANYARD_REQUIRES(right_);
  Code run_at_once(Work& work) LANYARD_REQUIRES(right_);
  Work& take(const nic::Op& op, nic::CounterId trigger, uint64_t threshold) LANYARD_REQUIRES(right_);
  Work& take(const nic::DeferredOp& deferred) LANYARD_REQUIRES(right_);
  Work& take(const nic::Posting& posting) LANYARD_REQUIRES(right_);
  Work& any_free() LANYARD_REQUIRES(right_);
  Work& described(Prepared& prepared) LANYARD_REQUIRES(right_);
  void describe(Work& work, const nic::Op& op) LANYARD_REQUIRES(right_);
  void blank(Prepared& home) LANYARD_REQUIRES(right_);
  void leave_home(Work& work) LANYARD_REQUIRES(right_);
  void disband(Prepared& home) LANYARD_REQUIRES(right_);
  void hold(Work& work, size_t first_fresh) LANYARD_REQUIRES(right_);
  bool is_due(const Work& work) const LANYARD_REQUIRES(right_);
  void finish(Work::Use& use) LANYARD_REQUIRES(right_);
  void fail(Work::Use& use, Code code, int unreachable) LANYARD_REQUIRES(right_);
  void fail(Work& work, Code code, int unreachable) LANYARD_REQUIRES(right_);
  void lose(uint32_t peer, int error) LANYARD_REQUIRES(right_);
  bool hears() LANYARD_REQUIRES(right_);
  void release(Work& work) LANYARD_REQUIRES(right_);
  void use(const Work& work, int delta) LANYARD_REQUIRES(right_);
  void use(const nic::Op& op, int delta) LANYARD_REQUIRES(right_);
  std::byte* local_address(nic::LocalSpan span) const { return regions_[span.region.value].base() + span.offset; }
  OfiCounter* completion_of(const nic::Op& op) {
    return op.completion.valid() ? &counters_[op.completion.value] : nullptr;
  }
  void remember_failure(const nic::FailureRecord& record) LANYARD_REQUIRES(right_);
  void ring(nic::CounterId id, uint64_t value) LANYARD_REQUIRES(right_);

  const std::unique_ptr<Fabric> fabric_;
  const DeviceMemory* const device_memory_;  // may be null
  const bool own_thread_;
  nic::Caps caps_;
  nic::DriveRight right_;
  KeyMaker keys_ LANYARD_GUARDED_BY(right_);
  std::vector<OfiCounter> counters_;  // for the driver only, except as objects.h says
  std::vector<OfiRegion> regions_;
  std::vector<uint32_t> free_counters_ LANYARD_GUARDED_BY(right_);
  std::vector<uint32_t> free_regions_ LANYARD_GUARDED_BY(right_);

  const uint32_t work_count_;
  const std::unique_ptr<Work[]> works_;  // for the driver only
  Work* free_work_ LANYARD_GUARDED_BY(right_) = nullptr;
  std::vector<Work*> held_ LANYARD_GUARDED_BY(right_);  // by age; lower thresholds of one poll first
  uint32_t looked_at_ LANYARD_GUARDED_BY(right_) = 0;   // works, when free ones were last looked for
  bool no_entries_ LANYARD_GUARDED_BY(right_) = false;  // the provider refused an entry in this round
  uint32_t unread_ LANYARD_GUARDED_BY(right_) = 0;      // entries posted since completions were last read
  nic::FailureLog failure_log_ LANYARD_GUARDED_BY(right_);

  nic::CounterId listened_ LANYARD_GUARDED_BY(right_);
  nic::Listener listener_ LANYARD_GUARDED_BY(right_);
  uint64_t heard_ LANYARD_GUARDED_BY(right_) = 0;  // the counter's value at the last look
  std::chrono::steady_clock::time_point next_look_ LANYARD_GUARDED_BY(right_);

  nic::PreparedTable<Prepared> prepared_;  // for the driver only, except find()
  MpscRing<Command> commands_;
  std::atomic<uint32_t> free_entries_;
  std::atomic<uint32_t> free_issues_;
  std::atomic<uint32_t> peer_count_{0};
  std::unique_ptr<std::atomic<bool>[]> known_;  // by rank; allocated before peer_count_ is set
  std::unique_ptr<std::atomic<int>[]> lost_;    // by rank, libfabric's error or 0; allocated before peer_count_ is set
  std::atomic<uint64_t> lost_count_{0};
  std::atomic<uint64_t> activity_{0};
  std::atomic<uint64_t> failures_{0};

  std::thread owner_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> attending_{0};
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_OFI_NIC_H_
