#include "bench/row_partition.h"

#include <fmt/format.h>
#include <metis.h>

#include <numeric>

namespace lanyard::bench {

int RowPartition::owner(int64_t row) const {
  if (!owners_.empty())
    return owners_[static_cast<size_t>(row)];
  // The first ranks have one row more.
  const int64_t each = rows_ / ranks_, longer = rows_ % ranks_;
  return static_cast<int>(row < longer * (each + 1) ? row / (each + 1) : (row - longer) / each);
}

std::vector<int64_t> RowPartition::rows_of(int rank) const {
  std::vector<int64_t> rows;
  if (owners_.empty()) {
    rows.resize(static_cast<size_t>(first_of(rank + 1) - first_of(rank)));
    std::iota(rows.begin(), rows.end(), first_of(rank));
    return rows;
  }
  for (int64_t row = 0; row < rows_; ++row)
    if (owners_[static_cast<size_t>(row)] == rank)
      rows.push_back(row);
  return rows;
}

std::optional<RowPartition> RowPartition::metis(const SparseMatrix& matrix, int ranks, std::string& why) {
  constexpr int64_t kMost = INT32_MAX;  // METIS's own numbers
  if (matrix.nonzeros() > kMost) {
    why = fmt::format("METIS takes at most {} entries, and the matrix has {}", kMost, matrix.nonzeros());
    return std::nullopt;
  }
  auto rows = static_cast<idx_t>(matrix.rows());
  std::vector<idx_t> starts{0}, neighbours;
  std::vector<MatrixEntry> entries;
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    matrix.row(row, entries);
    for (const MatrixEntry& entry : entries)
      if (entry.column != row)
        neighbours.push_back(static_cast<idx_t>(entry.column));
    starts.push_back(static_cast<idx_t>(neighbours.size()));
  }
  std::vector<idx_t> owners(static_cast<size_t>(rows), 0);
  if (ranks > 1) {
    idx_t constraints = 1, parts = ranks, cut = 0;
    idx_t options[METIS_NOPTIONS];
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = 1;
    const int code = METIS_PartGraphKway(&rows, &constraints, starts.data(), neighbours.data(), nullptr, nullptr,
                                         nullptr, &parts, nullptr, nullptr, options, &cut, owners.data());
    if (code != METIS_OK) {
      why = fmt::format("METIS_PartGraphKway failed with code {}", code);
      return std::nullopt;
    }
  }
  std::vector<int64_t> sizes(static_cast<size_t>(ranks), 0);
  for (const idx_t owner : owners)
    ++sizes[static_cast<size_t>(owner)];
  for (size_t rank = 0; rank < sizes.size(); ++rank)
    if (sizes[rank] == 0) {
      why = fmt::format("METIS leaves rank {} of {} without rows: take --partition rows", rank, ranks);
      return std::nullopt;
    }
  return of(std::vector<int>(owners.begin(), owners.end()), ranks);
}

}  // namespace lanyard::bench
