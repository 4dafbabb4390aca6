// Picoseconds: the model's time, an integer, so that the same job takes the same time on every machine.
#ifndef LANYARD_NICSIM_MODELLED_PICOSECONDS_H_
#define LANYARD_NICSIM_MODELLED_PICOSECONDS_H_

#include <cstdint>

namespace lanyard::modelled {

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

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_PICOSECONDS_H_
