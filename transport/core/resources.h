// Resources: the counters, regions and words of a request, and the pool that opens and closes them.
//
// The NIC refuses to close what an operation in flight still names, such as one to a dead peer. The
// pool then retries at later opens and in its destructor. The words become free last, because the
// NIC may increment them until all else is closed. Threads: see Endpoint.
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

// 8-byte words that the NIC adds to and streams wait on, such as done words. They lie in slabs that
// are registered once. Words only grow: the next owner counts on from the value that it finds, so a
// stream that looks late at the word is still right.
class WordPool {
 public:
  // Words in the first slab (`whole_pages`: one page) and in the longest (at least one page). Each
  // slab is twice as long as the one before.
  static constexpr uint32_t kFirstSlabWords = 64;
  static constexpr uint32_t kLastSlabWords = 4096;

  // A word, and how the NIC of this process reaches it.
  struct Word {
    uint64_t* address = nullptr;
    nic::RegionId region;  // the whole slab
    nic::RemoteKey key;
    uint64_t offset = 0;  // bytes from the slab's start
    uint64_t base = 0;    // the value at take()

    bool valid() const { return address != nullptr; }
    uint64_t read() const { return std::atomic_ref<uint64_t>(*address).load(std::memory_order_acquire); }
    // The growth since take().
    uint64_t count() const { return read() - base; }
  };

  // `nic` must outlive the pool. `whole_pages`: slabs share no page with other memory, because the
  // driver of a GPU maps whole pages.
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
  Word unused_;               // the next word of the newest slab that was never taken
  uint32_t unused_left_ = 0;  // the number of such words
  uint32_t next_slab_words_;
};

// One operation of each start. The NIC runs it once `trigger` has reached step * start + base
// (modulo 2^64; the first start is 1). Without a trigger, it waits for the start's ring of the
// queue's shared trigger, or of the standing request's own.
struct Post {
  nic::Op op;
  nic::CounterId trigger = {};
  uint64_t step = 0;
  uint64_t base = 0;
  nic::PreparedId id = {};  // set at the first start (nic.h, N14)
};

struct Resources {
  nic::CounterId trigger;     // regular sends: rings and clear-to-sends; some receives: rings (protocol.md, P9)
  nic::CounterId completion;  // sends: operations completed; receives, strategy A: messages landed
  nic::RegionId buffer;
  nic::RegionId clear_to_send;  // its word, counted by `trigger`; of an exchange: the other set's done word
  nic::RegionId flag;           // strategy B, receives: `done` or a member's `flag_word`. Closed with the request
  // Strategy B, members of an exchange. A send: counts its own writes, and its flag waits for it.
  nic::CounterId written;
  WordPool::Word flag_word;  // a receive: its sender's flag lands here, counted by `completion`
  WordPool::Word clear_to_send_word;
  WordPool::Word done;        // grows by one with each completed iteration
  uint64_t trigger_base = 0;  // the value of `trigger` before the first iteration (P4)
  uint64_t last_count = 0;    // `trigger` stays open until it has reached this
  bool shared = false;        // `trigger`, `completion` and `done` belong to an exchange, which closes them
  // Null if nothing is packed. Kept until the NIC and the stream no longer use the packed memory.
  std::shared_ptr<gpu::Packing> packing;
  WordPool::Word begun;    // lanes: grows by one with each start that the device has made
  WordPool::Word gone;     // lanes: once it has grown, waits pass
  WordPool::Word moved;    // grows by one with each packing or unpacking that the stream has made
  std::vector<Post> plan;  // the operations of each start
};

class ResourcePool {
 public:
  // `nic` must outlive this. `whole_pages`: see WordPool.
  ResourcePool(nic::Nic& nic, bool whole_pages) : nic_(nic), words_(nic, whole_pages) {}
  // Closes what the NIC allows. The rest stays open until the NIC is closed.
  ~ResourcePool();
  ResourcePool(const ResourcePool&) = delete;
  ResourcePool& operator=(const ResourcePool&) = delete;

  // The next three open all or nothing. kExhausted: out of counters or regions.
  // Opens what the transfer needs. With `exchange`, uses its counters and its done word.
  Result<Resources> open(const Transfer& transfer, Strategy strategy, const Resources* exchange = nullptr);
  // Opens what a transfer by a lane needs.
  Result<Resources> open_lane(const Transfer& transfer);
  // Opens what the members of an exchange share.
  Result<Resources> open_exchange();
  // Lets the trigger of each of two sets count increments of the other's done word, if they use the
  // key of this set's region `clear_to_send`.
  Status count_each_other(Resources& first, Resources& second);
  // Opens `trigger`. Requires that it is not open.
  Status open_trigger(Resources& resources);
  // Closes them, now or later. Leaves `resources` empty.
  void close(Resources& resources);
  // Closes a counter that nobody uses any more, now or later.
  void close(nic::CounterId counter);
  // The number of closes that the NIC still refuses.
  size_t unclosed() const { return closing_.size(); }
  // A word that holds 1: the operand of every increment. Requires that something was opened.
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
  // The NIC may refuse for a second. Retry after 1, 2, 4 ... up to 1,024 opens.
  struct Closing {
    Resources resources;
    uint32_t pause = 1;  // opens between two tries
    uint32_t left = 1;   // opens until the next try
  };
  std::vector<Closing> closing_;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_RESOURCES_H_
