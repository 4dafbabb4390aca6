#include "transport/core/word_pool.h"

#include <unistd.h>

#include <algorithm>

namespace lanyard::core {

WordPool::WordPool(nic::Nic& nic, bool whole_pages)
    : nic_(nic),
      whole_pages_(whole_pages),
      page_words_(static_cast<uint32_t>(::sysconf(_SC_PAGESIZE)) / sizeof(uint64_t)),
      next_slab_words_(whole_pages ? page_words_ : kFirstSlabWords) {}

WordPool::~WordPool() {
  // A slab that an operation under way still names is never freed: the NIC may touch it until its own end.
  for (size_t i = 0; i < slabs_.size(); ++i)
    if (!nic_.deregister_region(regions_[i]).ok())
      (void)slabs_[i].release();
}

Status WordPool::add_slab() {
  const uint64_t page_bytes = page_words_ * sizeof(uint64_t);
  auto slab = std::make_unique<uint64_t[]>(next_slab_words_ + (whole_pages_ ? page_words_ : 0));
  uint64_t* first = slab.get();
  if (whole_pages_)
    first += (page_bytes - reinterpret_cast<uintptr_t>(first) % page_bytes) % page_bytes / sizeof(uint64_t);
  LANYARD_ASSIGN_OR_RETURN(const nic::RegionId region,
                           nic_.register_region(first, next_slab_words_ * sizeof(uint64_t)));
  LANYARD_ASSIGN_OR_RETURN(const nic::RemoteKey key, nic_.key(region));
  unused_ = {.address = first, .region = region, .key = key};
  unused_left_ = next_slab_words_;
  next_slab_words_ = std::min(2 * next_slab_words_, std::max(kLastSlabWords, page_words_));
  regions_.push_back(region);
  slabs_.push_back(std::move(slab));
  return {};
}

Result<WordPool::Word> WordPool::take() {
  Word word;
  if (!free_.empty()) {
    word = free_.back();
    free_.pop_back();
  } else {
    if (unused_left_ == 0)
      LANYARD_RETURN_IF_ERROR(add_slab());
    word = unused_;
    ++unused_.address;
    unused_.offset += sizeof(uint64_t);
    --unused_left_;
  }
  word.base = word.read();
  return word;
}

}  // namespace lanyard::core
