// What Jacobi's steps must give: a serial reference, equal bit by bit, and the solution in closed form, nearly. Neither
// shares code with the kernels.
//
// The start and the fixed boundary are f(x) sin(2 pi (y / rows + z / planes)), with f = 1 at both boundaries and hashes
// between them: so neighbouring columns are unlike, and a ghost from elsewhere shows. The sine is an eigenvector of the
// mean over the periodic axes, so the product stays one, and f follows a recurrence in one dimension:
// f'(x) = (f(x - 1) + f(x + 1) + (2 cos(2 pi / rows) [+ 2 cos(2 pi / planes)]) f(x)) / (4 or 6).
#ifndef LANYARD_BENCH_JACOBI_ORACLE_H_
#define LANYARD_BENCH_JACOBI_ORACLE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lanyard::bench {

// Of one size. Cells of a whole grid are by plane, row and column.
class JacobiProblem {
 public:
  // cells: planes (1 where dims is 2), rows, columns. With two rows or fewer the sine is 0 everywhere.
  JacobiProblem(int dims, const std::array<long, 3>& cells, uint64_t seed) : dims_(dims), cells_(cells), seed_(seed) {}

  long planes() const { return cells_[0]; }
  long rows() const { return cells_[1]; }
  long columns() const { return cells_[2]; }
  long count() const { return planes() * rows() * columns(); }

  // Of column -1 and `columns`, 1: the boundary.
  double amplitude(long column) const;
  double wave(long plane, long row) const;
  // The value that a cell of a row with that wave begins with, and that the boundary keeps.
  template <class T>
  T start(double wave, long column) const {
    return static_cast<T>(amplitude(column) * wave);
  }

  // The whole grid after so many steps, on one core.
  template <class T>
  std::vector<T> reference(long steps) const;
  // f after so many steps, of all columns.
  std::vector<long double> amplitudes(long steps) const;
  // The largest difference between a grid and the closed form after so many steps; and what it can be by rounding
  // alone, as each step adds at most three units in the last place of 1.
  template <class T>
  double error(const std::vector<T>& grid, long steps) const;
  template <class T>
  static double tolerance(long steps);

  // The first cell that differs in any bit, in words; empty where none does.
  template <class T>
  std::string first_difference(const std::vector<T>& found, const std::vector<T>& expected) const;

 private:
  long double angle(long plane, long row) const;

  int dims_;
  std::array<long, 3> cells_;
  uint64_t seed_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_ORACLE_H_
