#include "transport/core/word_pool.h"

#include <algorithm>

namespace lanyard::core {

WordPool::~WordPool() {
  // A slab that an operation under way still names is never freed: the NIC may touch it until its own end.
  for (size_t i = 0; i < slabs_.size(); ++i)
    if (!nic_.deregister_region(regions_[i]).ok())
      (void)slabs_[i].release();
}

Status WordPool::add_slab() {
  constexpr uint64_t kPageBytes = kPageWords * sizeof(uint64_t);
  auto slab = std::make_unique<uint64_t[]>(next_slab_words_ + (whole_pages_ ? kPageWords : 0));
  uint64_t* first = slab.get();
  if (whole_pages_)
    first += (kPageBytes - reinterpret_cast<uintptr_t>(first) % kPageBytes) % kPageBytes / sizeof(uint64_t);
  Result<nic::RegionId> region = nic_.register_region(first, next_slab_words_ * sizeof(uint64_t));
  if (!region.ok())
    return region.status();
  const Result<nic::RemoteKey> key = nic_.key(region.value());
  if (!key.ok())
    return key.status();
  unused_ = {first, region.value(), key.value(), 0};
  unused_left_ = next_slab_words_;
  next_slab_words_ = std::min(2 * next_slab_words_, kLastSlabWords);
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
