#include "nicsim/modelled/lowering.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gpu/stream.h"
#include "transport/base/check.h"
#include "transport/core/endpoint.h"
#include "transport/core/queue.h"
#include "transport/core/request.h"
#include "transport/nic/driver.h"
#include "transport/nic/nic.h"

namespace lanyard::modelled {

namespace {

// RecordingNic and RecordingStream record what the shipped protocol posts and
// enqueues, and do nothing else.

// One thread only. Counters and regions get the numbers 0, 1, ... in the order of opening.
class RecordingNic final : public nic::Nic {
 public:
  struct Region {
    std::byte* base = nullptr;
    nic::CounterId counter;  // counts messages that land there
  };

  explicit RecordingNic(uint64_t max_message_bytes) {
    caps_.name = "recording";
    caps_.deferred_depth = UINT32_MAX;
    caps_.max_counters = UINT32_MAX;
    caps_.max_regions = UINT32_MAX;
    caps_.max_message_bytes = max_message_bytes;
    caps_.doorbell_mmio_add = true;  // as on Slingshot
    caps_.cancel = true;             // so triggers count from 0; Slingshot cannot cancel
    caps_.target_count_means_visible = true;
    caps_.counters_count_both = true;
  }

  // Returns the operations posted since the last call.
  std::vector<nic::DeferredOp> take_posted() { return std::exchange(posted_, {}); }
  uint32_t counters() const { return static_cast<uint32_t>(bells_.size()); }
  const Region& region(nic::RegionId region) const { return regions_[region.value]; }
  // The address in this process that the key and offset name.
  std::byte* address_of(nic::RemoteKey key, uint64_t offset) const { return regions_[key.value].base + offset; }
  // The counter that the doorbell word belongs to.
  nic::CounterId counter_of_bell(const uint64_t* word) const {
    for (uint32_t counter = 0; counter < counters(); ++counter)
      if (&bells_[counter] == word)
        return {counter};
    LANYARD_CHECK(false, "a ring must go to a doorbell of this NIC");
  }

  const nic::Caps& caps() const override { return caps_; }
  nic::Address address() const override { return {}; }
  Status set_peers(std::span<const nic::Address>, uint32_t) override { return {}; }
  Status add_peer(uint32_t, const nic::Address&) override { return {}; }
  Result<nic::CounterId> open_counter() override {
    bells_.push_back(0);
    return nic::CounterId{counters() - 1};
  }
  Status close_counter(nic::CounterId) override { return {}; }
  Result<nic::CounterValue> read(nic::CounterId) override { return nic::CounterValue{}; }
  Status add(nic::CounterId, uint64_t) override { return {}; }
  Status add_error(nic::CounterId, uint32_t) override { return {}; }
  Status reset(nic::CounterId) override { return {}; }
  Result<nic::Doorbell> doorbell(nic::CounterId counter, nic::DoorbellKind kind) override {
    LANYARD_CHECK(kind == nic::DoorbellKind::kMmioAdd, "the recording NIC has only MMIO doorbells");
    return nic::Doorbell{.kind = kind, .word = &bells_[counter.value], .counter = counter.value};
  }
  Result<nic::RegionId> register_region(void* base, uint64_t, nic::CounterId remote_write) override {
    regions_.push_back({static_cast<std::byte*>(base), remote_write});
    return nic::RegionId{static_cast<uint32_t>(regions_.size() - 1)};
  }
  Status deregister_region(nic::RegionId) override { return {}; }
  Result<nic::RemoteKey> key(nic::RegionId region) const override { return nic::RemoteKey{region.value}; }
  Status post(std::span<const nic::DeferredOp> ops) override {
    posted_.insert(posted_.end(), ops.begin(), ops.end());
    return {};
  }
  Result<nic::PreparedId> prepare(const nic::Op& op) override { return prepared_.add(op); }
  Status post_prepared(std::span<const nic::Posting> postings) override {
    for (const nic::Posting& posting : postings) {
      const nic::Op* op = prepared_.find(posting.prepared);
      if (op == nullptr)
        return {Code::kNotFound, "no such operation is prepared"};
      posted_.push_back(nic::deferred(*op, posting));
    }
    return {};
  }
  Status release(nic::PreparedId prepared) override {
    if (prepared_.find(prepared) == nullptr)
      return {Code::kNotFound, "no such operation is prepared"};
    prepared_.remove(prepared);
    return {};
  }
  Status issue(const nic::Op&) override { return {Code::kUnsupported, "the recording NIC runs no operations"}; }
  uint32_t free_entries() const override { return caps_.deferred_depth; }
  Status flush() override { return {}; }
  size_t progress() override { return 0; }
  uint64_t activity() const override { return 0; }
  void wait_since(uint64_t, Nanoseconds) override {}
  std::optional<nic::FailureRecord> take_failure() override { return std::nullopt; }
  nic::Usage usage() const override { return {}; }
  uint64_t failures() const override { return 0; }

 private:
  nic::Caps caps_;
  std::deque<uint64_t> bells_;  // one word a counter; a deque keeps addresses valid
  std::vector<Region> regions_;
  nic::PreparedTable<nic::Op> prepared_;
  std::vector<nic::DeferredOp> posted_;
};

class RecordingStream final : public gpu::Stream {
 public:
  // Returns the operations enqueued since the last call.
  std::vector<gpu::StreamOp> take_enqueued() { return std::exchange(enqueued_, {}); }

  const char* kind() const override { return "recording"; }
  bool can_call() const override { return false; }
  Status enqueue(std::span<const gpu::StreamOp> ops) override {
    enqueued_.insert(enqueued_.end(), ops.begin(), ops.end());
    return {};
  }
  bool poll() override { return true; }

 private:
  std::vector<gpu::StreamOp> enqueued_;
};

constexpr int kPasses = 3;
constexpr uint32_t kSelf = 0, kPeer = 1;

// A remote key of this model is the part of the peer's request that it reaches. The operation's
// context tells which request.
nic::RemoteKey key_to(Part part) { return {static_cast<uint64_t>(part)}; }

// A process of the shipped protocol with a recording NIC and stream.
class Recorder {
 public:
  explicit Recorder(const Step& step)
      : step_(step),
        nic_(step.max_message_bytes),
        endpoint_(nic_, kSelf, {.overflow_thread = false, .whole_pages = false, .strategy = step.strategy}),
        queue_(std::move(core::Queue::create(endpoint_, stream_).value())) {}

  Result<Program> record() {
    LANYARD_RETURN_IF_ERROR(match());
    Program program;
    for (int pass = 0; pass < kPasses; ++pass)
      for (const Action& action : step_.actions)
        LANYARD_RETURN_IF_ERROR(perform(action, pass));
    for (const Lowered& each : lowered_)
      add(each, program);
    finish(program);
    return program;
  }

 private:
  // One action of the host, as recorded in each pass.
  struct Lowered {
    bool posts = false;
    Picoseconds kernel = 0;
    bool follows = false;
    nic::DeferredOp op[kPasses];
    gpu::StreamOp stream[kPasses];
  };

  Status match() {
    for (const Message& message : step_.requests) {
      core::Transfer transfer;
      transfer.direction = message.direction;
      transfer.ready = message.ready && message.direction == core::Direction::kSend;
      transfer.bytes = message.bytes;
      transfer.peer = transfer.peer_nic = kPeer;
      requests_.push_back(endpoint_.new_request(transfer));
      indices_[requests_.back()->number] = static_cast<uint16_t>(requests_.size() - 1);
    }
    if (step_.exchange)
      for (const Action& action : step_.actions)
        if (action.kind == Action::Kind::kStart)
          LANYARD_RETURN_IF_ERROR(endpoint_.make_exchange("step", chosen(action)));
    for (core::Request* request : requests_)
      LANYARD_RETURN_IF_ERROR(endpoint_.open_resources(*request));
    for (size_t i = 0; i < requests_.size(); ++i) {
      core::Request& request = *requests_[i];
      request.matched_peer = request.matched_nic = kPeer;
      request.matched_bytes = request.transfer.bytes;
      endpoint_.bind(request, {.buffer = key_to(Part::kBuffer),
                               .clear_to_send = key_to(Part::kClearToSend),
                               .flag = key_to(Part::kFlag),
                               .ready = step_.requests[i].ready});
    }
    return {};
  }

  std::vector<core::Request*> chosen(const Action& action) const {
    std::vector<core::Request*> chosen;
    for (const uint32_t index : action.requests)
      chosen.push_back(requests_[index]);
    return chosen;
  }

  Status perform(const Action& action, int pass) {
    if (pass == 0)
      next_ = lowered_.size();
    else if (&action == &step_.actions.front())
      next_ = 0;
    if (action.kind == Action::Kind::kKernel) {
      slot(pass).kernel = action.cost;
      return {};
    }
    const std::vector<core::Request*> requests = chosen(action);
    const bool starts = action.kind == Action::Kind::kStart;
    LANYARD_RETURN_IF_ERROR(starts ? queue_->start(requests) : queue_->wait(requests));
    // The queue enqueues on the stream before it posts.
    bool follows = false;
    for (const gpu::StreamOp& op : stream_.take_enqueued()) {
      Lowered& each = slot(pass);
      each.stream[pass] = op;
      each.follows = follows;
      follows = !starts;
    }
    for (const nic::DeferredOp& op : nic_.take_posted()) {
      Lowered& each = slot(pass);
      each.posts = true;
      each.op[pass] = op;
    }
    return {};
  }

  Lowered& slot(int pass) {
    if (pass == 0)
      lowered_.emplace_back();
    LANYARD_CHECK(next_ < lowered_.size(), "every pass must post and enqueue the same");
    return lowered_[next_++];
  }

  // Finds step and before with value i = step * i - before, for a number that grows evenly.
  static void fit(uint64_t first, uint64_t second, uint64_t third, uint32_t& step, uint32_t& before) {
    LANYARD_CHECK(second >= first && third - second == second - first && second - first >= first,
                  "thresholds and waits must grow by the same amount with each step");
    step = static_cast<uint32_t>(second - first);
    before = static_cast<uint32_t>(second - first - first);
  }

  void add(const Lowered& each, Program& program) {
    if (each.posts) {
      program.host.push_back({true, static_cast<uint32_t>(program.entries.size())});
      program.entries.push_back(entry(each));
      return;
    }
    program.host.push_back({false, static_cast<uint32_t>(program.stream.size())});
    program.stream.push_back(stream_op(each));
  }

  Entry entry(const Lowered& each) {
    const nic::Op& op = each.op[0].op;
    Entry entry;
    entry.trigger = static_cast<uint16_t>(each.op[0].trigger.value);
    fit(each.op[0].threshold, each.op[1].threshold, each.op[2].threshold, entry.step, entry.before);
    const auto found = indices_.find(op.context);
    LANYARD_CHECK(found != indices_.end(), "an operation's context must name a request");
    entry.request = found->second;
    if (op.completion.valid())
      entry.completion = static_cast<uint16_t>(op.completion.value);
    entry.delivery = op.level == nic::CompletionLevel::kDelivery;
    entry.own = op.remote.peer == kSelf;
    if (entry.own) {
      entry.word = word(nic_.address_of(op.remote.key, op.remote.offset));
    } else {
      entry.part = static_cast<Part>(op.remote.key.value);
      entry.bytes = op.kind == nic::OpKind::kWrite ? op.bytes : sizeof(uint64_t);
    }
    return entry;
  }

  StreamOp stream_op(const Lowered& each) {
    const gpu::StreamOp& first = each.stream[0];
    StreamOp op;
    if (first.word == nullptr) {
      op.cost = each.kernel;
      return op;
    }
    if (first.kind == gpu::StreamOp::Kind::kWrite64) {
      op.kind = StreamOp::Kind::kRing;
      op.object = static_cast<uint16_t>(nic_.counter_of_bell(first.word).value);
      op.value = static_cast<uint32_t>(first.value);
      return op;
    }
    op.kind = StreamOp::Kind::kWait;
    op.follows = each.follows;
    op.object = word(first.word);
    uint32_t before = 0;
    fit(first.value, each.stream[1].value, each.stream[2].value, op.value, before);
    LANYARD_CHECK(before == 0, "a new word must count from 0");
    return op;
  }

  uint16_t word(const void* address) {
    const auto [found, added] = words_.try_emplace(address, static_cast<uint16_t>(words_.size()));
    return found->second;
  }

  void finish(Program& program) {
    for (const core::Request* request : requests_) {
      std::array<Landing, kParts>& landings = program.landings.emplace_back();
      const auto counter_at = [&](nic::RegionId region) {
        const bool counts = region.valid() && nic_.region(region).counter.valid();
        return counts ? static_cast<uint16_t>(nic_.region(region).counter.value) : kNone;
      };
      landings[static_cast<size_t>(Part::kBuffer)].counter = counter_at(request->buffer);
      landings[static_cast<size_t>(Part::kClearToSend)].counter = counter_at(request->clear_to_send);
      if (request->flag.valid())
        landings[static_cast<size_t>(Part::kFlag)].word = word(request->done.address);
    }
    program.counters = static_cast<uint16_t>(nic_.counters());
    program.words = static_cast<uint16_t>(words_.size());
    program.hanging.resize(program.counters);
    for (uint16_t index = 0; index < program.entries.size(); ++index)
      program.hanging[program.entries[index].trigger].push_back(index);
    for (std::vector<uint16_t>& entries : program.hanging)
      std::stable_sort(entries.begin(), entries.end(), [&](uint16_t a, uint16_t b) {
        return program.entries[a].threshold(1) < program.entries[b].threshold(1);
      });
  }

  const Step& step_;
  RecordingNic nic_;
  RecordingStream stream_;
  core::Endpoint endpoint_;
  std::unique_ptr<core::Queue> queue_;
  std::vector<core::Request*> requests_;
  std::map<uint64_t, uint16_t> indices_;  // by request number
  std::vector<Lowered> lowered_;
  size_t next_ = 0;
  std::map<const void*, uint16_t> words_;
};

}  // namespace

Result<Program> lower(const Step& step) { return Recorder(step).record(); }

}  // namespace lanyard::modelled
