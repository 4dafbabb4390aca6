#include "transport/core/resources.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "transport/core/plan.h"

namespace lanyard::core {

namespace {

constexpr uint32_t kLongestPause = 1024;

}  // namespace

ResourcePool::~ResourcePool() {
  for (Closing& each : closing_) {
    if (try_close(each.resources))
      continue;
    // A region that stays open may yet be written to.
    if (each.resources.packing != nullptr)
      new std::shared_ptr(each.resources.packing);
  }
}

// What goes before everything that is opened.
Status ResourcePool::prepare() {
  std::erase_if(closing_, [this](Closing& each) {
    if (--each.left > 0)
      return false;
    each.left = each.pause = std::min(2 * each.pause, kLongestPause);
    return try_close(each.resources);
  });
  if (one_.valid())
    return {};
  const Result<WordPool::Word> taken = words_.take();
  if (!taken.ok())
    return taken.status();
  one_ = taken.value();
  std::atomic_ref<uint64_t>(*one_.address).store(1);
  return {};
}

Result<Resources> ResourcePool::open_exchange() {
  LANYARD_RETURN_IF_ERROR(prepare());
  Resources resources;
  Status status = open_trigger(resources);
  if (status.ok())
    status = open_counter(resources.completion);
  if (status.ok())
    status = take_done_word(resources);
  if (status.ok())
    return resources;
  close(resources);
  return status;
}

Status ResourcePool::count_each_other(Resources& first, Resources& second) {
  LANYARD_RETURN_IF_ERROR(enroll(second.done.address, sizeof(uint64_t), first.trigger, first.clear_to_send));
  return enroll(first.done.address, sizeof(uint64_t), second.trigger, second.clear_to_send);
}

Result<Resources> ResourcePool::open(const Transfer& transfer, Strategy strategy, const Resources* exchange) {
  LANYARD_RETURN_IF_ERROR(prepare());
  Resources resources;
  if (exchange != nullptr) {
    resources.shared = true;
    resources.trigger = exchange->trigger;
    resources.trigger_base = exchange->trigger_base;
    resources.completion = exchange->completion;
    resources.done = exchange->done;
    resources.done_base = exchange->done_base;
  }
  LANYARD_RETURN_IF_ERROR(take_moved_word(transfer, resources));
  Status status = transfer.direction == Direction::kSend ? open_send(transfer, strategy, resources)
                                                         : open_receive(transfer, strategy, resources);
  if (status.ok())
    return resources;
  close(resources);
  return status;
}

Status ResourcePool::take_moved_word(const Transfer& transfer, Resources& resources) {
  if (transfer.packing == nullptr)
    return {};
  const Result<WordPool::Word> moved = words_.take();
  if (!moved.ok())
    return moved.status();
  resources.packing = transfer.packing;
  resources.moved = moved.value();
  resources.moved_base = moved.value().read();
  return {};
}

Result<Resources> ResourcePool::open_lane(const Transfer& transfer) {
  LANYARD_RETURN_IF_ERROR(prepare());
  Resources resources;
  Status status = take_moved_word(transfer, resources);
  if (status.ok())
    status = take_done_word(resources);
  for (WordPool::Word* word : {&resources.begun, &resources.gone}) {
    if (!status.ok())
      break;
    const Result<WordPool::Word> taken = words_.take();
    status = taken.status();
    if (taken.ok())
      *word = taken.value();
  }
  if (status.ok()) {
    resources.begun_base = resources.begun.read();
    return resources;
  }
  close(resources);
  return status;
}

Status ResourcePool::open_counter(nic::CounterId& counter) {
  const Result<nic::CounterId> opened = nic_.open_counter();
  if (opened.ok())
    counter = opened.value();
  return opened.status();
}

Status ResourcePool::open_trigger(Resources& resources) {
  LANYARD_RETURN_IF_ERROR(open_counter(resources.trigger));
  resources.trigger_base = trigger_base(nic_.caps());
  return resources.trigger_base > 0 ? nic_.add(resources.trigger, resources.trigger_base) : Status();
}

Status ResourcePool::enroll(void* base, uint64_t bytes, nic::CounterId counter, nic::RegionId& region) {
  const Result<nic::RegionId> enrolled = nic_.register_region(base, bytes, counter);
  if (enrolled.ok())
    region = enrolled.value();
  return enrolled.status();
}

Status ResourcePool::take_done_word(Resources& resources) {
  const Result<WordPool::Word> done = words_.take();
  if (!done.ok())
    return done.status();
  resources.done = done.value();
  resources.done_base = resources.done.read();
  return {};
}

Status ResourcePool::open_send(const Transfer& transfer, Strategy strategy, Resources& resources) {
  if (!resources.shared)
    LANYARD_RETURN_IF_ERROR(open_counter(resources.completion));
  else if (raises_flags(strategy))
    LANYARD_RETURN_IF_ERROR(open_counter(resources.written));
  LANYARD_RETURN_IF_ERROR(enroll(transfer.buffer, transfer.bytes, {}, resources.buffer));
  if (!resources.shared)
    LANYARD_RETURN_IF_ERROR(take_done_word(resources));
  return transfer.ready ? Status() : open_clear_to_send(resources);
}

Status ResourcePool::open_clear_to_send(Resources& resources) {
  if (!resources.shared)
    LANYARD_RETURN_IF_ERROR(open_trigger(resources));
  const Result<WordPool::Word> word = words_.take();
  if (!word.ok())
    return word.status();
  resources.clear_to_send_word = word.value();
  resources.clear_to_send_base = word.value().read();
  return enroll(word.value().address, sizeof(uint64_t), resources.trigger, resources.clear_to_send);
}

Status ResourcePool::open_receive(const Transfer& transfer, Strategy strategy, Resources& resources) {
  const bool flag = raises_flags(strategy);
  if (!flag && !resources.shared)
    LANYARD_RETURN_IF_ERROR(open_counter(resources.completion));
  const nic::CounterId landed = flag ? nic::CounterId() : resources.completion;
  LANYARD_RETURN_IF_ERROR(enroll(transfer.buffer, transfer.bytes, landed, resources.buffer));
  if (!resources.shared)
    LANYARD_RETURN_IF_ERROR(take_done_word(resources));
  if (flag && resources.shared)
    return open_flag(resources);
  // A region of its own: once the request is freed, who raises its flag late is refused, and the word's next user is
  // safe.
  return flag ? enroll(resources.done.address, sizeof(uint64_t), {}, resources.flag) : Status();
}

// Of a member of an exchange: each has a word of its own, as a region of its own.
Status ResourcePool::open_flag(Resources& resources) {
  const Result<WordPool::Word> word = words_.take();
  if (!word.ok())
    return word.status();
  resources.flag_word = word.value();
  resources.flag_base = word.value().read();
  return enroll(word.value().address, sizeof(uint64_t), resources.completion, resources.flag);
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

// False where the NIC still has something to do with a part of it.
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
  // First, as they name the others.
  for (const PreparedOp& op : std::exchange(resources.prepared, {})) {
    const Status status = nic_.release(op.id);
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
