// Matrices from files and generators, partitions, and what a rank makes of them.
#include "bench/cg/matrix.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>
#include <vector>

#include "bench/cg/local_matrix.h"
#include "bench/cg/partition.h"
#include "bench/cg/text_file.h"

namespace lanyard::bench::cg {
namespace {

std::string file_with(const std::string& text) {
  const std::string path = testing::TempDir() + "/input";
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string gzip_file_with(const std::string& text) {
  const std::string path = testing::TempDir() + "/input.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path;
}

// What f throws, without the path; "nothing" if it returns.
template <class F>
std::string reason(const std::string& path, F&& f) {
  try {
    f(path);
  } catch (const BadInput& bad) {
    const std::string text = bad.what();
    return text.substr(0, path.size()) == path ? text.substr(path.size()) : text;
  }
  return "nothing";
}
std::string refusal(const std::string& path) {
  return reason(path, [](const std::string& file) { read_matrix(file); });
}

std::vector<std::vector<double>> dense(const Matrix& matrix) {
  std::vector<std::vector<double>> rows;
  std::vector<Entry> entries;
  for (int64_t row = 0; row < matrix.rows; ++row) {
    rows.emplace_back(static_cast<size_t>(matrix.rows), 0);
    matrix.row(row, entries);
    for (size_t i = 0; i < entries.size(); ++i) {
      rows.back()[static_cast<size_t>(entries[i].column)] = entries[i].value;
      EXPECT_TRUE(i == 0 || entries[i - 1].column < entries[i].column) << "row " << row;
    }
  }
  return rows;
}

constexpr char kSymmetric[] = "%%MatrixMarket matrix coordinate real symmetric\n";
constexpr char kGeneral[] = "%%MatrixMarket matrix coordinate real general\n";
constexpr char kLine[] = "3 3 5\n1 1 2\n2 1 -1\n2 2 2\n3 2 -1\n3 3 2\n";  // the lower half of a line of 3 points

TEST(MatrixMarket, ReadsAllThatIsAMatrix) {
  const auto expected = dense(poisson(1, 3));
  const std::string general =
      std::string(kGeneral) + "% any order\n3 3 7\n3 3 2\n2 3 -1\n3 2 -1\n1 1 2\n2 1 -1\n1 2 -1\n2 2 +2.0E0\n";
  std::string lines = std::string(kSymmetric) + kLine, crlf;
  for (const char c : lines)
    crlf += c == '\n' ? "\r\n" : std::string(1, c);
  const std::string good[] = {
      lines,
      crlf,
      general,
      lines.substr(0, lines.size() - 1),  // no last newline
      "%%MATRIXMARKET Matrix COORDINATE Real Symmetric\n%\n\n \t\n" + std::string(kLine) + "% the end\n\n",
      "%%MatrixMarket matrix coordinate integer symmetric\n" + std::string(kLine),
  };
  for (const std::string& text : good) {
    EXPECT_EQ(dense(from_csr(read_matrix(file_with(text)))), expected) << text;
    EXPECT_EQ(dense(from_csr(read_matrix(gzip_file_with(text)))), expected) << text;
  }
  const Csr pattern = read_matrix(file_with("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n1 1\n2 2\n"));
  EXPECT_EQ(pattern.values, (std::vector<double>{1, 1}));
}

TEST(MatrixMarket, RefusesAllElse) {
  const std::string real = kSymmetric, general = kGeneral;
  const struct {
    std::string text, reason;
  } bad[] = {
      {"", ":1: expected %%MatrixMarket matrix coordinate"},
      {"hello\n", ":1: expected %%MatrixMarket"},
      {"\n" + real + kLine, ":2: expected %%MatrixMarket"},
      {"%%MatrixMarket matrix array real general\n", ":1: \"array\" in the banner, expected coordinate"},
      {"%%MatrixMarket matrix coordinate complex general\n", ":1: \"complex\" in the banner, expected real or integer"},
      {"%%MatrixMarket matrix coordinate real hermitian\n", ":1: \"hermitian\" in the banner, expected general or"},
      {real, ":2: the file ends, expected 3 whole numbers: rows, columns, entries"},
      {real + "3 3\n", ":2: 2 words, expected 3 whole numbers"},
      {real + "3 3 x\n", ":2: entries \"x\", expected a whole number"},
      {real + "2 3 2\n", ":2: 2 rows and 3 columns, expected a square matrix"},
      {real + "0 0 0\n", ":2: 0 rows, expected 1 to 2147483647"},
      {real + "-3 -3 5\n", ":2: -3 rows, expected 1 to"},
      {real + "3000000000 3000000000 3000000000\n", ":2: 3000000000 rows, expected 1 to"},
      {real + "3 3 2\n", ":2: 2 entries of 3 rows, expected the whole diagonal"},
      {real + "2000000000 2000000000 2000000000\n1 1 2\n", ":2: 2000000000 entries, but the file has room for at most"},
      {real + "3 3 9223372036854775807\n", ":2: 9223372036854775807 entries, but"},
      {real + "2 2 3\n1 1 2\n2 2 2\n", ":5: the file ends after 2 entries, expected 3"},
      {real + "1 1 1\n1 1 2\n1 1 2\n", ":4: one entry more than the 1 of the size line"},
      {real + "2 2 2\n0 1 2\n", ":3: row 0, expected 1 to 2"},
      {real + "2 2 2\n1 3 2\n", ":3: column 3, expected 1 to 2"},
      {real + "2 2 2\n1.5 1 2\n", ":3: row \"1.5\", expected a whole number"},
      {real + "2 2 2\n1 1 nan\n", ":3: value \"nan\", expected a finite number"},
      {real + "2 2 2\n1 1 -inf\n", ":3: value \"-inf\", expected a finite number"},
      {real + "2 2 2\n1 1 1e999\n", ":3: value \"1e999\", expected a finite number"},
      {real + "2 2 2\n1 1 two\n", ":3: value \"two\", expected a finite number"},
      {real + "2 2 2\n1 1\n2 2 1\n", ":3: 2 words, expected row, column and value"},
      {real + "2 2 2\n1 1 2" + std::string(1, '\0') + "\n2 2 2\n", ":3: has a NUL byte, expected text"},
      {real + "2 2 2\n" + std::string(5000, ' ') + "1 1 2\n2 2 2\n", ":3: is longer than 4095 bytes"},
      {real + "2 2 3\n1 1 2\n2 1 1\n1 2 1\n", ":5: entry (1, 2) is above the diagonal"},
      {real + "2 2 3\n1 1 2\n2 1 1\n2 1 1\n", ":5: entry (2, 1) is in line 4 already"},
      {general + "2 2 3\n1 1 2\n2 1 1\n2 2 2\n", ":4: entry (2, 1) without entry (1, 2), expected a symmetric"},
      {general + "2 2 4\n1 1 2\n2 1 1\n2 2 2\n1 2 3\n", ":6: entry (1, 2) is 3, but entry (2, 1) is 1, expected"},
      {"%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 2.5\n",
       ":3: value \"2.5\", expected a whole number"},
  };
  for (const auto& [text, reason] : bad)
    EXPECT_EQ(refusal(file_with(text)).substr(0, reason.size()), reason) << text;
  EXPECT_EQ(refusal(testing::TempDir() + "/none"), ": No such file or directory");
  EXPECT_EQ(refusal(testing::TempDir()), ":1: cannot be read: Is a directory");
}

TEST(MatrixMarket, RefusesGzipThatIsCut) {
  std::string text = std::string(kSymmetric) + "1000 1000 1000\n";
  for (int i = 1; i <= 1000; ++i)
    text += std::to_string(i) + " " + std::to_string(i) + " 2\n";
  const std::string path = gzip_file_with(text);
  std::ifstream in(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  ASSERT_EQ(refusal(path), "nothing");
  for (const size_t length : {whole.size() - 1, whole.size() / 2, size_t{20}})
    EXPECT_NE(refusal(file_with(whole.substr(0, length))), "nothing") << length;
  EXPECT_NE(refusal(file_with(whole.substr(0, whole.size() - 1))).find("cannot be read: "), std::string::npos);
}

TEST(MatrixMarket, ReadsAVectorOfTheRightLength) {
  const std::string text = "%%MatrixMarket matrix array real general\n3 1\n1\n-2.5\n3e2\n";
  EXPECT_EQ(read_vector(file_with(text), 3), (std::vector<double>{1, -2.5, 300}));
  const auto refused = [](const std::string& path) {
    return reason(path, [](const std::string& file) { read_vector(file, 4); });
  };
  EXPECT_EQ(refused(file_with(text)), ":2: 3 rows and 1 columns, expected 4 and 1");
}

TEST(Partition, OfAFile) {
  EXPECT_EQ(read_partition(file_with("1\n0\n1\n"), 3, 2), (Owners{1, 0, 1}));
  const auto refused = [](const std::string& path) {
    return reason(path, [](const std::string& file) { read_partition(file, 3, 2); });
  };
  EXPECT_EQ(refused(file_with("1\n0\n")), ":3: the file ends after 2 lines, expected one for each of 3 rows");
  EXPECT_EQ(refused(file_with("1\n0\n1\n0\n")), ":4: one line more than the 3 rows of the matrix");
  EXPECT_EQ(refused(file_with("1\n2\n1\n")), ":2: \"2\", expected a rank from 0 to 1");
  EXPECT_EQ(refused(file_with("1\n-1\n1\n")), ":2: \"-1\", expected a rank from 0 to 1");
}

TEST(Partition, RowBlocksDifferByOneRow) {
  EXPECT_EQ(row_blocks(7, 3), (Owners{0, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(row_blocks(2, 4), (Owners{0, 1}));
}

TEST(Partition, MetisTakesWhateverMatrix) {
  for (const int ranks : {1, 2, 3, 8})
    for (const Matrix& matrix :
         {poisson(1, 1), poisson(1, 5), poisson(2, 20), from_csr({{0, 1, 2, 3}, {0, 1, 2}, {1, 1, 1}})}) {
      const Owners owners = metis_partition(matrix, ranks);
      ASSERT_EQ(static_cast<int64_t>(owners.size()), matrix.rows);
      for (const int owner : owners)
        EXPECT_TRUE(owner >= 0 && owner < ranks);
    }
  // A square cut in two.
  const Owners halves = metis_partition(poisson(2, 20), 2);
  EXPECT_NEAR(std::count(halves.begin(), halves.end(), 0), 200, 10);
}

TEST(Poisson, IsTheLaplacian) {
  for (int dimensions = 1; dimensions <= 3; ++dimensions) {
    const Matrix matrix = poisson(dimensions, 4);
    const auto rows = dense(matrix);
    int64_t nonzeros = 0;
    for (size_t a = 0; a < rows.size(); ++a)
      for (size_t b = 0; b < rows.size(); ++b) {
        // Neighbours differ by one in one of the base-4 digits of their numbers.
        int distance = 0;
        for (size_t s = 1; s < rows.size(); s *= 4)
          distance += std::abs(static_cast<int>(a / s % 4) - static_cast<int>(b / s % 4));
        EXPECT_EQ(rows[a][b], distance == 0 ? 2 * dimensions : distance == 1 ? -1 : 0) << a << " " << b;
        nonzeros += rows[a][b] != 0 ? 1 : 0;
      }
    EXPECT_EQ(matrix.nonzeros, nonzeros);
    EXPECT_EQ(matrix.centre, (1 << 2 * dimensions) / 3 * 2);  // 2 + 2 * 4 + 2 * 16
  }
}

// For several partitions, one with ranks that have no rows: the ranks' products with their ghosts
// equal the product with the whole matrix, and each rank receives the rows that it asks for.
TEST(LocalMatrix, MultipliesAsTheWholeOne) {
  const Matrix matrix = poisson(2, 6);
  const auto rows = dense(matrix);
  constexpr int kRanks = 4;
  Owners scattered, with_gaps;
  for (int row = 0; row < 36; ++row) {
    scattered.push_back(row * row % kRanks);
    with_gaps.push_back(row % 2 == 0 ? 1 : 3);
  }
  for (const Owners& owners : {row_blocks(36, kRanks), metis_partition(matrix, kRanks), scattered, with_gaps}) {
    std::vector<LocalMatrix> locals;
    for (int rank = 0; rank < kRanks; ++rank)
      locals.push_back(local_matrix(matrix, owners, rank));
    const auto value = [](int64_t row) { return static_cast<double>(row * row + 1); };
    for (const LocalMatrix& local : locals) {
      std::vector<double> y(local.rows.size(), 0);
      const auto add = [&](const Csr& csr, int64_t r, int32_t to, const std::vector<int32_t>& columns) {
        for (auto i = csr.starts[static_cast<size_t>(r)]; i < csr.starts[static_cast<size_t>(r) + 1]; ++i)
          y[static_cast<size_t>(to)] += csr.values[static_cast<size_t>(i)] *
                                        value(columns[static_cast<size_t>(csr.columns[static_cast<size_t>(i)])]);
      };
      ASSERT_EQ(local.own.rows(), local.size());
      ASSERT_EQ(local.others.rows(), static_cast<int64_t>(local.edge.size()));
      for (int64_t r = 0; r < local.own.rows(); ++r)
        add(local.own, r, static_cast<int32_t>(r), local.rows);
      for (int64_t r = 0; r < local.others.rows(); ++r)
        add(local.others, r, local.edge[static_cast<size_t>(r)], local.ghosts);
      for (size_t r = 0; r < local.rows.size(); ++r) {
        double expected = 0;
        for (int64_t column = 0; column < 36; ++column)
          expected += rows[static_cast<size_t>(local.rows[r])][static_cast<size_t>(column)] * value(column);
        EXPECT_EQ(y[r], expected);
      }
    }
    for (int a = 0; a < kRanks; ++a)
      for (const LocalMatrix::Neighbour& to : locals[static_cast<size_t>(a)].neighbours) {
        const LocalMatrix &sender = locals[static_cast<size_t>(a)], &receiver = locals[static_cast<size_t>(to.rank)];
        const auto from = std::find_if(receiver.neighbours.begin(), receiver.neighbours.end(),
                                       [&](const LocalMatrix::Neighbour& n) { return n.rank == a; });
        ASSERT_NE(from, receiver.neighbours.end());
        ASSERT_EQ(to.sent, from->ghosts);
        for (int64_t i = 0; i < to.sent; ++i)
          EXPECT_EQ(sender.rows[static_cast<size_t>(sender.sent[static_cast<size_t>(to.first_sent + i)])],
                    receiver.ghosts[static_cast<size_t>(from->first_ghost + i)]);
      }
  }
}

}  // namespace
}  // namespace lanyard::bench::cg
