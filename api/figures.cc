#include "api/figures.h"

#include "api/context.h"
#include "api/queue.h"

namespace lanyard::api {

namespace {

using Kind = Figure::Kind;

core::Queue::Figures of_all_queues(Context& context) LANYARD_REQUIRES(context_locked) {
  core::Queue::Figures sum = context.freed_queues();
  for (const auto& queue : context.queues())
    add(queue->core->figures(), sum);
  return sum;
}

constexpr Figure kCardFigures[] = {
    {"entries_posted", "deferred-work entries that starts needed, those that overflowed included", Kind::kCount,
     [](Context& context) LANYARD_REQUIRES(context_locked) { return context.endpoint().entries_posted(); }},
    {"entries_overflowed", "of these, how many did not fit into the card at their start", Kind::kCount,
     [](Context& context) LANYARD_REQUIRES(context_locked) { return context.endpoint().overflow().overflowed(); }},
    {"entries_by_software", "of these, how many were run by software", Kind::kCount,
     [](Context& context) LANYARD_REQUIRES(context_locked) { return context.endpoint().overflow().by_software(); }},
    {"entries_in_use", "deferred-work entries of the card that are taken", Kind::kLevel,
     [](Context& context) -> uint64_t { return context.nic().caps().deferred_depth - context.nic().free_entries(); }},
    {"entries_depth", "deferred-work entries that the card has", Kind::kSize,
     [](Context& context) -> uint64_t { return context.nic().caps().deferred_depth; }},
    {"counters", "counters of the card that are open", Kind::kLevel,
     [](Context& context) -> uint64_t { return context.nic().usage().counters; }},
    {"regions", "regions of memory that the card knows", Kind::kLevel,
     [](Context& context) -> uint64_t { return context.nic().usage().regions; }},
    {"loans", "allocations of GPU memory of other processes that are mapped here", Kind::kLevel,
     [](Context& context) -> uint64_t { return context.gpus() == nullptr ? 0 : context.gpus()->mapped_loans(); }},
    {"failures", "operations that failed", Kind::kCount, [](Context& context) { return context.nic().failures(); }},
};

constexpr Figure kQueueFigures[] = {
    {"starts", "starts of requests that were enqueued", Kind::kCount,
     [](Context& context) LANYARD_REQUIRES(context_locked) { return of_all_queues(context).starts; }},
    {"waits", "waits for requests that were enqueued", Kind::kCount,
     [](Context& context) LANYARD_REQUIRES(context_locked) { return of_all_queues(context).waits; }},
    {"triggers", "rings of the card that were enqueued", Kind::kCount,
     [](Context& context) LANYARD_REQUIRES(context_locked) { return of_all_queues(context).triggers; }},
    {"bytes", "bytes that sends were started with", Kind::kSum,
     [](Context& context) LANYARD_REQUIRES(context_locked) { return of_all_queues(context).bytes; }},
};

}  // namespace

std::span<const Figure> card_figures() { return kCardFigures; }
std::span<const Figure> queue_figures() { return kQueueFigures; }

void add(const core::Queue::Figures& more, core::Queue::Figures& sum) {
  sum.starts += more.starts;
  sum.waits += more.waits;
  sum.triggers += more.triggers;
  sum.bytes += more.bytes;
}

}  // namespace lanyard::api
