#include "bench/local_matrix.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lanyard::bench {
namespace {

int32_t place_of(const std::vector<int64_t>& sorted, int64_t row) {
  return static_cast<int32_t>(std::lower_bound(sorted.begin(), sorted.end(), row) - sorted.begin());
}

// The neighbours, their ghosts in order, and what is sent to them.
void find_neighbours(const SparseMatrix& matrix, const RowPartition& partition, int rank, LocalMatrix& local) {
  std::map<int, std::vector<int64_t>> needed;  // of whom
  std::map<int, std::vector<int32_t>> sent;
  std::vector<MatrixEntry> entries;
  for (int32_t r = 0; r < local.size(); ++r) {
    matrix.row(local.rows[static_cast<size_t>(r)], entries);
    for (const MatrixEntry& entry : entries) {
      const int owner = partition.owner(entry.column);
      if (owner == rank)
        continue;
      needed[owner].push_back(entry.column);
      std::vector<int32_t>& list = sent[owner];
      if (list.empty() || list.back() != r)
        list.push_back(r);
    }
  }
  for (auto& [owner, columns] : needed) {
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    local.neighbours.push_back({owner, std::move(sent[owner]), static_cast<int64_t>(local.ghosts.size()),
                                static_cast<int64_t>(columns.size())});
    local.ghosts.insert(local.ghosts.end(), columns.begin(), columns.end());
  }
}

}  // namespace

int64_t LocalMatrix::sent() const {
  int64_t sum = 0;
  for (const Neighbour& neighbour : neighbours)
    sum += static_cast<int64_t>(neighbour.sent.size());
  return sum;
}

LocalMatrix local_matrix(const SparseMatrix& matrix, const RowPartition& partition, int rank) {
  LocalMatrix local;
  local.rows = partition.rows_of(rank);
  find_neighbours(matrix, partition, rank, local);
  std::map<int, const LocalMatrix::Neighbour*> by_rank;
  for (const LocalMatrix::Neighbour& neighbour : local.neighbours)
    by_rank[neighbour.rank] = &neighbour;
  const auto ghost_of = [&](int64_t column) {
    const LocalMatrix::Neighbour& from = *by_rank.at(partition.owner(column));
    const auto first = local.ghosts.begin() + from.first_ghost;
    return static_cast<int32_t>(std::lower_bound(first, first + from.ghosts, column) - local.ghosts.begin());
  };
  std::vector<MatrixEntry> entries;
  for (int32_t r = 0; r < local.size(); ++r) {
    matrix.row(local.rows[static_cast<size_t>(r)], entries);
    const int64_t others_before = static_cast<int64_t>(local.others.columns.size());
    for (const MatrixEntry& entry : entries) {
      const bool is_own = partition.owner(entry.column) == rank;
      Csr& part = is_own ? local.own : local.others;
      part.columns.push_back(is_own ? place_of(local.rows, entry.column) : ghost_of(entry.column));
      part.values.push_back(entry.value);
    }
    local.own.starts.push_back(static_cast<int64_t>(local.own.columns.size()));
    if (static_cast<int64_t>(local.others.columns.size()) > others_before) {
      local.edge.push_back(r);
      local.others.starts.push_back(static_cast<int64_t>(local.others.columns.size()));
    }
  }
  return local;
}

}  // namespace lanyard::bench
