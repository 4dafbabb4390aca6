// Program: the work of one process in every step: what its host posts and enqueues, what its stream
// runs, and what its NIC does with the entries. Processes with the same steps share one program.
// The peers of its requests are in the job (job.h).
//
// Everything is affine in the step i = 1, 2, ...: a threshold is step * i - before, a
// wait's value is step * i.
#ifndef LANYARD_NICSIM_MODELLED_PROGRAM_H_
#define LANYARD_NICSIM_MODELLED_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lanyard::modelled {

// ---- Time

// Modelled time is an integer, so a job takes the same time on every machine.
using Picoseconds = int64_t;
inline constexpr Picoseconds kNanosecond = 1'000;
inline constexpr Picoseconds kMicrosecond = 1'000'000;

// The cost of a byte, a cell or another small unit. A byte takes a NIC some 40 ps, so rounding to
// whole picoseconds would be too coarse.
using Femtoseconds = int64_t;

// The time of `count` units, rounded to the nearest. Requires a product below 2^63, such
// as 10^11 units of 10 ns.
constexpr Picoseconds times(Femtoseconds each, uint64_t count) {
  return (each * static_cast<int64_t>(count) + 500) / 1000;
}

// ---- Programs

inline constexpr uint16_t kNone = UINT16_MAX;  // no counter, no word

// The part of a request that the peer's operations reach.
enum class Part : uint8_t { kBuffer, kClearToSend, kFlag };
inline constexpr size_t kParts = 3;

// The effect of an arriving operation besides its bytes: it adds 1 to a counter and to a word.
struct Landing {
  uint16_t counter = kNone;
  uint16_t word = kNone;
};

// A deferred operation, posted once a step.
struct Entry {
  uint16_t trigger = 0;
  uint32_t step = 0;
  uint32_t before = 0;
  uint16_t completion = kNone;
  bool delivery = false;  // completes once the data is visible
  bool own = false;       // only raises the own process's `word`, if there is one
  uint16_t word = kNone;
  uint16_t request = 0;  // the request whose peer it goes to
  Part part = Part::kBuffer;
  uint64_t bytes = 0;

  Picoseconds posted = 0;  // from the start of the host's step until the NIC has the entry

  uint32_t threshold(uint32_t iteration) const { return step * iteration - before; }
};

struct StreamOp {
  enum class Kind : uint8_t { kKernel, kRing, kWait };
  Kind kind = Kind::kKernel;
  bool follows = false;   // a wait right after another one of the same batch
  uint16_t object = 0;    // kRing: the counter; kWait: the word
  uint32_t value = 0;     // kRing: the value to add; kWait: `step`, see above
  Picoseconds cost = 0;   // time that it occupies the stream
  Picoseconds ready = 0;  // from the start of the host's step until it is enqueued
};

// One action of the host, in order. `index` names a stream operation, or an entry if `posts`.
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
  std::vector<std::vector<uint16_t>> hanging;         // by counter: entries in firing order

  Picoseconds host_step = 0;  // time that a step occupies the host
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_PROGRAM_H_
