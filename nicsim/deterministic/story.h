// Story: the run of one schedule, for people: where each step happened, and which steps caused
// which others. Story::tell() runs the schedule again to record it, so other runs pay nothing.
#ifndef LANYARD_NICSIM_DETERMINISTIC_STORY_H_
#define LANYARD_NICSIM_DETERMINISTIC_STORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

struct Story {
  static constexpr uint32_t kNone = UINT32_MAX;

  // The part of a rank: its host thread, its streams, its NIC's engine, acknowledgements and losses
  // on the link, accesses of NICs to memory.
  enum class Row : uint8_t { kCpu, kStream, kNic, kLink, kMemory };
  static constexpr const char* kRowNames[] = {"CPU", "stream", "NIC", "link", "memory"};

  struct Event {
    uint64_t step = 0;  // from 1
    StepKind kind = StepKind::kHost;
    Row row = Row::kCpu;
    uint32_t rank = 0;
    uint32_t request = kNone;  // RequestName::index; kNone if the event is not for exactly one request
    uint64_t iteration = 0;    // of the request; 0: none
    std::string text;          // World::describe() without the rank
  };

  // An operation of a NIC.
  struct Operation {
    Transit::Role role = Transit::Role::kData;
    uint32_t request = 0;
    uint64_t iteration = 0;
    // Indices of events, each a cause of the next: the trigger reaches the threshold (if there is
    // an entry); the operation fires; its source is read; it lands; it is counted. Then a write is
    // acknowledged, or the stream's wait for a done word passes.
    std::vector<uint32_t> path;
  };

  uint32_t ranks = 0;
  std::vector<Event> events;  // event i is step i + 1
  std::vector<Operation> operations;
  Report report;  // of the run

  // Runs the schedule from the world's beginning. Leaves the world at the end of that run.
  static Story tell(World& world, const Schedule& schedule);

  // Returns a JSON document for ui.perfetto.dev and chrome://tracing ("Trace Event Format"), with a
  // newline at its end. A rank is a process, a row a thread and an operation a flow. Step i is a
  // slice from microsecond i to i + 1. A finding is an instant.
  std::string perfetto_trace() const;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STORY_H_
