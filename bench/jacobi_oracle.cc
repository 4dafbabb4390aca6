#include "bench/jacobi_oracle.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numbers>

#include "bench/payload.h"

namespace lanyard::bench {
namespace {

constexpr long double kTurn = 2 * std::numbers::pi_v<long double>;

size_t index(long i) { return static_cast<size_t>(i); }

}  // namespace

double JacobiProblem::amplitude(long column) const {
  if (column < 0 || column >= columns())
    return 1;
  const uint64_t hash = mix(mix(seed_) ^ static_cast<uint64_t>(column)) >> 11;
  return std::ldexp(static_cast<double>(hash), -52) - 1;  // from -1 to 1
}

long double JacobiProblem::angle(long plane, long row) const {
  const long double turns = static_cast<long double>(row) / static_cast<long double>(rows()) +
                            static_cast<long double>(plane) / static_cast<long double>(planes());
  return kTurn * turns;
}

double JacobiProblem::wave(long plane, long row) const { return static_cast<double>(std::sin(angle(plane, row))); }

template <class T>
std::vector<T> JacobiProblem::reference(long steps) const {
  std::vector<T> now(index(count())), next(now.size());
  std::vector<T> boundary(index(planes() * rows()));
  for (long z = 0; z < planes(); ++z) {
    for (long y = 0; y < rows(); ++y) {
      const double row_wave = wave(z, y);
      boundary[index(z * rows() + y)] = start<T>(row_wave, -1);
      for (long x = 0; x < columns(); ++x)
        now[index((z * rows() + y) * columns() + x)] = start<T>(row_wave, x);
    }
  }
  const T share = T(1) / T(2 * dims_);
  for (long step = 0; step < steps; ++step) {
    for (long z = 0; z < planes(); ++z) {
      const T* const before = &now[index((z + planes() - 1) % planes() * rows() * columns())];
      const T* const behind = &now[index((z + 1) % planes() * rows() * columns())];
      const T* const plane = &now[index(z * rows() * columns())];
      for (long y = 0; y < rows(); ++y) {
        const T* const below = plane + (y + rows() - 1) % rows() * columns();
        const T* const above = plane + (y + 1) % rows() * columns();
        const T* const row = plane + y * columns();
        const T edge = boundary[index(z * rows() + y)];
        T* const to = &next[index((z * rows() + y) * columns())];
        for (long x = 0; x < columns(); ++x) {
          const T left = x > 0 ? row[x - 1] : edge, right = x + 1 < columns() ? row[x + 1] : edge;
          T sum = below[x] + above[x];
          if (dims_ == 3)
            sum = (before[y * columns() + x] + behind[y * columns() + x]) + sum;
          to[x] = (sum + (left + right)) * share;
        }
      }
    }
    now.swap(next);
  }
  return now;
}

std::vector<long double> JacobiProblem::amplitudes(long steps) const {
  // With the boundaries at both ends.
  std::vector<long double> now(index(columns() + 2)), next(now.size(), 1);
  for (long x = -1; x <= columns(); ++x)
    now[index(x + 1)] = amplitude(x);
  long double own = 2 * std::cos(kTurn / static_cast<long double>(rows()));
  if (dims_ == 3)
    own += 2 * std::cos(kTurn / static_cast<long double>(planes()));
  for (long step = 0; step < steps; ++step) {
    for (size_t x = 1; x + 1 < now.size(); ++x)
      next[x] = (now[x - 1] + now[x + 1] + own * now[x]) / (2 * dims_);
    now.swap(next);
  }
  return {now.begin() + 1, now.end() - 1};
}

template <class T>
double JacobiProblem::error(const std::vector<T>& grid, long steps) const {
  const std::vector<long double> f = amplitudes(steps);
  long double largest = 0;
  const T* cell = grid.data();
  for (long z = 0; z < planes(); ++z) {
    for (long y = 0; y < rows(); ++y) {
      const long double wave = std::sin(angle(z, y));
      for (long x = 0; x < columns(); ++x, ++cell) {
        const long double difference = std::fabs(static_cast<long double>(*cell) - f[index(x)] * wave);
        if (!(difference <= largest))  // what is no number is the largest
          largest = difference;
        if (std::isnan(difference))
          return std::numeric_limits<double>::infinity();
      }
    }
  }
  return static_cast<double>(largest);
}

template <class T>
double JacobiProblem::tolerance(long steps) {
  return static_cast<double>(3 * steps + 3) * static_cast<double>(std::numeric_limits<T>::epsilon());
}

template <class T>
std::string JacobiProblem::first_difference(const std::vector<T>& found, const std::vector<T>& expected) const {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::memcmp(&found[i], &expected[i], sizeof(T)) == 0)
      continue;
    const long cell = static_cast<long>(i), row = cell / columns();
    const std::string place = dims_ == 3 ? fmt::format("({}, {}, {})", row / rows(), row % rows(), cell % columns())
                                         : fmt::format("({}, {})", row, cell % columns());
    return fmt::format("cell {} is {}, should be {}", place, found[i], expected[i]);
  }
  return "";
}

template std::vector<float> JacobiProblem::reference(long) const;
template std::vector<double> JacobiProblem::reference(long) const;
template double JacobiProblem::error(const std::vector<float>&, long) const;
template double JacobiProblem::error(const std::vector<double>&, long) const;
template double JacobiProblem::tolerance<float>(long);
template double JacobiProblem::tolerance<double>(long);
template std::string JacobiProblem::first_difference(const std::vector<float>&, const std::vector<float>&) const;
template std::string JacobiProblem::first_difference(const std::vector<double>&, const std::vector<double>&) const;

}  // namespace lanyard::bench
