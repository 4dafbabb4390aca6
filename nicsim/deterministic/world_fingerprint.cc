// What makes two states of a World the same: everything that can matter for what happens next or for what an oracle
// says, and nothing that tells how the world came there (places in lists, addresses, numbers of steps).
#include <algorithm>
#include <cstring>
#include <span>

#include "nicsim/deterministic/world.h"
#include "transport/core/standing.h"

namespace lanyard::nicsim {

namespace {

uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

// Two independent hashes of a sequence of numbers.
class Digest {
 public:
  void add(uint64_t value) {
    low_ = scramble(low_ ^ value);
    high_ = (high_ + value + 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    high_ ^= high_ >> 29;
  }
  // Things that have no order among themselves: each a digest of its own, added up.
  void add_one_of_many(const Digest& thing) {
    low_sum_ += scramble(thing.low_);
    high_sum_ += scramble(thing.high_ + 1);
  }
  World::Fingerprint finish() {
    add(low_sum_);
    add(high_sum_);
    return {low_, scramble(high_)};
  }
  void add_bytes(std::span<const std::byte> bytes) {
    uint64_t word = 0;
    for (size_t at = 0; at < bytes.size(); at += sizeof word) {
      word = 0;
      std::memcpy(&word, &bytes[at], std::min(sizeof word, bytes.size() - at));
      add(word);
    }
  }

 private:
  uint64_t low_ = 0, high_ = 0;
  uint64_t low_sum_ = 0, high_sum_ = 0;
};

void add_entry(Digest& digest, uint64_t trigger, uint64_t threshold, const nic::Op& op) {
  digest.add(trigger);
  digest.add(threshold);
  digest.add(op.context << 2 | static_cast<uint64_t>(op.kind));
  digest.add(op.remote.offset ^ op.remote.key.value);
}

void add_nic(Digest& digest, const StepNic& nic, bool stale_reads) {
  digest.add(nic.stolen());
  const NicModel& model = nic.model();
  for (uint32_t counter = 0; counter < model.limits().max_counters; ++counter) {
    const Result<nic::CounterValue> value = model.read({counter});
    if (!value.ok())
      continue;
    digest.add(value.value().success << 8 | value.value().failure);
    digest.add(nic.rings_under_way(counter));
    if (stale_reads)
      digest.add(nic.last_read(counter).reached() << 1 | (nic.frozen(counter) ? 1 : 0));
    for (auto entry = model.first_waiting({counter}); entry; entry = model.next_waiting(*entry))
      add_entry(digest, counter, model.threshold_of(*entry), model.op_of(*entry));
    digest.add(model.waiting_on({counter}));
  }
  // Among the ready entries only those of one counter have an order; which is that of their thresholds, but for such as
  // were ready when they came: the place among its own makes the difference.
  for (auto entry = model.ready(); entry; entry = model.next_ready(*entry)) {
    uint64_t place = 0;
    for (auto before = model.ready(); before != entry; before = model.next_ready(*before))
      place += model.trigger_of(*before) == model.trigger_of(*entry) ? 1 : 0;
    Digest one;
    one.add(place);
    add_entry(one, model.trigger_of(*entry).value, model.threshold_of(*entry), model.op_of(*entry));
    digest.add_one_of_many(one);
  }
  digest.add(nic.holds() ? 1 : 0);
  digest.add(nic.posting());  // so that no entry counts as one that has arrived
  for (const nic::DeferredOp& op : nic.postings())
    add_entry(digest, op.trigger.value, op.threshold, op.op);
}

void add_side(Digest& digest, const Side& side) {
  for (const uint64_t count :
       {side.filled,        side.started,      side.waited,      side.data_fired,    side.data_read,
        side.data_landed,   side.data_counted, side.data_acked,  side.clear_fired,   side.clear_landed,
        side.clear_counted, side.done_fired,   side.done_landed, side.seen_complete, side.before,
        side.starts,        side.waits,        side.failed,      side.first_lost,    side.reported,
        side.moved,         side.flag_fired,   side.flag_landed, side.flag_counted,  side.flag_acked})
    digest.add(count);
  digest.add((side.released ? 2 : 0) | (side.ever_released ? 1 : 0));
  digest.add_bytes(side.buffer);
  if (side.core == nullptr)
    return;
  digest.add(side.core->starts << 2 | static_cast<uint64_t>(side.core->state));
  digest.add(side.core->waits);
  digest.add(side.core->failures);
  digest.add(side.core->peer_starts);
  if (side.core->packing != nullptr) {
    digest.add(side.core->moved.count());
    digest.add_bytes({side.core->packing->packed.get(), side.layout->bytes()});
  }
  digest.add(side.core->asked);
  digest.add(side.core->assured);
  if (const core::Standing* standing = side.core->standing.get()) {
    digest.add(standing->posted << 1 | 1);
    digest.add(standing->count == nullptr ? 0 : *standing->count);
    digest.add(standing->rings == nullptr ? 0 : *standing->rings);
  }
}

}  // namespace

World::Fingerprint World::fingerprint() const {
  Digest digest;
  digest.add(uint64_t{state_->deaths} << 1 | (state_->faults_have_ended ? 1 : 0));
  for (const auto& process : state_->processes) {
    digest.add(process->next_free << 6 | process->nic.lost_peers() << 3 | std::min(process->looks, 2u) << 1 |
               (process->gave_up ? 1 : 0));
    digest.add(process->standing_done << 1 | (process->kept_up ? 1 : 0));
    digest.add(process->failures_seen << 2 | (process->killed ? 2 : 0) | (process->hears_of_failures ? 1 : 0));
    digest.add((process->endpoint.has_questions() ? 4 : 0) | process->matcher.owes() << 3 |
               (process->knows_nothing ? 1 : 0));
    digest.add(process->failures_announced << 1 | (process->asked == process->next_action ? 1 : 0));
    digest.add(process->next_action << 2 | (process->wants_room ? 2 : 0) | (process->overflow_idle ? 1 : 0));
    for (const auto& queued : process->streams) {
      digest.add(queued->stream.executed());
      digest.add(queued->stream.size());
      digest.add(queued->stream.capturing());
    }
    for (const core::MatchCard& card : process->mail.under_way())
      digest.add((card.send + card.writer) << 16 | card.starts << 32 | uint64_t{card.from_nic} << 4 |
                 static_cast<uint64_t>(card.kind));
    add_nic(digest, process->nic, options_.stale_reads || options_.frozen_reads);
  }
  for (const Side& side : state_->sides)
    add_side(digest, side);
  for (const uint64_t promise : state_->promises)
    digest.add(promise);
  for (const Transit& transit : state_->transits) {
    if (transit.stage == Transit::Stage::kFree)
      continue;
    Digest one;
    one.add(uint64_t{transit.request} << 8 | static_cast<uint64_t>(transit.stage) << 4 |
            static_cast<uint64_t>(transit.role));
    one.add(transit.iteration << 8 | static_cast<uint64_t>(transit.code));
    one.add(transit.packet.offset << 1 | (transit.acked ? 1 : 0));
    one.add(transit.part);
    one.add_bytes(transit.bytes);
    digest.add_one_of_many(one);
  }
  return digest.finish();
}

}  // namespace lanyard::nicsim
