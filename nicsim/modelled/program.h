// Program: what one process does in every step: what its host posts and enqueues, what its stream runs, and what its
// card does with the entries. One program serves all processes whose steps are alike; whom a request's other side
// belongs to stands in the job (job.h).
//
// Everything is affine in the step i = 1, 2, ...: thresholds are step * i - before, a wait's value is step * i.
#ifndef LANYARD_NICSIM_MODELLED_PROGRAM_H_
#define LANYARD_NICSIM_MODELLED_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lanyard::modelled {

// ---- Time

// The model's time is an integer, so that the same job takes the same time on every machine.
using Picoseconds = int64_t;
inline constexpr Picoseconds kNanosecond = 1'000;
inline constexpr Picoseconds kMicrosecond = 1'000'000;

// What a byte, a cell or another small thing costs, a thousandth of a picosecond as the unit: a byte takes a card some
// 40 ps, of which a whole picosecond is too much to round off.
using Femtoseconds = int64_t;

// Of so many of them, rounded to the nearest. Requires a product below 2^63: 10^11 of 10 ns each, say.
constexpr Picoseconds times(Femtoseconds each, uint64_t count) {
  return (each * static_cast<int64_t>(count) + 500) / 1000;
}

// ---- Programs

inline constexpr uint16_t kNone = UINT16_MAX;  // no counter, no word

// What of a request its peer's operations go to.
enum class Part : uint8_t { kBuffer, kClearToSend, kFlag };
inline constexpr size_t kParts = 3;

// What an arriving operation does besides moving bytes: a counter that counts it, and a word that it raises by one.
struct Landing {
  uint16_t counter = kNone;
  uint16_t word = kNone;
};

// A deferred operation that is posted once a step.
struct Entry {
  uint16_t trigger = 0;
  uint32_t step = 0;
  uint32_t before = 0;
  uint16_t completion = kNone;
  bool delivery = false;  // completes once the data is visible
  bool own = false;       // it raises the process's own `word`, if there is one, and nothing else
  uint16_t word = kNone;
  uint16_t request = 0;  // whose peer it goes to
  Part part = Part::kBuffer;
  uint64_t bytes = 0;

  Picoseconds posted = 0;  // from the beginning of the host's step until the card has it

  uint32_t threshold(uint32_t iteration) const { return step * iteration - before; }
};

struct StreamOp {
  enum class Kind : uint8_t { kKernel, kRing, kWait };
  Kind kind = Kind::kKernel;
  bool follows = false;   // a wait that another comes right before, in one batch
  uint16_t object = 0;    // kRing: the counter; kWait: the word
  uint32_t value = 0;     // kRing: what it adds; kWait: step, see above
  Picoseconds cost = 0;   // that the stream is busy with it
  Picoseconds ready = 0;  // from the beginning of the host's step until it is enqueued
};

// What the host does, in its order: the index of the stream's operation, or of the entry.
struct HostOp {
  bool posts = false;
  uint32_t index = 0;
};

struct Program {
  uint16_t counters = 0;
  uint16_t words = 0;
  std::vector<Entry> entries;
  std::vector<StreamOp> stream;
  std::vector<HostOp> host;
  std::vector<std::array<Landing, kParts>> landings;  // by request
  std::vector<std::vector<uint16_t>> hanging;         // by counter: entries, in the order in which they fire

  Picoseconds host_step = 0;  // that the host is busy with a step
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_PROGRAM_H_
