// Resources: what a request holds of the NIC, and the pool that opens and closes it.
//
// A NIC may refuse to close what an operation under way still names (a dead peer's, say). The pool keeps it, and tries
// again with the next that are opened, and at the end. Words go back last: nobody else gets a word that the NIC may
// still increment. Threads: see Endpoint.
#ifndef LANYARD_TRANSPORT_CORE_RESOURCES_H_
#define LANYARD_TRANSPORT_CORE_RESOURCES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/base/status.h"
#include "transport/core/transfer.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

// 8-byte words that the NIC adds to and streams wait on (completion words, clear-to-send words), from slabs that are
// registered once. Words only ever grow: the next user of a word counts on from its value, so a stream that still waits
// on it is never misled.
class WordPool {
 public:
  // Of the first slab (in whole pages: one page) and of the longest; each is twice as long as the one before.
  static constexpr uint32_t kFirstSlabWords = 64;
  static constexpr uint32_t kLastSlabWords = 4096;

  // A word and how the NIC of this process reaches it.
  struct Word {
    uint64_t* address = nullptr;
    nic::RegionId region;  // of the whole slab
    nic::RemoteKey key;
    uint64_t offset = 0;  // bytes from the slab's start
    uint64_t base = 0;    // its value when it was taken

    bool valid() const { return address != nullptr; }
    uint64_t read() const { return std::atomic_ref<uint64_t>(*address).load(std::memory_order_acquire); }
    // What it has grown by since it was taken.
    uint64_t count() const { return read() - base; }
  };

  // `nic` outlives the pool. `whole_pages`: a slab shares no page of memory with anything else, because a GPU's driver
  // maps whole pages.
  WordPool(nic::Nic& nic, bool whole_pages);
  ~WordPool();
  WordPool(const WordPool&) = delete;
  WordPool& operator=(const WordPool&) = delete;

  // May register a slab. Errors: as Nic::register_region.
  Result<Word> take();
  void give_back(const Word& word) { free_.push_back(word); }

 private:
  Status add_slab();

  nic::Nic& nic_;
  const bool whole_pages_;
  const uint32_t page_words_;
  std::vector<std::unique_ptr<uint64_t[]>> slabs_;
  std::vector<nic::RegionId> regions_;
  std::vector<Word> free_;    // given back
  Word unused_;               // the first word of the newest slab that was never taken
  uint32_t unused_left_ = 0;  // how many there are
  uint32_t next_slab_words_;
};

// One operation of a request's every start. The NIC runs it once `trigger` has reached step * start + base (modulo
// 2^64, starts from 1); without a trigger, once the queue's shared trigger has counted the start's ring.
struct Post {
  nic::Op op;
  nic::CounterId trigger = {};
  uint64_t step = 0;
  uint64_t base = 0;
  nic::PreparedId id = {};  // from the first start on (nic.h, N14)
};

struct Resources {
  nic::CounterId trigger;     // regular sends: starts and clear-to-sends; few receives: starts (protocol.md, P9)
  nic::CounterId completion;  // sends: writes done; receives: messages landed, but none where the sender raises a flag
  nic::RegionId buffer;
  nic::RegionId clear_to_send;  // what lands there `trigger` counts; of an exchange: the done word of its other set
  nic::RegionId flag;           // of `done`, where the peer raises it, or of `flag_word`: its key goes with the request
  // Of members of an exchange, where senders raise flags: a send's own writes, which its flag waits for; and what the
  // flag of a receive's sender lands in, which `completion` counts.
  nic::CounterId written;
  WordPool::Word flag_word;
  WordPool::Word clear_to_send_word;
  WordPool::Word done;        // grows by one a completed iteration
  uint64_t trigger_base = 0;  // what `trigger` counts before the first iteration
  uint64_t last_count = 0;    // `trigger` stays open until it has reached this
  bool shared = false;        // `trigger`, `completion` and `done` are an exchange's, which closes them
  // Of a transfer with a packing. Lives until NIC and stream are through with the packed memory.
  std::shared_ptr<gpu::Packing> packing;
  // Of a lane: grows by one with each start that its device has made; and once it grows waits pass.
  WordPool::Word begun;
  WordPool::Word gone;
  WordPool::Word moved;    // grows by one with each packing or unpacking that a stream has made
  std::vector<Post> plan;  // what each start posts
};

class ResourcePool {
 public:
  // `nic` outlives it. `whole_pages`: see WordPool.
  ResourcePool(nic::Nic& nic, bool whole_pages) : nic_(nic), words_(nic, whole_pages) {}
  // Closes what the NIC allows; the rest is left to the NIC's own end.
  ~ResourcePool();
  ResourcePool(const ResourcePool&) = delete;
  ResourcePool& operator=(const ResourcePool&) = delete;

  // These open all or nothing. kExhausted: out of counters or regions.
  // What matching this transfer needs, by its direction. With `exchange` its counters and its done word are those.
  Result<Resources> open(const Transfer& transfer, Strategy strategy, const Resources* exchange = nullptr);
  // What a transfer needs that goes by a lane.
  Result<Resources> open_lane(const Transfer& transfer);
  // What the members of an exchange share.
  Result<Resources> open_exchange();
  // Of two exchanges: each one's trigger counts from now on what lands in the other's done word by the key of its
  // region `clear_to_send`.
  Status count_each_other(Resources& first, Resources& second);
  // A counter for their trigger, which have none.
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
  template <typename Open>
  Result<Resources> all_or_nothing(Open open);
  bool try_close(Resources& resources);
  Status prepare();
  Status open_send(const Transfer& transfer, Strategy strategy, Resources& resources);
  Status open_receive(const Transfer& transfer, Strategy strategy, Resources& resources);
  Status take_moved_word(const Transfer& transfer, Resources& resources);
  Result<nic::RegionId> enroll(const WordPool::Word& word, nic::CounterId counter) {
    return nic_.register_region(word.address, sizeof(uint64_t), counter);
  }

  nic::Nic& nic_;
  WordPool words_;
  WordPool::Word one_;
  // The NIC may take a second to let go: each is tried again after 1, 2, 4 ... calls of open().
  struct Closing {
    Resources resources;
    uint32_t pause = 1;  // calls
    uint32_t left = 1;   // of them
  };
  std::vector<Closing> closing_;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_RESOURCES_H_
