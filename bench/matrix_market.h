// Reads symmetric matrices from Matrix Market files (Boisvert, Pozo, Remington, "The Matrix Market Exchange Formats",
// NISTIR 5935): coordinate; real, integer or pattern; general or symmetric. Their diagonal must be whole, as positive
// definite matrices' are. No MPI.
#ifndef LANYARD_BENCH_MATRIX_MARKET_H_
#define LANYARD_BENCH_MATRIX_MARKET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/sparse_matrix.h"

namespace lanyard::bench {

// Takes a file line by line. What is said of a mistake begins with "line N: ".
class MatrixMarketParser {
 public:
  // What is wrong with the next line; empty if nothing is. After a mistake no more lines are taken.
  std::string take(std::string_view line);
  // After the last line: the matrix; or nothing, and `why` says what is wrong with all of them. Entries of a pattern
  // are 1. Of a symmetric file both triangles are there.
  std::optional<CsrMatrix> finish(std::string& why);

 private:
  struct Triplet {
    int32_t row = 0, column = 0;
    double value = 0;
    int64_t line = 0;
  };

  std::string take_header(std::string_view line);
  std::string take_size(std::string_view line);
  std::string take_entry(std::string_view line);
  std::string mistake(const std::string& what) const;
  std::string not_symmetric() const;
  std::string no_diagonal() const;

  int64_t line_ = 0;
  bool has_header_ = false, has_size_ = false;
  bool is_pattern_ = false, is_integer_ = false, is_symmetric_ = false;
  int64_t rows_ = 0;
  int64_t entries_ = 0;  // that the file is to have
  std::vector<Triplet> triplets_;
};

// From a file, compressed by gzip or not. Nothing, and `why` says why: it cannot be read, or is wrong.
std::optional<CsrMatrix> read_matrix_market(const std::string& path, std::string& why);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_MATRIX_MARKET_H_
