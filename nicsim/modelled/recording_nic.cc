#include "nicsim/modelled/recording_nic.h"

#include <utility>

#include "transport/base/check.h"

namespace lanyard::modelled {

RecordingNic::RecordingNic(uint64_t max_message_bytes) {
  caps_.name = "recording";
  caps_.deferred_depth = UINT32_MAX;
  caps_.max_counters = UINT32_MAX;
  caps_.max_regions = UINT32_MAX;
  caps_.max_message_bytes = max_message_bytes;
  caps_.doorbell_mmio_add = true;  // as on Slingshot
  caps_.cancel = true;             // so that triggers count from 0, though Slingshot takes nothing back
  caps_.target_count_means_visible = true;
  caps_.counters_count_both = true;
}

std::vector<nic::DeferredOp> RecordingNic::take_posted() { return std::exchange(posted_, {}); }

nic::CounterId RecordingNic::counter_of_bell(const uint64_t* word) const {
  for (uint32_t counter = 0; counter < counters(); ++counter)
    if (&bells_[counter] == word)
      return {counter};
  LANYARD_CHECK(false, "a ring of no counter's doorbell");
}

Result<nic::CounterId> RecordingNic::open_counter() {
  bells_.push_back(0);
  return nic::CounterId{counters() - 1};
}

Result<nic::Doorbell> RecordingNic::doorbell(nic::CounterId counter, nic::DoorbellKind kind) {
  LANYARD_CHECK(kind == nic::DoorbellKind::kMmioAdd, "the recording card has registers");
  return nic::Doorbell{.kind = kind, .word = &bells_[counter.value], .counter = counter.value};
}

Result<nic::RegionId> RecordingNic::register_region(void* base, uint64_t, nic::CounterId remote_write) {
  regions_.push_back({static_cast<std::byte*>(base), remote_write});
  return nic::RegionId{static_cast<uint32_t>(regions_.size() - 1)};
}

Status RecordingNic::post(std::span<const nic::DeferredOp> ops) {
  posted_.insert(posted_.end(), ops.begin(), ops.end());
  return {};
}

Status RecordingNic::post_prepared(std::span<const nic::Posting> postings) {
  for (const nic::Posting& posting : postings) {
    const nic::Op* op = prepared_.find(posting.prepared);
    if (op == nullptr)
      return {Code::kNotFound, "no such operation is prepared"};
    posted_.push_back(nic::deferred(*op, posting));
  }
  return {};
}

Status RecordingNic::release(nic::PreparedId prepared) {
  if (prepared_.find(prepared) == nullptr)
    return {Code::kNotFound, "no such operation is prepared"};
  prepared_.remove(prepared);
  return {};
}

Status RecordingNic::issue(const nic::Op&) { return {Code::kUnsupported, "the recording card runs nothing"}; }

}  // namespace lanyard::modelled
