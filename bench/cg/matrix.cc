#include "bench/cg/matrix.h"

#include <fmt/format.h>
#include <metis.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <map>
#include <memory>
#include <utility>

namespace lanyard::bench::cg {
namespace {

struct Triplet {
  int32_t row, column;
  int64_t line;  // of the file
  double value;

  std::pair<int32_t, int32_t> place() const { return {row, column}; }
  auto operator<=>(const Triplet&) const = default;
};

std::string name(const std::pair<int32_t, int32_t>& place) {
  return fmt::format("entry ({}, {})", place.first + 1, place.second + 1);
}

class MatrixMarketFile {
 public:
  using Words = std::initializer_list<const char*>;

  MatrixMarketFile(const std::string& path, const char* format, Words fields, Words symmetries) : file_(path) {
    // The banner is a comment to the file's other lines.
    if (!file_.next() || file_.line() != 1 || file_.words().size() != 5 || lower(file_.words()[0]) != "%%matrixmarket")
      file_.fail(fmt::format("expected %%MatrixMarket matrix {} FIELD SYMMETRY", format));
    banner_word(1, {"matrix"});
    banner_word(2, {format});
    field_ = banner_word(3, fields);
    is_symmetric_ = banner_word(4, symmetries) == "symmetric";
  }

  Csr matrix() {
    const std::vector<int64_t> size = whole_numbers({"rows", "columns", "entries"});
    rows_ = size[0];
    const int64_t entries = size[2];
    if (rows_ != size[1])
      file_.fail(fmt::format("{} rows and {} columns, expected a square matrix", rows_, size[1]));
    if (rows_ < 1 || rows_ > Matrix::kMostRows)
      file_.fail(fmt::format("{} rows, expected 1 to {}", rows_, Matrix::kMostRows));
    if (entries < rows_)
      file_.fail(fmt::format("{} entries of {} rows, expected the whole diagonal of a positive definite matrix",
                             entries, rows_));
    // The last line may lack its end.
    if (const int64_t most = file_.most_bytes() / (is_pattern() ? 4 : 6) + 1; entries > most)
      file_.fail(fmt::format("{} entries, but the file has room for at most {}", entries, most));
    std::vector<Triplet> triplets;
    while (next_of(entries, triplets.size()))
      triplets.push_back(triplet());
    std::sort(triplets.begin(), triplets.end());
    check_symmetry(triplets);
    if (is_symmetric_) {
      for (size_t i = 0, stored = triplets.size(); i < stored; ++i)
        if (const Triplet t = triplets[i]; t.row != t.column)
          triplets.push_back({t.column, t.row, t.line, t.value});
      std::sort(triplets.begin(), triplets.end());
    }
    Csr csr;
    for (const Triplet& t : triplets) {
      while (csr.rows() < t.row)
        csr.end_row();
      csr.columns.push_back(t.column);
      csr.values.push_back(t.value);
    }
    while (csr.rows() < rows_)
      csr.end_row();
    return csr;
  }

  std::vector<double> vector(int64_t rows) {
    const std::vector<int64_t> size = whole_numbers({"rows", "columns"});
    if (size[0] != rows || size[1] != 1)
      file_.fail(fmt::format("{} rows and {} columns, expected {} and 1", size[0], size[1], rows));
    std::vector<double> values;
    while (next_of(rows, values.size())) {
      expect_words(1, "a number");
      values.push_back(value(0));
    }
    return values;
  }

 private:
  bool is_pattern() const { return field_ == "pattern"; }

  static std::string lower(std::string_view word) {
    std::string result(word);
    std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
    return result;
  }
  std::string banner_word(size_t i, Words expected) const {
    const std::string found = lower(file_.words()[i]);
    if (std::find(expected.begin(), expected.end(), found) == expected.end())
      file_.fail(fmt::format("\"{}\" in the banner, expected {}", file_.words()[i], fmt::join(expected, " or ")));
    return found;
  }

  void expect_words(size_t count, const std::string& expected) const {
    if (file_.words().size() != count)
      file_.fail(fmt::format("{} words, expected {}", file_.words().size(), expected));
  }
  int64_t whole_number(size_t i, const char* name) const {
    int64_t number = 0;
    if (!parse(file_.words()[i], number))
      file_.fail(fmt::format("{} \"{}\", expected a whole number", name, file_.words()[i]));
    return number;
  }
  // The size line.
  std::vector<int64_t> whole_numbers(Words names) {
    const std::string expected = fmt::format("{} whole numbers: {}", names.size(), fmt::join(names, ", "));
    if (!file_.next('%'))
      file_.fail("the file ends, expected " + expected);
    expect_words(names.size(), expected);
    std::vector<int64_t> numbers;
    for (const char* name : names)
      numbers.push_back(whole_number(numbers.size(), name));
    return numbers;
  }
  // Goes to the next entry. False at the end of the file, which must have `expected` of them.
  bool next_of(int64_t expected, size_t have) {
    const bool is_there = file_.next('%'), is_enough = static_cast<int64_t>(have) >= expected;
    if (is_there && is_enough)
      file_.fail(fmt::format("one entry more than the {} of the size line", expected));
    if (!is_there && !is_enough)
      file_.fail(fmt::format("the file ends after {} entries, expected {}", have, expected));
    return is_there;
  }

  double value(size_t i) const {
    double number = 0;
    if (field_ == "integer")
      whole_number(i, "value");
    if (!parse(file_.words()[i], number) || !std::isfinite(number))
      file_.fail(fmt::format("value \"{}\", expected a finite number", file_.words()[i]));
    return number;
  }
  int32_t index(size_t i, const char* name) const {
    const int64_t number = whole_number(i, name);
    if (number < 1 || number > rows_)
      file_.fail(fmt::format("{} {}, expected 1 to {}", name, number, rows_));
    return static_cast<int32_t>(number - 1);
  }
  Triplet triplet() const {
    expect_words(is_pattern() ? 2 : 3, is_pattern() ? "row and column" : "row, column and value");
    const Triplet t{index(0, "row"), index(1, "column"), file_.line(), is_pattern() ? 1 : value(2)};
    if (is_symmetric_ && t.row < t.column)
      file_.fail(name(t.place()) + " is above the diagonal, expected the lower half of a symmetric matrix");
    return t;
  }

  // Of sorted triplets.
  void check_symmetry(const std::vector<Triplet>& triplets) const {
    for (size_t i = 0; i < triplets.size(); ++i) {
      const Triplet& t = triplets[i];
      if (i > 0 && triplets[i - 1].place() == t.place())
        file_.fail_at(t.line, fmt::format("{} is in line {} already", name(t.place()), triplets[i - 1].line));
      if (is_symmetric_)
        continue;
      const std::pair wanted(t.column, t.row);
      const auto mirror = std::ranges::lower_bound(triplets, wanted, {}, &Triplet::place);
      if (mirror == triplets.end() || mirror->place() != wanted)
        file_.fail_at(t.line, fmt::format("{} without {}, expected a symmetric matrix", name(t.place()), name(wanted)));
      if (mirror->value != t.value)
        file_.fail_at(std::max(t.line, mirror->line),
                      fmt::format("{} is {}, but {} is {}, expected a symmetric matrix", name(t.place()), t.value,
                                  name(wanted), mirror->value));
    }
  }

  TextFile file_;
  std::string field_;
  bool is_symmetric_ = false;
  int64_t rows_ = 0;
};

}  // namespace

Csr read_matrix(const std::string& path) {
  return MatrixMarketFile(path, "coordinate", {"real", "integer", "pattern"}, {"general", "symmetric"}).matrix();
}

std::vector<double> read_vector(const std::string& path, int64_t rows) {
  return MatrixMarketFile(path, "array", {"real", "integer"}, {"general"}).vector(rows);
}

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

// ---- Parts of ranks

Owners row_blocks(int64_t rows, int ranks) {
  Owners owners;
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

LocalMatrix::LocalMatrix(const Matrix& matrix, const Owners& owners, int rank) {
  // By global row: its place among the own rows, or among the ghosts.
  std::vector<int32_t> place(owners.size(), -1);
  const auto number = [&](std::vector<int32_t>& list, int32_t row) {
    place[static_cast<size_t>(row)] = static_cast<int32_t>(list.size());
    list.push_back(row);
  };
  for (int32_t row = 0; row < matrix.rows; ++row)
    if (owners[static_cast<size_t>(row)] == rank)
      number(rows, row);

  struct Messages {
    std::vector<int32_t> sent, received;
  };
  std::map<int, Messages> messages;
  std::vector<Entry> entries;
  for (int32_t r = 0; r < size(); ++r) {
    matrix.row(rows[static_cast<size_t>(r)], entries);
    for (const auto& [column, value] : entries) {
      const int owner = owners[static_cast<size_t>(column)];
      Csr& part = owner == rank ? own : others;
      part.columns.push_back(column);
      part.values.push_back(value);
      if (owner == rank)
        continue;
      Messages& m = messages[owner];
      m.received.push_back(column);
      if (m.sent.empty() || m.sent.back() != r)
        m.sent.push_back(r);
    }
    own.end_row();
    if (others.nonzeros() < static_cast<int64_t>(others.columns.size())) {
      edge.push_back(r);
      others.end_row();
    }
  }
  for (auto& [peer, m] : messages) {
    std::sort(m.received.begin(), m.received.end());
    m.received.erase(std::unique(m.received.begin(), m.received.end()), m.received.end());
    neighbours.push_back({peer, static_cast<int64_t>(sent.size()), static_cast<int64_t>(m.sent.size()),
                          static_cast<int64_t>(ghosts.size()), static_cast<int64_t>(m.received.size())});
    sent.insert(sent.end(), m.sent.begin(), m.sent.end());
    for (const int32_t row : m.received)
      number(ghosts, row);
  }
  for (Csr* part : {&own, &others})
    for (int32_t& column : part->columns)
      column = place[static_cast<size_t>(column)];
}

}  // namespace lanyard::bench::cg
