#include "bench/matrix_market.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>

namespace lanyard::bench {
namespace {

constexpr int64_t kMostRows = INT32_MAX;

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r";
  std::vector<std::string_view> words;
  for (size_t at = line.find_first_not_of(kBlank); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kBlank, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlank, end);
  }
  return words;
}

std::string lower(std::string_view word) {
  std::string result(word);
  for (char& c : result)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// The whole word, with a plus or without.
template <class Number>
bool parse(std::string_view word, Number& number) {
  if (word.size() > 1 && word[0] == '+' && word[1] != '-')
    word.remove_prefix(1);
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size();
}

}  // namespace

std::string MatrixMarketParser::mistake(const std::string& what) const {
  return fmt::format("line {}: {}", line_, what);
}

std::string MatrixMarketParser::take(std::string_view line) {
  ++line_;
  if (line.find('\0') != std::string_view::npos)
    return mistake("has a NUL byte, expected text");
  if (!has_header_)
    return take_header(line);
  const size_t first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos || line[first] == '%')
    return "";
  return has_size_ ? take_entry(line) : take_size(line);
}

std::string MatrixMarketParser::take_header(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  if (words.size() != 5 || lower(words[0]) != "%%matrixmarket")
    return mistake(
        fmt::format("is \"{}\", expected %%MatrixMarket matrix coordinate FIELD SYMMETRY", line.substr(0, 80)));
  const auto is_one_of = [&](size_t i, std::initializer_list<const char*> expected) -> std::string {
    const std::string word = lower(words[i]);
    if (std::any_of(expected.begin(), expected.end(), [&](const char* one) { return word == one; }))
      return "";
    return mistake(fmt::format("the header has \"{}\", expected {}", words[i], fmt::join(expected, ", ")));
  };
  const std::array<std::string, 4> wrong = {is_one_of(1, {"matrix"}), is_one_of(2, {"coordinate"}),
                                            is_one_of(3, {"real", "integer", "pattern"}),
                                            is_one_of(4, {"general", "symmetric"})};
  for (const std::string& what : wrong)
    if (!what.empty())
      return what;
  is_integer_ = lower(words[3]) == "integer";
  is_pattern_ = lower(words[3]) == "pattern";
  is_symmetric_ = lower(words[4]) == "symmetric";
  has_header_ = true;
  return "";
}

std::string MatrixMarketParser::take_size(std::string_view line) {
  const std::vector<std::string_view> words = words_of(line);
  int64_t rows = 0, columns = 0, entries = 0;
  if (words.size() != 3 || !parse(words[0], rows) || !parse(words[1], columns) || !parse(words[2], entries))
    return mistake(fmt::format("is \"{}\", expected three whole numbers: rows, columns, entries", line.substr(0, 80)));
  if (rows != columns)
    return mistake(fmt::format("{} rows and {} columns, expected a square matrix", rows, columns));
  if (rows < 1 || rows > kMostRows)
    return mistake(fmt::format("{} rows, expected 1 to {}", rows, kMostRows));
  const int64_t most = is_symmetric_ ? rows * (rows + 1) / 2 : rows * rows;
  if (entries < rows || entries > most)
    return mistake(
        fmt::format("{} entries of {} rows, expected {} to {}, as a positive definite matrix has its whole "
                    "diagonal",
                    entries, rows, rows, most));
  rows_ = rows;
  entries_ = entries;
  has_size_ = true;
  return "";
}

std::string MatrixMarketParser::take_entry(std::string_view line) {
  if (static_cast<int64_t>(triplets_.size()) == entries_)
    return mistake(fmt::format("one entry more, expected the {} that the size line has", entries_));
  const std::vector<std::string_view> words = words_of(line);
  int64_t row = 0, column = 0;
  double value = 1;
  const size_t expected = is_pattern_ ? 2 : 3;
  if (words.size() != expected)
    return mistake(fmt::format("has {} words, expected {}", words.size(),
                               is_pattern_ ? "2: row and column" : "3: row, column, value"));
  const std::pair<const char*, int64_t*> indices[] = {{"row", &row}, {"column", &column}};
  for (size_t i = 0; i < 2; ++i)
    if (!parse(words[i], *indices[i].second) || *indices[i].second < 1 || *indices[i].second > rows_)
      return mistake(fmt::format("{} \"{}\", expected a whole number from 1 to {}", indices[i].first, words[i], rows_));
  if (is_symmetric_ && row < column)
    return mistake(
        fmt::format("entry ({}, {}) above the diagonal, expected row >= column in a symmetric file", row, column));
  int64_t whole = 0;
  if (is_integer_ && !parse(words[2], whole))
    return mistake(fmt::format("value \"{}\", expected a whole number", words[2]));
  if (!is_pattern_ && (!parse(words[2], value) || !std::isfinite(value)))
    return mistake(fmt::format("value \"{}\", expected a finite number", words[2]));
  triplets_.push_back({static_cast<int32_t>(row - 1), static_cast<int32_t>(column - 1), value, line_});
  return "";
}

// Of sorted triplets.
std::string MatrixMarketParser::not_symmetric() const {
  for (const Triplet& t : triplets_) {
    const auto key = std::pair(t.column, t.row);
    const auto mirror = std::lower_bound(
        triplets_.begin(), triplets_.end(), key,
        [](const Triplet& a, const std::pair<int32_t, int32_t>& b) { return std::pair(a.row, a.column) < b; });
    const bool is_there = mirror != triplets_.end() && std::pair(mirror->row, mirror->column) == key;
    if (!is_there)
      return fmt::format("line {}: entry ({}, {}) without an entry ({}, {}), expected a symmetric matrix", t.line,
                         t.row + 1, t.column + 1, t.column + 1, t.row + 1);
    if (mirror->value != t.value)
      return fmt::format("line {}: entry ({}, {}) is {}, but ({}, {}) is {}, expected a symmetric matrix",
                         std::max(t.line, mirror->line), t.row + 1, t.column + 1, t.value, t.column + 1, t.row + 1,
                         mirror->value);
  }
  return "";
}

// Of sorted triplets without duplicates.
std::string MatrixMarketParser::no_diagonal() const {
  int64_t row = 0;
  for (const Triplet& t : triplets_)
    if (t.row == t.column && t.row == row)
      ++row;
  return row == rows_ ? ""
                      : mistake(fmt::format("the file ends without entry ({}, {}) of row {}, expected the whole "
                                            "diagonal, as of a positive definite matrix",
                                            row + 1, row + 1, row + 1));
}

std::optional<CsrMatrix> MatrixMarketParser::finish(std::string& why) {
  ++line_;
  if (!has_header_)
    why = mistake("the file ends, expected %%MatrixMarket matrix coordinate FIELD SYMMETRY");
  else if (!has_size_)
    why = mistake("the file ends, expected three whole numbers: rows, columns, entries");
  else if (static_cast<int64_t>(triplets_.size()) < entries_)
    why = mistake(fmt::format("the file ends after {} entries, expected {}", triplets_.size(), entries_));
  else
    why.clear();
  if (!why.empty())
    return std::nullopt;
  if (is_symmetric_) {
    const size_t stored = triplets_.size();
    for (size_t i = 0; i < stored; ++i)
      if (const Triplet t = triplets_[i]; t.row != t.column)
        triplets_.push_back({t.column, t.row, t.value, t.line});
  }
  std::sort(triplets_.begin(), triplets_.end(), [](const Triplet& a, const Triplet& b) {
    return std::pair(std::pair(a.row, a.column), a.line) < std::pair(std::pair(b.row, b.column), b.line);
  });
  for (size_t i = 1; i < triplets_.size(); ++i) {
    const Triplet &a = triplets_[i - 1], &b = triplets_[i];
    if (a.row == b.row && a.column == b.column) {
      why = fmt::format("line {}: entry ({}, {}) stands in line {} already, expected it once", b.line, b.row + 1,
                        b.column + 1, a.line);
      break;
    }
  }
  if (why.empty() && !is_symmetric_)
    why = not_symmetric();
  if (why.empty())
    why = no_diagonal();
  if (!why.empty())
    return std::nullopt;
  std::vector<int64_t> starts(static_cast<size_t>(rows_) + 1, 0);
  std::vector<int32_t> columns;
  std::vector<double> values;
  columns.reserve(triplets_.size());
  values.reserve(triplets_.size());
  for (const Triplet& t : triplets_) {
    ++starts[static_cast<size_t>(t.row) + 1];
    columns.push_back(t.column);
    values.push_back(t.value);
  }
  for (size_t row = 0; row < static_cast<size_t>(rows_); ++row)
    starts[row + 1] += starts[row];
  return CsrMatrix(std::move(starts), std::move(columns), std::move(values));
}

std::optional<CsrMatrix> read_matrix_market(const std::string& path, std::string& why) {
  const auto close = [](gzFile file) { gzclose(file); };
  // It reads what is not compressed, too.
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzopen(path.c_str(), "rb"), close);
  if (file == nullptr) {
    why = fmt::format("{}: {}", path, std::strerror(errno));
    return std::nullopt;
  }
  constexpr std::string_view kEnds("\n\0", 2);
  MatrixMarketParser parser;
  std::string line;
  std::array<char, 65536> piece;
  for (int got = 0; (got = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()))) > 0;) {
    std::string_view rest(piece.data(), static_cast<size_t>(got));
    // A line with a NUL is refused at once, however long it would get.
    for (size_t end = 0; (end = rest.find_first_of(kEnds)) != std::string_view::npos;) {
      line += rest.substr(0, rest[end] == '\n' ? end : end + 1);
      rest.remove_prefix(end + 1);
      if (const std::string what = parser.take(line); !what.empty()) {
        why = path + ", " + what;
        return std::nullopt;
      }
      line.clear();
    }
    line += rest;
  }
  int error = Z_OK;
  const char* const text = gzerror(file.get(), &error);
  if (error != Z_OK && error != Z_STREAM_END) {
    why = fmt::format("{}: cannot be read to its end: {}", path, error == Z_ERRNO ? std::strerror(errno) : text);
    return std::nullopt;
  }
  why = line.empty() ? "" : parser.take(line);
  std::optional<CsrMatrix> matrix;
  if (why.empty())
    matrix = parser.finish(why);
  if (!matrix)
    why = path + ", " + why;
  return matrix;
}

}  // namespace lanyard::bench
