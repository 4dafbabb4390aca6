// The halo's adaptor for Kokkos: views of two layouts on a host's space; and the branch for GPUs on
// a space that has a stream of CUDA's and runs on the host.
#include <cstdio>
#include <stdexcept>
#include <string>

#include "halo/kokkos.h"

namespace halo = lanyard::halo;

namespace {

struct StandIn : Kokkos::Serial {
  struct CudaStream;
  CudaStream* cuda_stream() const { return nullptr; }
};

int failures = 0;
void expect(bool is_right, const std::string& what) {
  if (is_right)
    return;
  std::printf("FAILED: %s\n", what.c_str());
  ++failures;
}

double value(long plane, long row, long column) { return static_cast<double>(10000 * plane + 100 * row + column + 1); }

// Rows are periodic, columns have walls; a plane is one of two arrays.
template <class Space>
void check(const halo::Mode& mode, const std::string& name) {
  constexpr long kRows = 20, kColumns = 21;
  constexpr int kWidth = 2;
  const halo::Grid<2> grid = halo::make_grid<2>(MPI_COMM_WORLD, {kRows, kColumns}, {true, false});
  halo::KokkosStream<Space> stream;
  lanyard::Queue queue;
  if (mode.way != halo::Mode::kMpi)
    queue = stream.make_queue();
  halo::Halo<2> exchange(grid, {.width = kWidth, .mode = mode}, {halo::cell_type<double>(), halo::cell_type<float>()},
                         MPI_COMM_WORLD, stream, queue.handle());
  const auto [rows, columns] = exchange.shape().counts;
  Kokkos::View<double**, Kokkos::LayoutLeft, Kokkos::HostSpace> a("a", rows + 2 * kWidth, columns + 2 * kWidth);
  Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> b("b", rows + 2 * kWidth, columns + 2 * kWidth);
  const auto& fields = halo::bind_views(exchange, a, b);
  const long first_row = grid.mine(0).first, first_column = grid.mine(1).first, height = rows, width = columns;
  stream.enqueue([=] {
    for (long r = 0; r < height + 2 * kWidth; ++r)
      for (long c = 0; c < width + 2 * kWidth; ++c) {
        const bool is_ghost = r < kWidth || r >= height + kWidth || c < kWidth || c >= width + kWidth;
        a(r, c) = is_ghost ? -1 : value(0, first_row + r - kWidth, first_column + c - kWidth);
        b(r, c) = is_ghost ? -1 : static_cast<float>(value(1, first_row + r - kWidth, first_column + c - kWidth));
      }
  });
  exchange.enqueue_gather(fields);
  exchange.drain();
  for (long r = 0; r < height + 2 * kWidth; ++r)
    for (long c = 0; c < width + 2 * kWidth; ++c) {
      const long row = (first_row + r - kWidth + kRows) % kRows, column = first_column + c - kWidth;
      const bool is_outside = column < 0 || column >= kColumns;
      expect(a(r, c) == (is_outside ? -1 : value(0, row, column)) &&
                 b(r, c) == static_cast<float>(is_outside ? -1 : value(1, row, column)),
             name + ": cell " + std::to_string(r) + ", " + std::to_string(c));
    }
  try {
    Kokkos::View<double**, Kokkos::HostSpace> small("small", rows + 2 * kWidth, columns + 2 * kWidth - 1);
    halo::bind_views(exchange, small, b);
    expect(false, "a view that is too small was taken");
  } catch (const std::invalid_argument& error) {
    expect(std::string(error.what()).find("halo: view small has ") == 0, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  check<Kokkos::Serial>({halo::Mode::kSend, 2}, "host");
  check<StandIn>({halo::Mode::kMpi, 0}, "stand-in for CUDA");
  [[maybe_unused]] const auto compiled = &halo::KokkosStream<StandIn>::make_queue;
  Kokkos::finalize();
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  std::puts(failures == 0 ? "verified" : "wrong");
  return failures == 0 ? 0 : 1;
}
