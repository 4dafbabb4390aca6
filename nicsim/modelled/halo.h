// Grid: a periodic grid of cells dealt to ranks, and the messages of a rank's halo.
#ifndef LANYARD_NICSIM_MODELLED_HALO_H_
#define LANYARD_NICSIM_MODELLED_HALO_H_

#include <array>
#include <cstdint>
#include <vector>

#include "nicsim/modelled/job.h"
#include "nicsim/modelled/step_builder.h"

namespace lanyard::modelled {

struct Grid {
  int dimensions = 2;
  bool corners = true;  // neighbours across edges and corners, too
  std::array<uint64_t, 3> cells = {1, 1, 1};
  std::array<uint32_t, 3> ranks = {1, 1, 1};

  std::array<uint32_t, 3> place(uint32_t rank) const;
  // Of that rank, along each dimension.
  std::array<uint64_t, 3> extent(uint32_t rank) const;
  uint64_t cells_of(uint32_t rank) const;
  uint32_t size() const { return ranks[0] * ranks[1] * ranks[2]; }
};

// What a rank sends and receives: requests of the builder, the sends first, with their bytes.
struct Halo {
  std::vector<uint32_t> requests;
  std::vector<uint64_t> sent, received;  // bytes, by message
};

// Requires that the halo's requests are the first of each rank's.
Halo add_halo(StepBuilder& builder, const Grid& grid, uint32_t rank, bool ready);

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_HALO_H_
