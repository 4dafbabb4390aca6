#include "transport/core/resources.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "transport/core/plan.h"

namespace lanyard::core {

WordPool::WordPool(nic::Nic& nic, bool whole_pages)
    : nic_(nic),
      whole_pages_(whole_pages),
      page_words_(static_cast<uint32_t>(::sysconf(_SC_PAGESIZE)) / sizeof(uint64_t)),
      next_slab_words_(whole_pages ? page_words_ : kFirstSlabWords) {}

WordPool::~WordPool() {
  // Leak a slab that an operation in flight still names: the NIC may touch it until it is closed.
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

namespace {

constexpr uint32_t kLongestPause = 1024;

}  // namespace

ResourcePool::~ResourcePool() {
  for (Closing& each : closing_) {
    if (try_close(each.resources))
      continue;
    // A peer may still write to a region that stays open: leak its memory.
    if (each.resources.packing != nullptr)
      new std::shared_ptr(each.resources.packing);
  }
}

// Retries what the NIC refused to close, to make room. Call it before anything is opened.
Status ResourcePool::prepare() {
  std::erase_if(closing_, [this](Closing& each) {
    if (--each.left > 0)
      return false;
    each.left = each.pause = std::min(2 * each.pause, kLongestPause);
    return try_close(each.resources);
  });
  if (one_.valid())
    return {};
  LANYARD_ASSIGN_OR_RETURN(one_, words_.take());
  std::atomic_ref<uint64_t>(*one_.address).store(1);
  return {};
}

template <typename Open>
Result<Resources> ResourcePool::all_or_nothing(Open open) {
  LANYARD_RETURN_IF_ERROR(prepare());
  Resources resources;
  const Status status = open(resources);
  if (status.ok())
    return resources;
  close(resources);
  return status;
}

Result<Resources> ResourcePool::open_exchange() {
  return all_or_nothing([this](Resources& resources) -> Status {
    LANYARD_RETURN_IF_ERROR(open_trigger(resources));
    LANYARD_ASSIGN_OR_RETURN(resources.completion, nic_.open_counter());
    LANYARD_ASSIGN_OR_RETURN(resources.done, words_.take());
    return {};
  });
}

Status ResourcePool::count_each_other(Resources& first, Resources& second) {
  LANYARD_ASSIGN_OR_RETURN(first.clear_to_send, enroll(second.done, first.trigger));
  LANYARD_ASSIGN_OR_RETURN(second.clear_to_send, enroll(first.done, second.trigger));
  return {};
}

Result<Resources> ResourcePool::open(const Transfer& transfer, Strategy strategy, const Resources* exchange) {
  return all_or_nothing([&](Resources& resources) -> Status {
    if (exchange != nullptr) {
      resources.shared = true;
      resources.trigger = exchange->trigger;
      resources.trigger_base = exchange->trigger_base;
      resources.completion = exchange->completion;
      resources.done = exchange->done;
    }
    LANYARD_RETURN_IF_ERROR(take_moved_word(transfer, resources));
    return transfer.direction == Direction::kSend ? open_send(transfer, strategy, resources)
                                                  : open_receive(transfer, strategy, resources);
  });
}

Result<Resources> ResourcePool::open_lane(const Transfer& transfer) {
  return all_or_nothing([&](Resources& resources) -> Status {
    LANYARD_RETURN_IF_ERROR(take_moved_word(transfer, resources));
    for (WordPool::Word* word : {&resources.done, &resources.begun, &resources.gone}) {
      LANYARD_ASSIGN_OR_RETURN(*word, words_.take());
    }
    return {};
  });
}

Status ResourcePool::take_moved_word(const Transfer& transfer, Resources& resources) {
  if (transfer.packing == nullptr)
    return {};
  LANYARD_ASSIGN_OR_RETURN(resources.moved, words_.take());
  resources.packing = transfer.packing;
  return {};
}

Status ResourcePool::open_trigger(Resources& resources) {
  LANYARD_ASSIGN_OR_RETURN(resources.trigger, nic_.open_counter());
  resources.trigger_base = trigger_base(nic_.caps());
  return resources.trigger_base > 0 ? nic_.add(resources.trigger, resources.trigger_base) : Status();
}

Status ResourcePool::open_send(const Transfer& transfer, Strategy strategy, Resources& resources) {
  if (!resources.shared || raises_flags(strategy)) {
    LANYARD_ASSIGN_OR_RETURN((resources.shared ? resources.written : resources.completion), nic_.open_counter());
  }
  LANYARD_ASSIGN_OR_RETURN(resources.buffer, nic_.register_region(transfer.buffer, transfer.bytes));
  if (!resources.shared) {
    LANYARD_ASSIGN_OR_RETURN(resources.done, words_.take());
  }
  if (transfer.ready)
    return {};
  if (!resources.shared)
    LANYARD_RETURN_IF_ERROR(open_trigger(resources));
  LANYARD_ASSIGN_OR_RETURN(resources.clear_to_send_word, words_.take());
  LANYARD_ASSIGN_OR_RETURN(resources.clear_to_send, enroll(resources.clear_to_send_word, resources.trigger));
  return {};
}

Status ResourcePool::open_receive(const Transfer& transfer, Strategy strategy, Resources& resources) {
  const bool flag = raises_flags(strategy);
  if (!flag && !resources.shared) {
    LANYARD_ASSIGN_OR_RETURN(resources.completion, nic_.open_counter());
  }
  const nic::CounterId landed = flag ? nic::CounterId() : resources.completion;
  LANYARD_ASSIGN_OR_RETURN(resources.buffer, nic_.register_region(transfer.buffer, transfer.bytes, landed));
  if (!resources.shared) {
    LANYARD_ASSIGN_OR_RETURN(resources.done, words_.take());
  }
  if (!flag)
    return {};
  // The flag has a region of its own. Its key ends with the request (N8), so a late flag fails and
  // cannot reach the word's next owner. A member of an exchange also has a word of its own for it.
  if (resources.shared) {
    LANYARD_ASSIGN_OR_RETURN(resources.flag_word, words_.take());
  }
  LANYARD_ASSIGN_OR_RETURN(resources.flag, resources.shared ? enroll(resources.flag_word, resources.completion)
                                                            : enroll(resources.done, {}));
  return {};
}

void ResourcePool::close(Resources& resources) {
  Resources closing = std::exchange(resources, {});
  if (!try_close(closing))
    closing_.push_back({.resources = closing});
}

void ResourcePool::close(nic::CounterId counter) {
  Resources resources;
  resources.trigger = counter;
  close(resources);
}

// Returns false if the NIC still uses a part of it. May be repeated.
bool ResourcePool::try_close(Resources& resources) {
  if (resources.shared) {
    resources.trigger = resources.completion = {};
    resources.done = {};
  }
  if (resources.last_count > 0) {
    const Result<nic::CounterValue> value = nic_.read(resources.trigger);
    if (value.ok() && value.value().reached() < resources.last_count)
      return false;
  }
  // First the prepared operations, because they name the counters and regions.
  for (const Post& post : std::exchange(resources.plan, {})) {
    if (!post.id.valid())
      continue;
    const Status status = nic_.release(post.id);
    LANYARD_CHECK(status.ok(), status.message().c_str());
  }
  bool closed = true;
  for (nic::RegionId* region : {&resources.clear_to_send, &resources.buffer, &resources.flag}) {
    if (region->valid() && nic_.deregister_region(*region).ok())
      *region = {};
    closed = closed && !region->valid();
  }
  for (nic::CounterId* counter : {&resources.trigger, &resources.completion, &resources.written}) {
    if (counter->valid() && nic_.close_counter(*counter).ok())
      *counter = {};
    closed = closed && !counter->valid();
  }
  if (!closed)
    return false;
  resources.packing.reset();
  for (const WordPool::Word* word : {&resources.moved, &resources.clear_to_send_word, &resources.flag_word,
                                     &resources.begun, &resources.gone, &resources.done})
    if (word->valid())
      words_.give_back(*word);
  return true;
}

}  // namespace lanyard::core
