// bench/cg without MPI: matrices from files and generators, partitions, what a rank makes of them;
// and what is said of outcomes that are right, and of such as are not.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "bench/cg/matrix.h"
#include "bench/cg/verdict.h"

namespace lanyard::bench::cg {
namespace {

using Values = std::vector<double>;

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
std::string refusal(
    const std::string& path,
    const std::function<void(const std::string&)>& f = [](const std::string& file) { read_matrix(file); }) {
  try {
    f(path);
  } catch (const BadInput& bad) {
    const std::string text = bad.what();
    return text.substr(0, path.size()) == path ? text.substr(path.size()) : text;
  }
  return "nothing";
}

std::vector<Values> dense(const Matrix& matrix) {
  std::vector<Values> rows;
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

double dot(const Values& a, const Values& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }

Values product(const std::vector<Values>& rows, const Values& x) {
  Values y;
  for (const Values& row : rows)
    y.push_back(dot(row, x));
  return y;
}

constexpr char kSymmetric[] = "%%MatrixMarket matrix coordinate real symmetric\n";
constexpr char kGeneral[] = "%%MatrixMarket matrix coordinate real general\n";
constexpr char kLine[] = "3 3 5\n1 1 2\n2 1 -1\n2 2 2\n3 2 -1\n3 3 2\n";  // the lower half of a line of 3 points

TEST(MatrixMarket, ReadsAllThatIsAMatrix) {
  const auto expected = dense(poisson(1, 3));
  std::string lines = std::string(kSymmetric) + kLine, crlf;
  for (const char c : lines)
    crlf += c == '\n' ? "\r\n" : std::string(1, c);
  const std::string good[] = {
      lines,
      crlf,
      std::string(kGeneral) + "% any order\n3 3 7\n3 3 2\n2 3 -1\n3 2 -1\n1 1 2\n2 1 -1\n1 2 -1\n2 2 +2.0E0\n",
      lines.substr(0, lines.size() - 1),  // no last newline
      "%%MATRIXMARKET Matrix COORDINATE Real Symmetric\n%\n\n \t\n" + std::string(kLine) + "% the end\n\n",
      "%%MatrixMarket matrix coordinate integer symmetric\n" + std::string(kLine),
  };
  for (const std::string& text : good) {
    EXPECT_EQ(dense(from_csr(read_matrix(file_with(text)))), expected) << text;
    EXPECT_EQ(dense(from_csr(read_matrix(gzip_file_with(text)))), expected) << text;
  }
  const Csr pattern = read_matrix(file_with("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 2\n1 1\n2 2\n"));
  EXPECT_EQ(pattern.values, (Values{1, 1}));
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
      {real + "2 2 2\n" + std::string(70000, ' ') + "1 1 2\n2 2 2\n", ":3: is longer than 65535 bytes"},
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
  const std::string path = file_with("%%MatrixMarket matrix array real general\n3 1\n1\n-2.5\n3e2\n");
  EXPECT_EQ(read_vector(path, 3), (Values{1, -2.5, 300}));
  EXPECT_EQ(refusal(path, [](const std::string& file) { read_vector(file, 4); }),
            ":2: 3 rows and 1 columns, expected 4 and 1");
}

TEST(Partition, OfAFile) {
  EXPECT_EQ(read_partition(file_with("1\n0\n1\n"), 3, 2), (Owners{1, 0, 1}));
  const auto refused = [](const std::string& text) {
    return refusal(file_with(text), [](const std::string& file) { read_partition(file, 3, 2); });
  };
  EXPECT_EQ(refused("1\n0\n"), ":3: the file ends after 2 lines, expected one for each of 3 rows");
  EXPECT_EQ(refused("1\n0\n1\n0\n"), ":4: one line more than the 3 rows of the matrix");
  EXPECT_EQ(refused("1\n2\n1\n"), ":2: \"2\", expected a rank from 0 to 1");
  EXPECT_EQ(refused("1\n-1\n1\n"), ":2: \"-1\", expected a rank from 0 to 1");
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

// For several partitions, one with ranks that have no rows: each rank's product, with the ghosts
// that its neighbours send, is that of the whole matrix.
TEST(LocalMatrix, MultipliesAsTheWholeOne) {
  const Matrix matrix = poisson(2, 6);
  constexpr int kRanks = 4;
  Owners scattered, with_gaps;
  Values x;
  for (int row = 0; row < 36; ++row) {
    scattered.push_back(row * row % kRanks);
    with_gaps.push_back(row % 2 == 0 ? 1 : 3);
    x.push_back(row * row + 1);
  }
  const Values expected = product(dense(matrix), x);
  const auto at = [](const auto& list, int64_t i) { return list.at(static_cast<size_t>(i)); };
  for (const Owners& owners : {row_blocks(36, kRanks), metis_partition(matrix, kRanks), scattered, with_gaps})
    for (int rank = 0; rank < kRanks; ++rank) {
      const LocalMatrix local(matrix, owners, rank);
      Values own, ghosts(local.ghosts.size()), y(local.rows.size(), 0);
      for (const int32_t row : local.rows)
        own.push_back(at(x, row));
      for (const LocalMatrix::Neighbour& from : local.neighbours) {
        const LocalMatrix sender(matrix, owners, from.rank);
        const auto to = std::find_if(sender.neighbours.begin(), sender.neighbours.end(),
                                     [&](const LocalMatrix::Neighbour& n) { return n.rank == rank; });
        ASSERT_NE(to, sender.neighbours.end());
        ASSERT_EQ(to->sent, from.ghosts);
        for (int64_t i = 0; i < to->sent; ++i) {
          const int32_t row = at(sender.rows, at(sender.sent, to->first_sent + i));
          EXPECT_EQ(row, at(local.ghosts, from.first_ghost + i));
          ghosts[static_cast<size_t>(from.first_ghost + i)] = at(x, row);
        }
      }
      const auto add = [&](const Csr& csr, int64_t r, int64_t to, const Values& values) {
        for (int64_t i = at(csr.starts, r); i < at(csr.starts, r + 1); ++i)
          y.at(static_cast<size_t>(to)) += at(csr.values, i) * at(values, at(csr.columns, i));
      };
      ASSERT_EQ(local.own.rows(), local.size());
      ASSERT_EQ(local.others.rows(), static_cast<int64_t>(local.edge.size()));
      for (int64_t r = 0; r < local.own.rows(); ++r)
        add(local.own, r, r, own);
      for (int64_t r = 0; r < local.others.rows(); ++r)
        add(local.others, r, at(local.edge, r), ghosts);
      for (size_t r = 0; r < y.size(); ++r)
        EXPECT_EQ(y[r], at(expected, local.rows[r]));
    }
}

class VerdictTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 200;
  static constexpr double kTolerance = 1e-2;

  // The line, solved by plain CG.
  void SetUp() override {
    problem_ = {poisson(1, kRows), Values(kRows, 0), 1, kRows, "unit"};
    const auto centre = static_cast<size_t>(problem_.matrix.centre);
    problem_.b[centre - 1] = problem_.b[centre + 1] = -1;
    problem_.b[centre] = 2;
    outcome_.tolerance = kTolerance;
    const auto rows = dense(problem_.matrix);
    Values &x = outcome_.x = Values(kRows, 0), r = problem_.b, p = r;
    Values& squares = outcome_.squares = {dot(r, r)};
    while (squares.back() > kTolerance * kTolerance * squares.front()) {
      const Values t = product(rows, p);
      const double alpha = squares.back() / dot(p, t);
      for (size_t i = 0; i < kRows; ++i) {
        x[i] += alpha * p[i];
        r[i] -= alpha * t[i];
      }
      squares.push_back(dot(r, r));
      for (size_t i = 0; i < kRows; ++i)
        p[i] = r[i] + squares.back() / *(squares.end() - 2) * p[i];
    }
  }
  std::string wrong() const { return judge(problem_, outcome_).wrong; }
  testing::AssertionResult says(const std::string& words) const {
    const std::string what = wrong();
    return (what.find(words) != std::string::npos ? testing::AssertionSuccess() : testing::AssertionFailure()) << what;
  }

  Problem problem_;
  Outcome outcome_;
};

TEST_F(VerdictTest, FindsNothingWrongWithWhatIsRight) {
  const Verdict verdict = judge(problem_, outcome_);
  EXPECT_EQ(verdict.wrong, "");
  EXPECT_EQ(outcome_.squares.size() - 1, 9u);
  EXPECT_NEAR(verdict.residual, std::sqrt(3.0) / 2 / (10 * std::sqrt(9.5 * 10.5)), 1e-12);
  EXPECT_NEAR(verdict.true_residual, verdict.residual, 1e-12);
}

TEST_F(VerdictTest, JudgesTheTrueResidual) {
  outcome_.x[7] += 0.1;
  EXPECT_TRUE(says("converged by its recursion only"));
  EXPECT_TRUE(says("(b - A x)[7] is -0.2"));
  outcome_.x[7] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(says("converged by its recursion only"));
}

TEST_F(VerdictTest, ComparesResidualsWithTheClosedForm) {
  outcome_.squares[3] *= 1 + 1e-9;
  EXPECT_TRUE(says("the residual of iteration 3 is"));
  outcome_.is_pipelined = true;  // which may drift
  EXPECT_EQ(wrong(), "");
}

TEST_F(VerdictTest, CountsIterations) {
  outcome_.squares.push_back(outcome_.squares.back() / 2);
  EXPECT_TRUE(says("10 iterations, expected 9"));
  outcome_.squares.resize(9);
  EXPECT_TRUE(says("not converged: the residual is"));
  outcome_.is_broken = true;
  EXPECT_TRUE(says("p.A p is not positive after 8 iterations"));
}

TEST_F(VerdictTest, OfAFixedNumberOfIterations) {
  outcome_.tolerance = 0;
  EXPECT_EQ(wrong(), "");
  outcome_.x[7] += 1e-3;
  EXPECT_TRUE(says("its recursion has drifted"));
}

// The exact solution of the line with b = 1.
TEST_F(VerdictTest, OfOnes) {
  problem_.rhs = "ones";
  problem_.b = Values(kRows, 1);
  for (int64_t i = 1; i <= kRows; ++i)
    outcome_.x[static_cast<size_t>(i - 1)] = static_cast<double>(i * (kRows + 1 - i)) / 2;
  outcome_.tolerance = 1e-6;
  outcome_.squares = Values(kRows / 2 + 1, kRows);
  outcome_.squares.back() = 0;
  EXPECT_EQ(wrong(), "");
  EXPECT_EQ(judge(problem_, outcome_).true_residual, 0);
  outcome_.squares.push_back(0);
  EXPECT_TRUE(says("101 iterations, expected 100"));
  problem_.b = Values(kRows, 0);
  EXPECT_TRUE(says("b is 0"));
}

// Published, and by PETSc.
TEST(Verdict, KnowsCounts) {
  const auto known = [](int dimensions, int64_t n, const char* rhs, bool is_pipelined, double tolerance) {
    return known_iterations({poisson(dimensions, n), {}, dimensions, n, rhs}, is_pipelined, tolerance);
  };
  for (const auto& [tolerance, count] : {std::pair(1e-3, 29), {1e-4, 93}, {1e-5, 294}, {1e-6, 930}})
    for (const bool is_pipelined : {false, true})
      EXPECT_EQ(known(1, 2000, "unit", is_pipelined, tolerance), count);
  EXPECT_EQ(known(1, 1800, "unit", false, 1e-6), std::nullopt);
  EXPECT_EQ(known(1, 1999, "ones", false, 1e-6), 1000);
  EXPECT_EQ(known(1, 1999, "ones", false, 1e-3), std::nullopt);
  EXPECT_EQ(known(2, 512, "unit", true, 1e-6), 332);
  EXPECT_EQ(known(2, 512, "unit", true, 1e-5), std::nullopt);
  EXPECT_EQ(known(2, 512, "ones", true, 1e-6), std::nullopt);
}

// Their table has 1.5985e13 flop for the line of 2^30 points, and 930 iterations.
TEST(Work, IsCountedAsPublished) {
  constexpr int64_t m = int64_t{1} << 30, nonzeros = 3 * m - 2, k = 930;
  double flops = 0;
  for (const Work& work : work_of(false, m, nonzeros, k))
    flops += work.flops;
  EXPECT_NEAR(flops, 1.5985e13, 0.0001e13);
  const std::vector<Work> pipelined = work_of(true, m, nonzeros, k);
  EXPECT_EQ(pipelined[0].calls, k + 2);
  EXPECT_EQ(pipelined[1].calls, k);
  EXPECT_EQ(pipelined[2].calls, k + 1);
  EXPECT_EQ(pipelined[3].calls, 6 * k);
  EXPECT_EQ(pipelined[0].bytes, 20.0 * (nonzeros + m) * (k + 2));
}

}  // namespace
}  // namespace lanyard::bench::cg
