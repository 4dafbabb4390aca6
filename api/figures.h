// Figures: what Lanyard counts in this process, by name: for MPIX_Queue_get_info, and for the MPI's tool information
// interface (performance_variables.h).
#ifndef LANYARD_API_FIGURES_H_
#define LANYARD_API_FIGURES_H_

#include <cstdint>
#include <span>

#include "transport/core/queue.h"

namespace lanyard::api {

class Context;

struct Figure {
  enum class Kind {
    kLevel,  // rises and falls
    kSize,   // of a resource; stays
    kCount,  // of events; never falls
    kSum,    // over events; never falls
  };
  const char* name;
  const char* description;
  Kind kind;
  // Requires the lock, and a context with a network card.
  uint64_t (*read)(Context& context);
};

// Of the network card and what uses it.
std::span<const Figure> card_figures();
// Sums over all queues that there are or were.
std::span<const Figure> queue_figures();
void add(const core::Queue::Figures& more, core::Queue::Figures& sum);

}  // namespace lanyard::api

#endif  // LANYARD_API_FIGURES_H_
