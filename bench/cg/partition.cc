#include "bench/cg/partition.h"

#include <fmt/format.h>
#include <metis.h>

#include <algorithm>

#include "bench/cg/text_file.h"

namespace lanyard::bench::cg {

Owners row_blocks(int64_t rows, int ranks) {
  Owners owners;
  owners.reserve(static_cast<size_t>(rows));
  for (int rank = 0; rank < ranks; ++rank)
    owners.insert(owners.end(), static_cast<size_t>(rows / ranks + (rank < rows % ranks ? 1 : 0)), rank);
  return owners;
}

Owners metis_partition(const Matrix& matrix, int ranks) {
  std::vector<idx_t> starts{0}, neighbours, parts(static_cast<size_t>(matrix.rows), 0);
  std::vector<Entry> entries;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    matrix.row(row, entries);
    for (const Entry& entry : entries)
      if (entry.column != row)
        neighbours.push_back(entry.column);
    if (neighbours.size() > IDX_MAX)
      throw BadInput(fmt::format("--partition metis: more than {} entries", IDX_MAX));
    starts.push_back(static_cast<idx_t>(neighbours.size()));
  }
  auto rows = static_cast<idx_t>(matrix.rows);
  idx_t constraints = 1, count = std::min<idx_t>(ranks, rows), cut = 0;
  idx_t options[METIS_NOPTIONS];
  METIS_SetDefaultOptions(options);
  options[METIS_OPTION_SEED] = 1;
  // METIS divides by the number of parts less one, and by that of edges.
  if (count > 1 && !neighbours.empty()) {
    const int code = METIS_PartGraphKway(&rows, &constraints, starts.data(), neighbours.data(), nullptr, nullptr,
                                         nullptr, &count, nullptr, nullptr, options, &cut, parts.data());
    if (code != METIS_OK)
      throw BadInput(fmt::format("--partition metis: METIS_PartGraphKway returns {}", code));
  }
  return Owners(parts.begin(), parts.end());
}

Owners read_partition(const std::string& path, int64_t rows, int ranks) {
  TextFile file(path);
  Owners owners;
  while (file.next('%')) {
    int owner = 0;
    if (file.words().size() != 1 || !parse(file.words()[0], owner) || owner < 0 || owner >= ranks)
      file.fail(fmt::format("\"{}\", expected a rank from 0 to {}", file.words()[0], ranks - 1));
    if (static_cast<int64_t>(owners.size()) == rows)
      file.fail(fmt::format("one line more than the {} rows of the matrix", rows));
    owners.push_back(owner);
  }
  if (static_cast<int64_t>(owners.size()) < rows)
    file.fail(fmt::format("the file ends after {} lines, expected one for each of {} rows", owners.size(), rows));
  return owners;
}

}  // namespace lanyard::bench::cg
