// What the driver over libfabric costs beside libfabric itself: the deferred work of a start, posted through
// OfiNic::post_prepared or by fi_control(FI_QUEUE_WORK) with structs that were filled in before. See README.md.
#include <fmt/format.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_trigger.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/base/check.h"
#include "transport/cxi/fabric.h"
#include "transport/cxi/ofi_counter.h"
#include "transport/cxi/ofi_nic.h"
#include "transport/cxi/ofi_region.h"
#include "transport/cxi/provider.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION static_cast<void>(0)
#define CALLGRIND_STOP_INSTRUMENTATION static_cast<void>(0)
#define CALLGRIND_TOGGLE_COLLECT static_cast<void>(0)
#endif

namespace lanyard::bench {
namespace {

constexpr uint32_t kMaxBatch = 64;
constexpr size_t kMessage = 8;
constexpr uint64_t kReadEvery = 16;  // entries, as the driver does: one look takes so many completions
constexpr std::chrono::seconds kBound{60};

struct Options {
  std::string provider = "cxi";
  std::string by = "driver";
  std::string what = "send";
  uint64_t starts = 512;
  uint64_t batch = 16;
};

template <typename T>
T must(Result<T> result) {
  LANYARD_CHECK(result.ok(), result.status().message().c_str());
  return std::move(result.value());
}
void must(const Status& status) { LANYARD_CHECK(status.ok(), status.message().c_str()); }

// What a start works on: a message to this very NIC and a word that counts what is done.
struct Buffers {
  alignas(64) std::array<std::byte, kMessage> source{}, target{};
  alignas(64) uint64_t one = 1;
  alignas(64) uint64_t done = 0;

  uint64_t done_now() { return std::atomic_ref<uint64_t>(done).load(std::memory_order_acquire); }
};

// One way to post the deferred work of starts.
class Poster {
 public:
  virtual ~Poster() = default;
  // Starts `i` = 1, 2, ...: what is measured.
  virtual void post(uint64_t i) = 0;
  // All starts up to `i` fire and end; not measured.
  virtual void finish(uint64_t i) = 0;
};

template <typename Move>
void until_done(Buffers& buffers, uint64_t wanted, Move move) {
  const auto end = std::chrono::steady_clock::now() + kBound;
  while (!move() || buffers.done_now() < wanted)
    LANYARD_CHECK(std::chrono::steady_clock::now() < end, "the work never ends");
}

// ---- Through the driver

class ByDriver final : public Poster {
 public:
  ByDriver(const Options& options, Buffers& buffers)
      : buffers_(buffers), nic_(must(ofi::OfiNic::open({.provider = options.provider}))) {
    const nic::Address self = nic_->address();
    must(nic_->set_peers({&self, 1}, 0));
    trigger_ = must(nic_->open_counter());
    completion_ = must(nic_->open_counter());
    const auto span = [&](auto& memory) { return must(nic_->register_region(&memory, sizeof memory, {})); };
    const nic::RegionId source = span(buffers.source), target = span(buffers.target);
    const nic::RegionId one = span(buffers.one), done = span(buffers.done);
    if (options.what == "send") {
      nic::Op write;
      write.completion = completion_;
      write.local = {source, 0};
      write.remote = {0, must(nic_->key(target)), 0};
      write.bytes = kMessage;
      postings_.push_back({.prepared = must(nic_->prepare(write)), .trigger = trigger_});
    }
    nic::Op tell;
    tell.kind = nic::OpKind::kAtomic;
    tell.local = {one, 0};
    tell.remote = {0, must(nic_->key(done)), 0};
    postings_.push_back(
        {.prepared = must(nic_->prepare(tell)), .trigger = options.what == "send" ? completion_ : trigger_});
    nic_->attend();  // so that this thread drives and no other
  }

  void post(uint64_t i) override {
    for (nic::Posting& posting : postings_)
      posting.threshold = i;
    must(nic_->post_prepared(postings_));
  }
  void finish(uint64_t i) override {
    must(nic_->add(trigger_, i - rung_));
    rung_ = i;
    until_done(buffers_, i, [&] {
      nic_->progress();
      return nic_->free_entries() == nic_->caps().deferred_depth;
    });
  }

 private:
  Buffers& buffers_;
  const std::unique_ptr<ofi::OfiNic> nic_;
  nic::CounterId trigger_, completion_;
  std::vector<nic::Posting> postings_;
  uint64_t rung_ = 0;
};

// ---- By hand

// The work of one start, filled in before: only thresholds change. The sockets provider keeps pointers to it.
struct RawStart {
  iovec source{};
  fi_rma_iov target{};
  fi_op_rma write{};
  fi_ioc operand{};
  fi_rma_ioc word{};
  fi_op_atomic tell{};
  fi_deferred_work writes{}, tells{};
};

class ByHand final : public Poster {
 public:
  ByHand(const Options& options, Buffers& buffers)
      : buffers_(buffers),
        sends_(options.what == "send"),
        fabric_(must(ofi::Fabric::open(must(ofi::Provider::by_name(options.provider)), "", 2048))),
        keys_(fabric_->provider().key_bytes),
        starts_(options.batch) {
    const nic::Address self = fabric_->address();
    must(fabric_->set_peers({&self, 1}));
    const bool wide = fabric_->provider().wide_counters;
    for (ofi::OfiCounter* counter : {&trigger_, &completion_, &told_})
      must(counter->open(fabric_->domain(), wide));
    const auto enroll = [&](ofi::OfiRegion& region, void* base, size_t bytes) {
      must(region.open(*fabric_, {base, bytes}, must(keys_.next(base)), nullptr));
    };
    enroll(target_, buffers.target.data(), kMessage);
    enroll(done_, &buffers.done, sizeof buffers.done);
    for (RawStart& start : starts_)
      fill_in(start);
  }

  void post(uint64_t i) override {
    RawStart& start = starts_[i % starts_.size()];
    if (sends_) {
      start.writes.threshold = i;
      queue(start.writes);
    }
    start.tells.threshold = i;
    queue(start.tells);
    if ((unread_ += sends_ ? 2 : 1) < kReadEvery)
      return;
    unread_ = 0;
    read_completions();
    // Where the queue does not report deferred work, this says whose structs may be used again.
    if (!fabric_->provider().reports_deferred_work)
      ended_ = fi_cntr_read(told_.fid());
  }
  void finish(uint64_t i) override {
    (void)fi_cntr_add(trigger_.fid(), i - rung_);
    rung_ = i;
    const bool reports = fabric_->provider().reports_deferred_work;
    until_done(buffers_, i, [&] {
      read_completions();
      return reports ? read_ == i * (sends_ ? 2 : 1) : (ended_ = fi_cntr_read(told_.fid())) == i;
    });
  }

 private:
  void fill_in(RawStart& start) {
    start.source = {buffers_.source.data(), kMessage};
    start.target = {0, kMessage, target_.key().value};
    start.write.ep = fabric_->endpoint();
    start.write.msg.msg_iov = &start.source;
    start.write.msg.iov_count = 1;
    start.write.msg.addr = fabric_->peer(0);
    start.write.msg.rma_iov = &start.target;
    start.write.msg.rma_iov_count = 1;
    start.write.msg.context = &start.writes.context;  // the sockets provider wants just this one
    start.write.flags = FI_COMPLETION;
    start.writes.triggering_cntr = trigger_.fid();
    start.writes.completion_cntr = completion_.fid();
    start.writes.op_type = FI_OP_WRITE;
    start.writes.op.rma = &start.write;

    start.operand = {.addr = &buffers_.one, .count = 1};
    start.word = {0, 1, done_.key().value};
    start.tell.ep = fabric_->endpoint();
    start.tell.msg.msg_iov = &start.operand;
    start.tell.msg.iov_count = 1;
    start.tell.msg.addr = fabric_->peer(0);
    start.tell.msg.rma_iov = &start.word;
    start.tell.msg.rma_iov_count = 1;
    start.tell.msg.datatype = FI_UINT64;
    start.tell.msg.op = FI_SUM;
    start.tell.msg.context = &start.tells.context;
    start.tell.flags = FI_COMPLETION;
    start.tells.triggering_cntr = sends_ ? completion_.fid() : trigger_.fid();
    // The sockets provider takes no work that completes nowhere.
    start.tells.completion_cntr = fabric_->provider().reports_deferred_work ? nullptr : told_.fid();
    start.tells.op_type = FI_OP_ATOMIC;
    start.tells.op.atomic = &start.tell;
  }
  void queue(fi_deferred_work& work) {
    const int queued = fi_control(&fabric_->domain()->fid, FI_QUEUE_WORK, &work);
    LANYARD_CHECK(queued == 0, "FI_QUEUE_WORK was refused");
  }
  // Without this the CXI provider soon takes no more work; and here alone it is said that work has failed.
  void read_completions() {
    std::array<fi_cq_entry, 16> entries;
    const ssize_t count = fi_cq_read(fabric_->completions(), entries.data(), entries.size());
    LANYARD_CHECK(count != -FI_EAVAIL, "deferred work has failed");
    if (count > 0)
      read_ += static_cast<uint64_t>(count);
  }

  Buffers& buffers_;
  const bool sends_;
  const std::unique_ptr<ofi::Fabric> fabric_;
  ofi::KeyMaker keys_;
  ofi::OfiCounter trigger_, completion_, told_;
  ofi::OfiRegion target_, done_;
  std::vector<RawStart> starts_;
  uint64_t rung_ = 0, read_ = 0, ended_ = 0, unread_ = 0;
};

void run(const Options& options) {
  setenv("IPATH_NO_BACKTRACE", "1", 0);
  Buffers buffers;
  std::unique_ptr<Poster> poster;
  if (options.by == "driver")
    poster = std::make_unique<ByDriver>(options, buffers);
  else
    poster = std::make_unique<ByHand>(options, buffers);
  uint64_t i = 0;
  const auto batch = [&](bool measured) {
    if (measured)
      CALLGRIND_TOGGLE_COLLECT;
    for (uint64_t n = 0; n < options.batch; ++n)
      poster->post(++i);
    if (measured)
      CALLGRIND_TOGGLE_COLLECT;
    poster->finish(i);
  };
  for (int warmup = 0; warmup < 4; ++warmup)
    batch(false);
  CALLGRIND_START_INSTRUMENTATION;
  for (uint64_t done = 0; done < options.starts; done += options.batch)
    batch(true);
  CALLGRIND_STOP_INSTRUMENTATION;
  fmt::print("provider {} by {} what {} starts {} batch {}\n", options.provider, options.by, options.what,
             options.starts, options.batch);
}

}  // namespace
}  // namespace lanyard::bench

int main(int argc, char** argv) {
  lanyard::bench::Options options;
  CLI::App app{"Posts the deferred work of starts, for bench/ofi_overhead.sh to count instructions."};
  app.add_option("--provider", options.provider, "cxi or sockets (default: cxi)")
      ->check(CLI::IsMember({"cxi", "sockets"}));
  app.add_option("--by", options.by, "driver or hand (default: driver)")->check(CLI::IsMember({"driver", "hand"}));
  app.add_option("--what", options.what,
                 "send: a write and the atomic chained to it; atomic: one atomic (default: send)")
      ->check(CLI::IsMember({"send", "atomic"}));
  app.add_option("--starts", options.starts, "how many, a multiple of --batch (default: 512)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--batch", options.batch, "posted before the first of them fires (default: 16)")
      ->check(CLI::Range(uint64_t{1}, uint64_t{lanyard::bench::kMaxBatch}));
  CLI11_PARSE(app, argc, argv);
  if (options.starts % options.batch != 0) {
    fmt::print(stderr, "ofi_overhead: --starts must be a multiple of --batch\n");
    return 2;
  }
  lanyard::bench::run(options);
  return 0;
}
