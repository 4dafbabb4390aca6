#include "transport/core/word_pool.h"

namespace lanyard::core {

WordPool::~WordPool() {
  for (const nic::RegionId region : regions_)
    (void)nic_.deregister_region(region);  // the NIC is about to go, and takes what is still in use with it
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
