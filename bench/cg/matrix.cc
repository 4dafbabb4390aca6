#include "bench/cg/matrix.h"

#include <memory>
#include <utility>

namespace lanyard::bench::cg {

Matrix poisson(int dimensions, int64_t n) {
  Matrix matrix;
  matrix.rows = 1;
  for (int d = 0; d < dimensions; ++d) {
    matrix.centre = matrix.centre * n + n / 2;
    matrix.rows *= n;
  }
  matrix.nonzeros = matrix.rows + 2 * dimensions * (matrix.rows - matrix.rows / n);
  matrix.row = [dimensions, n](int64_t row, std::vector<Entry>& entries) {
    const int64_t strides[] = {1, n, n * n};
    const auto add = [&](int64_t column, double value) { entries.push_back({static_cast<int32_t>(column), value}); };
    entries.clear();
    for (int d = dimensions - 1; d >= 0; --d)
      if (row / strides[d] % n > 0)
        add(row - strides[d], -1);
    add(row, 2.0 * dimensions);
    for (int d = 0; d < dimensions; ++d)
      if (row / strides[d] % n + 1 < n)
        add(row + strides[d], -1);
  };
  return matrix;
}

Matrix from_csr(Csr csr) {
  const auto kept = std::make_shared<const Csr>(std::move(csr));
  return {kept->rows(), kept->nonzeros(), kept->rows() / 2, [kept](int64_t row, std::vector<Entry>& entries) {
            entries.clear();
            const auto r = static_cast<size_t>(row);
            for (auto k = static_cast<size_t>(kept->starts[r]); k < static_cast<size_t>(kept->starts[r + 1]); ++k)
              entries.push_back({kept->columns[k], kept->values[k]});
          }};
}

}  // namespace lanyard::bench::cg
