#include "api/kernel_watch.h"

#include "api/context.h"
#include "api/queue.h"

namespace lanyard::api {

void KernelWatch::look(Context& context) {
  std::map<const lanyard_queue*, Sight> sights;
  for (const auto& queue : context.queues()) {
    const core::Queue::Head head = queue->core->head();
    if (head.kernel == nullptr)
      continue;
    const auto before = sights_.find(queue.get());
    const bool same = before != sights_.end() && before->second.item == head.item;
    sights[queue.get()] = same ? before->second : Sight{head.item, Clock::now()};
  }
  sights_.swap(sights);
}

std::chrono::milliseconds KernelWatch::seen(const lanyard_queue& queue, uint64_t item) const {
  const auto sight = sights_.find(&queue);
  if (sight == sights_.end() || sight->second.item != item)
    return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - sight->second.since);
}

}  // namespace lanyard::api
