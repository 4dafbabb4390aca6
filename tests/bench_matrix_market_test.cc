// The reader of Matrix Market files: what it takes, and what it says of every mistake.
#include "bench/matrix_market.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace lanyard::bench {
namespace {

constexpr const char* kHeader = "%%MatrixMarket matrix coordinate real symmetric\n";
constexpr const char* kGeneral = "%%MatrixMarket matrix coordinate real general\n";

std::optional<CsrMatrix> parse(const std::string& text, std::string& why) {
  MatrixMarketParser parser;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (why = parser.take(line); !why.empty())
      return std::nullopt;
  return parser.finish(why);
}

// Rows one after the other, zeros left out: "0:2 1:-1 | 0:-1 1:2".
std::string text_of(const SparseMatrix& matrix) {
  std::ostringstream out;
  std::vector<MatrixEntry> entries;
  for (int64_t row = 0; row < matrix.rows(); ++row) {
    matrix.row(row, entries);
    out << (row > 0 ? "| " : "");
    for (const MatrixEntry& entry : entries)
      out << entry.column << ":" << entry.value << " ";
  }
  return out.str();
}

std::string matrix_of(const std::string& text) {
  std::string why;
  const std::optional<CsrMatrix> matrix = parse(text, why);
  return matrix ? text_of(*matrix) : "mistake: " + why;
}

std::string mistake_of(const std::string& text) {
  std::string why;
  return parse(text, why) ? "" : why;
}

TEST(MatrixMarket, ASymmetricFileHasOneTriangle) {
  EXPECT_EQ(matrix_of(std::string(kHeader) + "% a comment\n\n3 3 4\n1 1 2\n2 1 -1e0\n2 2 +2.5\n3 3 4\n"),
            "0:2 1:-1 | 0:-1 1:2.5 | 2:4 ");
}

TEST(MatrixMarket, AGeneralFileHasBothInAnyOrder) {
  EXPECT_EQ(matrix_of(std::string(kGeneral) + "2 2 4\n2 2 2\n1 2 -1\r\n1 1 2\n  2\t1 -1  \n"), "0:2 1:-1 | 0:-1 1:2 ");
}

TEST(MatrixMarket, APatternIsOfOnesAndIntegersAreNumbers) {
  EXPECT_EQ(matrix_of("%%MatrixMarket MATRIX Coordinate Pattern Symmetric\n2 2 3\n1 1\n2 1\n2 2\n"),
            "0:1 1:1 | 0:1 1:1 ");
  EXPECT_EQ(matrix_of("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 -7\n"), "0:-7 ");
}

TEST(MatrixMarket, EveryMistakeIsNamedWithItsLine) {
  const std::string header = kHeader, general = kGeneral;
  const std::string integer = "%%MatrixMarket matrix coordinate integer general\n";
  const std::string whole = ", as a positive definite matrix has its whole diagonal";
  const struct {
    std::string text, expected;
  } kMistakes[] = {
      {"", "line 1: the file ends, expected %%MatrixMarket matrix coordinate FIELD SYMMETRY"},
      {"3 3 4\n", "line 1: is \"3 3 4\", expected %%MatrixMarket matrix coordinate FIELD SYMMETRY"},
      {"%%MatrixMarket vector coordinate real general\n", "line 1: the header has \"vector\", expected matrix"},
      {"%%MatrixMarket matrix array real general\n", "line 1: the header has \"array\", expected coordinate"},
      {"%%MatrixMarket matrix coordinate complex general\n",
       "line 1: the header has \"complex\", expected real, integer, pattern"},
      {"%%MatrixMarket matrix coordinate real hermitian\n",
       "line 1: the header has \"hermitian\", expected general, symmetric"},
      {header, "line 2: the file ends, expected three whole numbers: rows, columns, entries"},
      {header + "3 3\n", "line 2: is \"3 3\", expected three whole numbers: rows, columns, entries"},
      {header + "3 3 4.5\n", "line 2: is \"3 3 4.5\", expected three whole numbers: rows, columns, entries"},
      {header + "3 4 2\n", "line 2: 3 rows and 4 columns, expected a square matrix"},
      {header + "0 0 0\n", "line 2: 0 rows, expected 1 to 2147483647"},
      {header + "3 3 7\n", "line 2: 7 entries of 3 rows, expected 3 to 6" + whole},
      {header + "2 2 -1\n", "line 2: -1 entries of 2 rows, expected 2 to 3" + whole},
      {header + "2147483647 2147483647 1\n",
       "line 2: 1 entries of 2147483647 rows, expected 2147483647 to 2305843008139952128" + whole},
      {general + "2 2 1\n", "line 2: 1 entries of 2 rows, expected 2 to 4" + whole},
      {header + "2 2 2\n1 1 2\n", "line 4: the file ends after 1 entries, expected 2"},
      {header + "1 1 1\n1 1 2\n\n1 1 2\n", "line 5: one entry more, expected the 1 that the size line has"},
      {header + "2 2 2\n1 1\n", "line 3: has 2 words, expected 3: row, column, value"},
      {"%%MatrixMarket matrix coordinate pattern general\n2 2 2\n1 1 1\n",
       "line 3: has 3 words, expected 2: row and column"},
      {header + "2 2 2\n0 1 1\n", "line 3: row \"0\", expected a whole number from 1 to 2"},
      {header + "2 2 2\n3 1 1\n", "line 3: row \"3\", expected a whole number from 1 to 2"},
      {header + "2 2 2\n1 1.5 1\n", "line 3: column \"1.5\", expected a whole number from 1 to 2"},
      {header + "2 2 2\n1 2 1\n",
       "line 3: entry (1, 2) above the diagonal, expected row >= column in a symmetric file"},
      {header + "2 2 2\n1 1 nan\n", "line 3: value \"nan\", expected a finite number"},
      {header + "2 2 2\n1 1 -inf\n", "line 3: value \"-inf\", expected a finite number"},
      {header + "2 2 2\n1 1 1e999\n", "line 3: value \"1e999\", expected a finite number"},
      {header + "2 2 2\n1 1 two\n", "line 3: value \"two\", expected a finite number"},
      {integer + "2 2 2\n1 1 1.5\n", "line 3: value \"1.5\", expected a whole number"},
      {header + "2 2 2\n1 1 2\n1 1 2\n", "line 4: entry (1, 1) stands in line 3 already, expected it once"},
      {header + "3 3 4\n3 3 2\n3 3 2\n1 1 2\n1 1 2\n",
       "line 6: entry (1, 1) stands in line 5 already, expected it once"},
      {header + "3 3 3\n1 1 2\n2 1 -1\n3 3 2\n",
       "line 6: the file ends without entry (2, 2) of row 2, expected the whole diagonal, as of a positive definite "
       "matrix"},
      {general + "2 2 2\n1 2 1\n2 1 1\n",
       "line 5: the file ends without entry (1, 1) of row 1, expected the whole diagonal, as of a positive definite "
       "matrix"},
      {header + "2 2 2\n1 1 2\n2 2 2" + std::string(1, '\0') + "\n", "line 4: has a NUL byte, expected text"},
      {general + "2 2 3\n1 1 2\n2 1 -1\n2 2 2\n",
       "line 4: entry (2, 1) without an entry (1, 2), expected a symmetric matrix"},
      {general + "2 2 4\n1 1 2\n2 1 -1\n2 2 2\n1 2 -1.5\n",
       "line 6: entry (1, 2) is -1.5, but (2, 1) is -1, expected a symmetric matrix"},
  };
  for (const auto& mistake : kMistakes)
    EXPECT_EQ(mistake_of(mistake.text), mistake.expected) << mistake.text;
}

std::string path_of(const std::string& name) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  return std::string(folder != nullptr ? folder : ".") + "/" + name;
}

std::string long_text() {
  constexpr int kRows = 2000;
  std::string text = kHeader + std::string("%") + std::string(9000, 'x') + "\n";  // longer than a piece that is read
  text += std::to_string(kRows) + " " + std::to_string(kRows) + " " + std::to_string(kRows) + "\n";
  for (int row = 1; row <= kRows; ++row)
    text += std::to_string(row) + " " + std::to_string(row) + " " + std::to_string(row % 97 + 1) + "\n";
  return text.substr(0, text.size() - 1);  // a last line without an end
}

void write_compressed(const std::string& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

TEST(MatrixMarket, FilesAreReadCompressedOrNot) {
  const std::string text = long_text(), plain = path_of("plain.mtx"), compressed = path_of("compressed.mtx.gz");
  std::ofstream(plain) << text;
  write_compressed(compressed, text);
  std::string why;
  const auto a = read_matrix_market(plain, why), b = read_matrix_market(compressed, why);
  ASSERT_TRUE(a) << why;
  ASSERT_TRUE(b) << why;
  EXPECT_EQ(a->rows(), 2000);
  EXPECT_EQ(a->values()[1999], 2000 % 97 + 1);
  EXPECT_EQ(text_of(*a), text_of(*b));
}

TEST(MatrixMarket, FilesThatCannotBeReadAreNamed) {
  std::string why;
  EXPECT_FALSE(read_matrix_market(path_of("none.mtx"), why));
  EXPECT_EQ(why, path_of("none.mtx") + ": No such file or directory");
  const std::string cut = path_of("cut.mtx.gz"), whole = path_of("whole.mtx.gz"), wrong = path_of("wrong.mtx");
  write_compressed(whole, long_text());
  std::ifstream in(whole, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::ofstream(cut, std::ios::binary) << bytes.substr(0, bytes.size() / 2);
  EXPECT_FALSE(read_matrix_market(cut, why));
  EXPECT_NE(why.find(cut + ": cannot be read to its end: "), std::string::npos) << why;
  std::ofstream(wrong) << kHeader << "1 1 1\n1 1 inf\n";
  EXPECT_FALSE(read_matrix_market(wrong, why));
  EXPECT_EQ(why, wrong + ", line 3: value \"inf\", expected a finite number");
  std::ofstream(wrong) << kHeader << "1 1 1\n1 1 2" << '\0' << "\n";
  EXPECT_FALSE(read_matrix_market(wrong, why));
  EXPECT_EQ(why, wrong + ", line 3: has a NUL byte, expected text");
  // A line without an end is not read to it.
  EXPECT_FALSE(read_matrix_market("/dev/zero", why));
  EXPECT_EQ(why, "/dev/zero, line 1: has a NUL byte, expected text");
}

}  // namespace
}  // namespace lanyard::bench
