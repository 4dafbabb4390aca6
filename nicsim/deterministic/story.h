// Story: what happened in the run of one schedule, for people: each step with its place, and which steps made which
// others possible. It is told by running the schedule once more and looking, so that a world pays nothing for it
// otherwise.
#ifndef LANYARD_NICSIM_DETERMINISTIC_STORY_H_
#define LANYARD_NICSIM_DETERMINISTIC_STORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nicsim/deterministic/report.h"
#include "nicsim/deterministic/schedulers.h"
#include "nicsim/deterministic/world.h"

namespace lanyard::nicsim {

struct Story {
  static constexpr uint32_t kNone = UINT32_MAX;

  // Where in a rank: its host thread, its streams, its NIC's engine, what the link brings back or loses, what the NIC
  // does to memory.
  enum class Row : uint8_t { kCpu, kStream, kNic, kLink, kMemory };
  static constexpr uint32_t kRows = 5;
  static const char* row_name(Row row);

  struct Event {
    uint64_t step = 0;  // from 1
    StepKind kind = StepKind::kHost;
    Row row = Row::kCpu;
    uint32_t rank = 0;
    uint32_t request = kNone;  // RequestName::index, where it is about one request
    uint64_t iteration = 0;    // of the request; 0 where that means nothing
    Picoseconds time = 0;      // at its end; 0 where time is not virtual
    std::string text;          // World::describe() without the rank
  };

  // An operation of a NIC; its stages are numbers of events, or kNone where they never came.
  struct Operation {
    Transit::Role role = Transit::Role::kData;
    uint32_t from = 0, to = 0;
    uint32_t request = 0;
    uint64_t iteration = 0;
    bool failed = false;
    uint32_t trigger = kNone;  // what made its entry's threshold; none where it needed no entry
    uint32_t fire = kNone;
    uint32_t read = kNone;  // none where there is nothing to read
    uint32_t land = kNone;
    uint32_t count = kNone;  // none where no counter of the target counts it
    uint32_t ack = kNone;
    uint32_t wake = kNone;  // of a done word: the stream's wait for it passes

    // The stages that followed from each other, by rising number: for a write to the ack, for a clear-to-send to the
    // count, for a done word to the wake.
    std::vector<uint32_t> path() const;
  };

  // A number that changes in the course of the run.
  struct Track {
    struct Point {
      uint64_t step = 0;  // after which it holds; 0: at the beginning
      uint64_t value = 0;
    };
    std::string name;
    uint32_t rank = 0;
    std::vector<Point> points;  // its changes, by rising step
  };

  uint32_t ranks = 0;
  bool timed = false;
  std::vector<Event> events;  // event i is step i + 1
  std::vector<Operation> operations;
  std::vector<Track> tracks;  // of each rank the entries in use, of each request the growth of its done word
  Report report;              // what the run came to

  // Runs the schedule in the world, from the beginning. The world is left at the end of that run.
  static Story tell(World& world, const Schedule& schedule);
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_STORY_H_
