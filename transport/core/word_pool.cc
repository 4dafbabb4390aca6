#include "transport/core/word_pool.h"

namespace lanyard::core {

WordPool::~WordPool() {
  // A slab that an operation under way still names is never freed: the NIC may touch it until its own end.
  for (size_t i = 0; i < slabs_.size(); ++i)
    if (!nic_.deregister_region(regions_[i]).ok())
      (void)slabs_[i].release();
}

Result<WordPool::Word> WordPool::take() {
  if (free_.empty()) {
    auto slab = std::make_unique<uint64_t[]>(kWordsPerSlab);
    Result<nic::RegionId> region = nic_.register_region(slab.get(), kWordsPerSlab * sizeof(uint64_t));
    if (!region.ok())
      return region.status();
    const Result<nic::RemoteKey> key = nic_.key(region.value());
    if (!key.ok())
      return key.status();
    for (uint32_t i = kWordsPerSlab; i-- > 0;)
      free_.push_back({&slab[i], region.value(), key.value(), i * sizeof(uint64_t)});
    regions_.push_back(region.value());
    slabs_.push_back(std::move(slab));
  }
  const Word word = free_.back();
  free_.pop_back();
  return word;
}

}  // namespace lanyard::core
