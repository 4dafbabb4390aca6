#include "bench/sparse_matrix.h"

namespace lanyard::bench {

PoissonMatrix::PoissonMatrix(int dimensions, int64_t side) : dimensions_(dimensions), side_(side), rows_(1) {
  for (int d = 0; d < dimensions; ++d)
    rows_ *= side;
}

// Of the 2 d neighbours that each point has, those of the points at a face beyond it are missing.
int64_t PoissonMatrix::nonzeros() const { return rows_ + 2 * dimensions_ * (rows_ - rows_ / side_); }

void PoissonMatrix::row(int64_t index, std::vector<MatrixEntry>& entries) const {
  entries.clear();
  int64_t stride[3] = {1, side_, side_ * side_};
  for (int d = dimensions_ - 1; d >= 0; --d)
    if (index / stride[d] % side_ > 0)
      entries.push_back({index - stride[d], -1});
  entries.push_back({index, 2.0 * dimensions_});
  for (int d = 0; d < dimensions_; ++d)
    if (index / stride[d] % side_ + 1 < side_)
      entries.push_back({index + stride[d], -1});
}

int64_t PoissonMatrix::centre() const {
  int64_t index = 0;
  for (int d = 0; d < dimensions_; ++d)
    index = index * side_ + side_ / 2;
  return index;
}

void CsrMatrix::row(int64_t index, std::vector<MatrixEntry>& entries) const {
  entries.clear();
  const auto row = static_cast<size_t>(index);
  for (auto k = static_cast<size_t>(starts_[row]); k < static_cast<size_t>(starts_[row + 1]); ++k)
    entries.push_back({columns_[k], values_[k]});
}

}  // namespace lanyard::bench
