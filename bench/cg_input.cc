#include "bench/cg_input.h"

#include <utility>
#include <vector>

#include "bench/from_first.h"
#include "bench/matrix_market.h"

namespace lanyard::bench {
std::unique_ptr<const SparseMatrix> load_matrix(const std::string& path, const MpiProcess& process, std::string& why) {
  std::optional<CsrMatrix> read;
  if (process.is_first())
    read = read_matrix_market(path, why);
  if (!process.all(!process.is_first() || read))
    return nullptr;
  std::vector<int64_t> starts;
  std::vector<int32_t> columns;
  std::vector<double> values;
  if (read) {
    starts = read->starts();
    columns = read->columns();
    values = read->values();
  }
  from_first(starts);
  from_first(columns);
  from_first(values);
  return std::make_unique<CsrMatrix>(std::move(starts), std::move(columns), std::move(values));
}

std::optional<RowPartition> partition_rows(const SparseMatrix& matrix, bool by_metis, const MpiProcess& process,
                                           std::string& why) {
  if (!by_metis)
    return RowPartition::blocks(matrix.rows(), process.ranks());
  std::vector<int> owners;
  if (process.is_first())
    if (const auto partition = RowPartition::metis(matrix, process.ranks(), why))
      owners = partition->owners();
  from_first(owners);
  if (owners.empty())
    return std::nullopt;
  return RowPartition::of(std::move(owners), process.ranks());
}

}  // namespace lanyard::bench
