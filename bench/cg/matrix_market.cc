#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <tuple>

#include "bench/cg/matrix.h"
#include "bench/cg/text_file.h"

namespace lanyard::bench::cg {
namespace {

struct Triplet {
  int32_t row, column;
  double value;
  int64_t line;  // of the file

  auto place() const { return std::tuple(row, column); }
};

class MatrixMarketFile {
 public:
  MatrixMarketFile(const std::string& path, const char* format, std::initializer_list<const char*> fields,
                   std::initializer_list<const char*> symmetries)
      : file_(path) {
    // The banner is a comment to the file's other lines.
    if (!file_.next('\0') || file_.line() != 1 || file_.words().size() != 5 || word(0) != "%%matrixmarket")
      file_.fail("expected %%MatrixMarket matrix " + std::string(format) + " FIELD SYMMETRY");
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
    refuse_more_than_fits(entries, is_pattern() ? 4 : 6);
    std::vector<Triplet> triplets;
    while (next_of(entries, static_cast<int64_t>(triplets.size())))
      triplets.push_back(triplet());
    sort(triplets);
    check_symmetry(triplets);
    if (is_symmetric_) {
      for (size_t i = 0, stored = triplets.size(); i < stored; ++i)
        if (const Triplet t = triplets[i]; t.row != t.column)
          triplets.push_back({t.column, t.row, t.value, t.line});
      sort(triplets);
    }
    Csr csr;
    for (const Triplet& t : triplets) {
      csr.starts.resize(static_cast<size_t>(t.row) + 1, static_cast<int64_t>(csr.columns.size()));
      csr.columns.push_back(t.column);
      csr.values.push_back(t.value);
    }
    csr.starts.resize(static_cast<size_t>(rows_) + 1, static_cast<int64_t>(csr.columns.size()));
    return csr;
  }

  std::vector<double> vector(int64_t rows) {
    const std::vector<int64_t> size = whole_numbers({"rows", "columns"});
    if (size[0] != rows || size[1] != 1)
      file_.fail(fmt::format("{} rows and {} columns, expected {} and 1", size[0], size[1], rows));
    std::vector<double> values;
    while (next_of(rows, static_cast<int64_t>(values.size()))) {
      expect_words(1, "a number");
      values.push_back(value(0));
    }
    return values;
  }

 private:
  bool is_pattern() const { return field_ == "pattern"; }

  std::string word(size_t i) const {
    std::string result(file_.words()[i]);
    std::transform(result.begin(), result.end(), result.begin(), [](unsigned char c) { return std::tolower(c); });
    return result;
  }
  std::string banner_word(size_t i, std::initializer_list<const char*> expected) const {
    const std::string found = word(i);
    if (std::find(expected.begin(), expected.end(), found) == expected.end())
      file_.fail(fmt::format("\"{}\" in the banner, expected {}", file_.words()[i], fmt::join(expected, " or ")));
    return found;
  }

  void expect_words(size_t count, const char* expected) const {
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
  std::vector<int64_t> whole_numbers(const std::vector<const char*>& names) {
    const std::string expected = fmt::format("{} whole numbers: {}", names.size(), fmt::join(names, ", "));
    if (!file_.next('%'))
      file_.fail("the file ends, expected " + expected);
    expect_words(names.size(), expected.c_str());
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < names.size(); ++i)
      numbers.push_back(whole_number(i, names[i]));
    return numbers;
  }
  void refuse_more_than_fits(int64_t entries, int64_t least_bytes) const {
    // The last line may lack its end.
    if (const int64_t most = file_.most_bytes() / least_bytes + 1; entries > most)
      file_.fail(fmt::format("{} entries, but the file has room for at most {}", entries, most));
  }
  // Goes to the next entry. False at the end of the file, which must have `expected` of them.
  bool next_of(int64_t expected, int64_t have) {
    const bool is_there = file_.next('%');
    if (is_there && have == expected)
      file_.fail(fmt::format("one entry more than the {} of the size line", expected));
    if (!is_there && have < expected)
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
    const Triplet t{index(0, "row"), index(1, "column"), is_pattern() ? 1 : value(2), file_.line()};
    if (is_symmetric_ && t.row < t.column)
      file_.fail(fmt::format("{} is above the diagonal, expected the lower half of a symmetric matrix", name(t)));
    return t;
  }

  static std::string name(const Triplet& t) { return fmt::format("entry ({}, {})", t.row + 1, t.column + 1); }
  static void sort(std::vector<Triplet>& triplets) {
    std::sort(triplets.begin(), triplets.end(), [](const Triplet& a, const Triplet& b) {
      return std::tuple_cat(a.place(), std::tuple(a.line)) < std::tuple_cat(b.place(), std::tuple(b.line));
    });
  }
  // Of sorted triplets.
  void check_symmetry(const std::vector<Triplet>& triplets) const {
    for (size_t i = 0; i < triplets.size(); ++i) {
      const Triplet& t = triplets[i];
      if (i > 0 && triplets[i - 1].place() == t.place())
        file_.fail_at(t.line, fmt::format("{} is in line {} already", name(t), triplets[i - 1].line));
      if (is_symmetric_)
        continue;
      const Triplet wanted{t.column, t.row, t.value, 0};
      const auto mirror = std::lower_bound(triplets.begin(), triplets.end(), wanted,
                                           [](const Triplet& a, const Triplet& b) { return a.place() < b.place(); });
      if (mirror == triplets.end() || mirror->place() != wanted.place())
        file_.fail_at(t.line, fmt::format("{} without {}, expected a symmetric matrix", name(t), name(wanted)));
      if (mirror->value != t.value)
        file_.fail_at(std::max(t.line, mirror->line), fmt::format("{} is {}, but {} is {}, expected a symmetric matrix",
                                                                  name(t), t.value, name(wanted), mirror->value));
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

}  // namespace lanyard::bench::cg
