// Fuzzes bench/cg's readers of matrices, vectors and partitions, plain and compressed. A file is
// either refused or gives data that a solver can rely on.
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bench/cg/matrix.h"

namespace lanyard::bench::cg {
namespace {

constexpr int64_t kRows = 3;
constexpr int kRanks = 2;

void require(bool condition) {
  if (!condition)
    std::abort();
}

void check_matrix(const Csr& csr) {
  std::map<std::pair<int64_t, int64_t>, double> entries;
  for (int64_t row = 0; row < csr.rows(); ++row) {
    int64_t last = -1;
    for (auto i = csr.starts[static_cast<size_t>(row)]; i < csr.starts[static_cast<size_t>(row) + 1]; ++i) {
      const int64_t column = csr.columns.at(static_cast<size_t>(i));
      require(column > last && column < csr.rows());
      last = column;
      entries[{row, column}] = csr.values.at(static_cast<size_t>(i));
    }
  }
  require(static_cast<int64_t>(csr.columns.size()) == csr.nonzeros());
  for (const auto& [place, value] : entries)
    require(std::isfinite(value) && entries.at({place.second, place.first}) == value);
}

template <class F>
void unless_refused(F&& f) {
  try {
    f();
  } catch (const BadInput&) {
  }
}

void write_seeds(const std::string& folder) {
  const std::string size = "3 3 4\n", entries = "1 1 2\n2 1 -1\n2 2 2\n3 3 2\n";
  int number = 0;
  for (const std::string& seed :
       {"%%MatrixMarket matrix coordinate real symmetric\n" + size + entries,
        "%%MatrixMarket matrix coordinate integer general\n% c\n3 3 5\n1 2 -1\n" + entries,
        std::string("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 3\n1 1\n2 2\n3 3\n"),
        std::string("%%MatrixMarket matrix array real general\n3 1\n1\n2e-3\n+3\n"), std::string("0\n1\n0\n")})
    std::ofstream(folder + "/" + std::to_string(number++), std::ios::binary) << seed;
}

}  // namespace
}  // namespace lanyard::bench::cg

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  if (const char* folder = std::getenv("LANYARD_FUZZ_SEEDS")) {
    lanyard::bench::cg::write_seeds(folder);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lanyard::bench::cg;
  static const int file = memfd_create("input", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  unless_refused([] { check_matrix(read_matrix(path)); });
  unless_refused([] { require(read_vector(path, kRows).size() == kRows); });
  unless_refused([] {
    for (const int owner : read_partition(path, kRows, kRanks))
      require(owner >= 0 && owner < kRanks);
  });
  return 0;
}
