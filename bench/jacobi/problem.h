// Jacobi's method on a rectangle or a box, and what its steps must give. Shares no code with the
// kernels.
//
// In two dimensions a slab is a row, in three a plane. Slabs are periodic: slab s has the value
// sin(2 pi s / slabs) all along its rim, which never changes, and 0 within. A step makes each cell
// the mean of its 4 or 6 neighbours. With an impulse the rim is 0, and one cell begins as 4^steps
// or 6^steps: then all values stay whole numbers.
//
// Source: the geometry of Ismayilov et al., "Multi-GPU Communication Schemes for Iterative Solvers:
// When CPUs are Not in Charge".
#ifndef LANYARD_BENCH_JACOBI_PROBLEM_H_
#define LANYARD_BENCH_JACOBI_PROBLEM_H_

#include <string>
#include <vector>

namespace lanyard::bench {

struct JacobiProblem {
  int dims = 2;
  long slabs = 0;    // cells that are updated, as are:
  long rows = 1;     // of a slab; 1 in two dimensions
  long columns = 0;  // of a row
  bool is_impulse = false;
  long steps = 0;

  double rim(long slab) const;
  double start(long slab, long row, long column) const;
  // Why the impulse's whole numbers would not be exact with so many bits; empty if they are.
  std::string mistake(int bits) const;
  size_t index(long slab, long row, long column) const {
    return static_cast<size_t>((slab * rows + row) * columns + column);
  }
};

// All cells after the problem's steps, on one core, by slab, row and column. T: float or double.
template <class T>
std::vector<T> jacobi_reference(const JacobiProblem& problem);

// Describes the first cell of `found` that differs in any bit from `reference`, or is wrong; empty
// if there is none. A sine's cell is wrong if it is not within 1e-13 (floats: 1e-5) of a recurrence
// of one dimension less. An impulse's is wrong if it is not the whole number that integers give.
template <class T>
std::string jacobi_difference(const JacobiProblem& problem, const std::vector<T>& found,
                              const std::vector<T>& reference);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_PROBLEM_H_
