// Resources: what a request holds of the NIC, and the pool that opens and closes it.
//
// A NIC may refuse to close something that an operation under way still names: a dead peer's, say. Such resources stay
// in the pool and are tried again with the next that are opened, and at the end. Words go back last: nobody else gets a
// word that something may still be added to. Threads: see Endpoint.
#ifndef LANYARD_TRANSPORT_CORE_RESOURCES_H_
#define LANYARD_TRANSPORT_CORE_RESOURCES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "transport/base/status.h"
#include "transport/core/strategy.h"
#include "transport/core/transfer.h"
#include "transport/core/word_pool.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

// An operation of a request's plan as the NIC has been given it. A start waits for the trigger to reach step *
// iteration + base, modulo 2^64; where there is no trigger, for the queue's shared one.
struct PreparedOp {
  nic::PreparedId id;
  nic::CounterId trigger;
  uint64_t step = 0;
  uint64_t base = 0;
};

struct Resources {
  nic::CounterId trigger;     // regular sends: starts and clear-to-sends, see plan.h; few receives: starts (exchange.h)
  nic::CounterId completion;  // sends: writes done; receives: messages landed, but none where the sender raises a flag
  nic::RegionId buffer;
  nic::RegionId clear_to_send;  // what lands there `trigger` counts; of an exchange: the done word of its other set
  nic::RegionId flag;           // of `done`, where the peer raises it, or of `flag_word`: its key goes with the request
  // Of members of an exchange, where senders raise flags: a send's own writes, which its flag waits for; and what the
  // flag of a receive's sender lands in, which `completion` counts.
  nic::CounterId written;
  WordPool::Word flag_word;
  uint64_t flag_base = 0;
  WordPool::Word clear_to_send_word;
  WordPool::Word done;     // grows by one a completed iteration
  uint64_t done_base = 0;  // the word's value before the first iteration
  uint64_t clear_to_send_base = 0;
  uint64_t trigger_base = 0;  // what `trigger` counts before the first iteration (plan.h)
  uint64_t last_count = 0;    // that `trigger` reaches: it still counts what has landed before
  bool shared = false;        // `trigger`, `completion` and `done` are an exchange's, whoever closes these
  // Of a transfer with a packing. Lives until the NIC has let go of the packed memory, and the stream is through with
  // it.
  std::shared_ptr<gpu::Packing> packing;
  // Of a lane: grows by one with each start that its device has made; and once it grows waits pass.
  WordPool::Word begun;
  uint64_t begun_base = 0;
  WordPool::Word gone;
  WordPool::Word moved;  // grows by one with each packing or unpacking that a stream has made
  uint64_t moved_base = 0;
  // In the plan's order, from the first start on (prepared_plan.h); and whether the whole plan is.
  std::vector<PreparedOp> prepared;
  bool is_prepared = false;
};

class ResourcePool {
 public:
  // `nic` outlives it. `whole_pages`: see WordPool.
  ResourcePool(nic::Nic& nic, bool whole_pages) : nic_(nic), words_(nic, whole_pages) {}
  // Closes what the NIC lets go of; the rest is left to the NIC's own end.
  ~ResourcePool();
  ResourcePool(const ResourcePool&) = delete;
  ResourcePool& operator=(const ResourcePool&) = delete;

  // What matching this transfer needs, by its direction; all or nothing. kExhausted: out of counters or regions. With
  // `exchange` its counters and its done word are those.
  Result<Resources> open(const Transfer& transfer, Strategy strategy, const Resources* exchange = nullptr);
  // What a transfer needs that goes by a lane. kExhausted.
  Result<Resources> open_lane(const Transfer& transfer);
  // What the members of an exchange share.
  Result<Resources> open_exchange();
  // Of two exchanges that do: from now on each one's trigger counts what lands in the other's done word by the key of
  // its region `clear_to_send`. kExhausted: out of regions.
  Status count_each_other(Resources& first, Resources& second);
  // A counter for their trigger, which have none. kExhausted: there is none left.
  Status open_trigger(Resources& resources);
  // Leaves `resources` empty.
  void close(Resources& resources);
  // A counter that is nobody's any more.
  void close(nic::CounterId counter);
  // How many that were closed are not, because the NIC still has something to do with them.
  size_t unclosed() const { return closing_.size(); }
  // A word that holds 1: the operand of every increment. Requires that something has been opened.
  const WordPool::Word& one() const { return one_; }

 private:
  bool try_close(Resources& resources);
  Status prepare();
  Status open_send(const Transfer& transfer, Strategy strategy, Resources& resources);
  Status open_receive(const Transfer& transfer, Strategy strategy, Resources& resources);
  Status open_clear_to_send(Resources& resources);
  Status open_flag(Resources& resources);
  Status open_counter(nic::CounterId& counter);
  Status enroll(void* base, uint64_t bytes, nic::CounterId counter, nic::RegionId& region);
  Status take_done_word(Resources& resources);
  Status take_moved_word(const Transfer& transfer, Resources& resources);

  nic::Nic& nic_;
  WordPool words_;
  WordPool::Word one_;
  // What the NIC has not let go of. It may take a second to say so: each is asked for after 1, 2, 4 ... calls of
  // open().
  struct Closing {
    Resources resources;
    uint32_t pause = 1;  // calls
    uint32_t left = 1;   // of them
  };
  std::vector<Closing> closing_;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_RESOURCES_H_
