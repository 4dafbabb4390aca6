#include "bench/cg/local_matrix.h"

#include <algorithm>
#include <map>

namespace lanyard::bench::cg {
namespace {

// Calls f(local row, entry) for all entries of the own rows.
template <class F>
void for_entries(const Matrix& matrix, const std::vector<int32_t>& rows, F&& f) {
  std::vector<Entry> entries;
  for (size_t r = 0; r < rows.size(); ++r) {
    matrix.row(rows[r], entries);
    for (const Entry& entry : entries)
      f(static_cast<int32_t>(r), entry);
  }
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

LocalMatrix local_matrix(const Matrix& matrix, const Owners& owners, int rank) {
  LocalMatrix local;
  // By global row: its place among the own rows, or among the ghosts.
  std::vector<int32_t> place(static_cast<size_t>(matrix.rows), -1);
  const auto owner = [&](int64_t row) { return owners[static_cast<size_t>(row)]; };
  const auto number = [&](std::vector<int32_t>& list, int32_t row) {
    place[static_cast<size_t>(row)] = static_cast<int32_t>(list.size());
    list.push_back(row);
  };
  for (int32_t row = 0; row < matrix.rows; ++row)
    if (owner(row) == rank)
      number(local.rows, row);

  struct Messages {
    std::vector<int32_t> sent, received;
  };
  std::map<int, Messages> messages;
  for_entries(matrix, local.rows, [&](int32_t r, const Entry& entry) {
    if (owner(entry.column) == rank)
      return;
    Messages& m = messages[owner(entry.column)];
    m.received.push_back(entry.column);
    if (m.sent.empty() || m.sent.back() != r)
      m.sent.push_back(r);
  });
  for (auto& [peer, m] : messages) {
    std::sort(m.received.begin(), m.received.end());
    m.received.erase(std::unique(m.received.begin(), m.received.end()), m.received.end());
    local.neighbours.push_back({peer, static_cast<int64_t>(local.sent.size()), static_cast<int64_t>(m.sent.size()),
                                static_cast<int64_t>(local.ghosts.size()), static_cast<int64_t>(m.received.size())});
    append(local.sent, m.sent);
    for (const int32_t row : m.received)
      number(local.ghosts, row);
  }

  local.own.starts.resize(local.rows.size() + 1, 0);
  for_entries(matrix, local.rows, [&](int32_t r, const Entry& entry) {
    const bool is_own = owner(entry.column) == rank;
    Csr& part = is_own ? local.own : local.others;
    part.columns.push_back(place[static_cast<size_t>(entry.column)]);
    part.values.push_back(entry.value);
    if (is_own) {
      ++local.own.starts[static_cast<size_t>(r) + 1];
      return;
    }
    if (local.edge.empty() || local.edge.back() != r) {
      local.edge.push_back(r);
      part.starts.push_back(0);
    }
    part.starts.back() = static_cast<int64_t>(part.columns.size());
  });
  for (size_t r = 0; r < local.rows.size(); ++r)
    local.own.starts[r + 1] += local.own.starts[r];
  return local;
}

}  // namespace lanyard::bench::cg
