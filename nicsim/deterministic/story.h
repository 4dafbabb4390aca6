// Story: what happened in the run of one schedule, for people: each step with its place, and which steps made which
// others possible. It is told by running the schedule once more and looking, so that a world pays nothing for it
// otherwise.
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

  // Where in a rank: its host thread, its streams, its NIC's engine, what the link brings back or loses, what the NIC
  // does to memory.
  enum class Row : uint8_t { kCpu, kStream, kNic, kLink, kMemory };
  static constexpr const char* kRowNames[] = {"CPU", "stream", "NIC", "link", "memory"};

  struct Event {
    uint64_t step = 0;  // from 1
    StepKind kind = StepKind::kHost;
    Row row = Row::kCpu;
    uint32_t rank = 0;
    uint32_t request = kNone;  // RequestName::index, where it is about one request
    uint64_t iteration = 0;    // of the request; 0 where that means nothing
    std::string text;          // World::describe() without the rank
  };

  // An operation of a NIC.
  struct Operation {
    Transit::Role role = Transit::Role::kData;
    uint32_t request = 0;
    uint64_t iteration = 0;
    // Events that follow from each other: what makes its entry's threshold, where it needs an entry; it fires; its
    // source is read; it lands; it is counted; the initiator of a write hears of it, or the stream's wait for a done
    // word passes.
    std::vector<uint32_t> path;
  };

  uint32_t ranks = 0;
  std::vector<Event> events;  // event i is step i + 1
  std::vector<Operation> operations;
  Report report;  // what the run came to

  // Runs the schedule in the world, from the beginning. The world is left at the end of that run.
  static Story tell(World& world, const Schedule& schedule);

  // A JSON document that ui.perfetto.dev and chrome://tracing show ("Trace Event Format"); it ends with a newline. A
  // process a rank, with its rows; a slice of one microsecond a step, which begins at the step's number in
  // microseconds; a flow an operation; the finding as an instant.
  std::string perfetto_trace() const;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STORY_H_
