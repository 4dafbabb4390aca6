#include "transport/core/word_pool.h"

#include <unistd.h>

#include <algorithm>

namespace lanyard::core {

WordPool::~WordPool() {
  // A slab that an operation under way still names is never freed: the NIC may touch it until its own end.
  for (size_t i = 0; i < slabs_.size(); ++i)
    if (!nic_.deregister_region(regions_[i]).ok())
      (void)slabs_[i].release();
}

uint32_t WordPool::page_words() { return static_cast<uint32_t>(::sysconf(_SC_PAGESIZE)) / sizeof(uint64_t); }

Status WordPool::add_slab() {
  const uint64_t page_bytes = page_words_ * sizeof(uint64_t);
  auto slab = std::make_unique<uint64_t[]>(next_slab_words_ + (whole_pages_ ? page_words_ : 0));
  uint64_t* first = slab.get();
  if (whole_pages_)
    first += (page_bytes - reinterpret_cast<uintptr_t>(first) % page_bytes) % page_bytes / sizeof(uint64_t);
  Result<nic::RegionId> region = nic_.register_region(first, next_slab_words_ * sizeof(uint64_t));
  if (!region.ok())
    return region.status();
  const Result<nic::RemoteKey> key = nic_.key(region.value());
  if (!key.ok())
    return key.status();
  unused_ = {first, region.value(), key.value(), 0};
  unused_left_ = next_slab_words_;
  next_slab_words_ = std::min(2 * next_slab_words_, std::max(kLastSlabWords, page_words_));
  regions_.push_back(region.value());
  slabs_.push_back(std::move(slab));
  return {};
}

Result<WordPool::Word> WordPool::take() {
  if (!free_.empty()) {
    const Word word = free_.back();
    free_.pop_back();
    return word;
  }
  if (unused_left_ == 0)
    LANYARD_RETURN_IF_ERROR(add_slab());
  const Word word = unused_;
  ++unused_.address;
  unused_.offset += sizeof(uint64_t);
  --unused_left_;
  return word;
}

}  // namespace lanyard::core
