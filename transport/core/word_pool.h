// 8-byte words that the NIC adds to and streams wait on (completion words, clear-to-send words), from slabs that are
// registered once. Words only ever grow: the next user of a word counts on from its value, so a stream that still waits
// on it is never misled.
#ifndef LANYARD_TRANSPORT_CORE_WORD_POOL_H_
#define LANYARD_TRANSPORT_CORE_WORD_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

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

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_WORD_POOL_H_
