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

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>
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

  double angle(long slab) const {
    return 2 * std::numbers::pi * static_cast<double>(slab) / static_cast<double>(slabs);
  }
  double rim(long slab) const { return is_impulse ? 0 : std::sin(angle(slab)); }
  double start(long slab, long row, long column) const {
    const bool is_middle = slab == slabs / 2 && row == rows / 2 && column == columns / 2;
    return is_impulse && is_middle ? std::pow(2 * dims, steps) : 0;
  }
  // Why the impulse's whole numbers would not be exact with so many bits; empty if they are.
  std::string mistake(int bits) const {
    if (!is_impulse || static_cast<double>(steps) * std::log2(2 * dims) <= bits)
      return "";
    return fmt::format("after {} steps an impulse is {}^{}, more than {} bits hold exactly", steps, 2 * dims, steps,
                       bits);
  }
  size_t index(long slab, long row, long column) const {
    return static_cast<size_t>((slab * rows + row) * columns + column);
  }
};

// One step after another: cells begin as start(slab, row, column), and rim(slab) is their rim. A
// cell becomes next(sum of its neighbours in a plane, slab before, slab behind). In the order of
// the kernels: right, left, down, up.
template <class T, class Start, class Rim, class Next>
std::vector<T> jacobi_steps(const JacobiProblem& p, const Start& start, const Rim& rim, const Next& next) {
  std::vector<T> now, rims;
  for (long s = 0; s < p.slabs; ++s) {
    rims.push_back(rim(s));
    for (long r = 0; r < p.rows; ++r)
      for (long c = 0; c < p.columns; ++c)
        now.push_back(start(s, r, c));
  }
  std::vector<T> then(now.size());
  for (long step = 0; step < p.steps; ++step) {
    for (long s = 0; s < p.slabs; ++s) {
      const long before = (s + p.slabs - 1) % p.slabs, behind = (s + 1) % p.slabs;
      const auto at = [&](long r, long c) {
        return r < 0 || r == p.rows || c < 0 || c == p.columns ? rims[static_cast<size_t>(s)] : now[p.index(s, r, c)];
      };
      for (long r = 0; r < p.rows; ++r)
        for (long c = 0; c < p.columns; ++c) {
          T sum = at(r, c + 1) + at(r, c - 1);
          if (p.dims == 3)
            sum = (sum + at(r - 1, c)) + at(r + 1, c);
          then[p.index(s, r, c)] = next(sum, now[p.index(before, r, c)], now[p.index(behind, r, c)]);
        }
    }
    now.swap(then);
  }
  return now;
}

// All cells after the problem's steps, on one core, by slab, row and column. T: float or double.
template <class T>
std::vector<T> jacobi_reference(const JacobiProblem& p) {
  return jacobi_steps<T>(
      p, [&](long s, long r, long c) { return static_cast<T>(p.start(s, r, c)); },
      [&](long s) { return static_cast<T>(p.rim(s)); },
      [&](T sum, T before, T behind) {
        sum = (sum + before) + behind;
        return p.dims == 2 ? sum * T(0.25) : sum / T(6);
      });
}

// Describes the first cell of `found` that differs in any bit from `reference`, or is wrong; empty
// if there is none. A sine's cell is wrong if it is not within 1e-13 (floats: 1e-5) of a recurrence
// of one dimension less. An impulse's is wrong if it is not the whole number that integers give.
template <class T>
std::string jacobi_difference(const JacobiProblem& p, const std::vector<T>& found, const std::vector<T>& reference) {
  // Integers; or the sine's amplitude, with a rim of 1, on one slab that is its own neighbour.
  std::vector<uint64_t> whole;
  std::vector<long double> amplitude;
  if (p.is_impulse) {
    whole = jacobi_steps<uint64_t>(
        p, [&](long s, long r, long c) { return p.start(s, r, c) > 0 ? 1u : 0u; }, [](long) { return 0u; },
        [](uint64_t sum, uint64_t before, uint64_t behind) { return sum + before + behind; });
  } else {
    JacobiProblem section = p;
    section.slabs = 1;
    amplitude = jacobi_steps<long double>(
        section, [](long, long, long) { return 0.0L; }, [](long) { return 1.0L; },
        [&](long double sum, long double own, long double) {
          return (sum + 2 * std::cos(static_cast<long double>(p.angle(1))) * own) / (2 * p.dims);
        });
  }
  const double tolerance = sizeof(T) == 8 ? 1e-13 : 1e-5;
  for (long s = 0; s < p.slabs; ++s)
    for (long r = 0; r < p.rows; ++r)
      for (long c = 0; c < p.columns; ++c) {
        const size_t i = p.index(s, r, c);
        const auto wrong = [&](const std::string& expected) {
          return fmt::format("cell (slab {}, row {}, column {}) is {}, should be {}", s, r, c, found[i], expected);
        };
        if (std::memcmp(&found[i], &reference[i], sizeof(T)) != 0)
          return wrong(fmt::format("{}", reference[i]));
        if (p.is_impulse && found[i] != static_cast<T>(whole[i]))
          return wrong(fmt::format("{}", whole[i]));
        if (p.is_impulse)
          continue;
        const double exact = static_cast<double>(amplitude[p.index(0, r, c)]) * p.rim(s);
        if (!(std::fabs(static_cast<double>(found[i]) - exact) <= tolerance))
          return wrong(fmt::format("{} by the recurrence", exact));
      }
  return "";
}

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_PROBLEM_H_
