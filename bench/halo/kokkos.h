// Halo<Dim> for Kokkos: arrays are Kokkos::Views, and an instance of an execution space gives the
// stream.
//
//     lanyard::halo::KokkosStream<Kokkos::Cuda> stream(space);   // or Kokkos::Serial, ...
//     lanyard::Queue queue = stream.make_queue();
//     Kokkos::View<double**> u("u", rows + 2, columns + 2);      // with ghosts, of any layout
//     lanyard::halo::Halo<2> halo(grid, options, {lanyard::halo::cell_type<double>()}, comm,
//                                 stream, queue.handle());
//     const auto& fields = lanyard::halo::bind_views(halo, u);   // u(1, 1) is the first owned cell
//     halo.enqueue_gather(fields);
//     stream.enqueue([=] { Kokkos::parallel_for(...); });        // by the space `stream.space()`
//
// Kernels of a GPU's space are in the order of the instance's stream anyway. Those of a host's
// space run at once, in whoever calls them; so they have to be given to enqueue(), which runs them
// in the order of a host stream of Lanyard's.
//
// Needs Kokkos 3.4 or newer, beside what halo.h needs.
#ifndef LANYARD_BENCH_HALO_KOKKOS_H_
#define LANYARD_BENCH_HALO_KOKKOS_H_

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "halo.h"

namespace lanyard::halo {

namespace detail {

template <class Space>
concept HasCudaStream = requires(const Space& space) {
  space.cuda_stream();
};
template <class Space>
concept HasHipStream = requires(const Space& space) {
  space.hip_stream();
};

struct CopyBoxesPart {
  BoxCopies list;
  KOKKOS_FUNCTION void operator()(long cell) const { copy_boxes_part(list, cell, list.cells); }
};

}  // namespace detail

// The stream of an instance of an execution space of a GPU.
template <class Space>
class KokkosStream : public Stream, public Device {
  static_assert(detail::HasCudaStream<Space> || detail::HasHipStream<Space>);

 public:
  explicit KokkosStream(const Space& space = Space()) : space_(space) {}

  const Space& space() const { return space_; }
  Queue make_queue() const {
    if constexpr (detail::HasCudaStream<Space>)
      return Queue::cuda(space_.cuda_stream());
    else
      return Queue::hip(space_.hip_stream());
  }
  template <class Kernels>
  void enqueue(Kernels&& kernels) {
    kernels();
  }
  void synchronize() override { space_.fence(); }
  void launch(const BoxCopies& copies) override {
    using Policy = Kokkos::RangePolicy<Execution, Kokkos::IndexType<long>>;
    Kokkos::parallel_for("halo", Policy(execution(), 0, copies.cells), detail::CopyBoxesPart{copies});
  }
  Device* gpu() override { return this; }

  Memory allocate(size_t bytes) override { return allocate_in<typename Space::memory_space>(bytes); }
  Memory allocate_pinned(size_t bytes) override {
#ifdef KOKKOS_ENABLE_CUDA
    return allocate_in<Kokkos::CudaHostPinnedSpace>(bytes);
#else
    return allocate_in<Kokkos::HostSpace>(bytes);
#endif
  }
  // As a copy within the GPU's memory, which finds out by itself what of it is the host's.
  void transfer(std::byte* to, const std::byte* from, size_t bytes) override {
    using Whole = typename Space::memory_space;
    using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
    Kokkos::deep_copy(execution(), Kokkos::View<char*, Whole, Unmanaged>(reinterpret_cast<char*>(to), bytes),
                      Kokkos::View<const char*, Whole, Unmanaged>(reinterpret_cast<const char*>(from), bytes));
  }

 private:
  using Execution = typename Space::execution_space;
  const Execution& execution() const { return space_; }
  template <class MemorySpace>
  static Memory allocate_in(size_t bytes) {
    return {static_cast<std::byte*>(Kokkos::kokkos_malloc<MemorySpace>("halo", bytes)),
            [](std::byte* mine) { Kokkos::kokkos_free<MemorySpace>(mine); }};
  }

  const Space space_;
};

// A host stream for the kernels of an execution space of the host.
template <class Space>
requires(!detail::HasCudaStream<Space> && !detail::HasHipStream<Space>) class KokkosStream<Space> : public Stream {
 public:
  explicit KokkosStream(const Space& space = Space()) : space_(space) {}

  const Space& space() const { return space_; }
  Queue make_queue() const { return Queue(stream_); }
  template <class Kernels>
  void enqueue(Kernels&& kernels) {
    stream_.launch(std::forward<Kernels>(kernels));
  }
  void synchronize() override { stream_.synchronize(); }
  void launch(const BoxCopies& copies) override { HostStream(stream_).launch(copies); }

 private:
  const Space space_;
  lanyard::HostStream stream_;
};

// Halo::bind() for views with ghosts, which must outlive their use by the stream. Throws
// std::invalid_argument where a view has other extents than the halo's blocks.
template <int Dim, class... Views>
const typename Halo<Dim>::Fields& bind_views(Halo<Dim>& halo, const Views&... views) {
  const Shape<Dim>& shape = halo.shape();
  const auto array = [&](const auto& view) {
    using View = std::decay_t<decltype(view)>;
    static_assert(View::rank == Dim, "a view has as many dimensions as the halo");
    Array<Dim> array{view.data(), {}, cell_type<typename View::non_const_value_type>()};
    long origin = 0;
    for (size_t d = 0; d < Dim; ++d) {
      if (view.extent(d) != static_cast<size_t>(shape.counts[d] + 2 * shape.width))
        throw std::invalid_argument("halo: view " + view.label() + " has " + std::to_string(view.extent(d)) +
                                    " cells in dimension " + std::to_string(d) + ", should have " +
                                    std::to_string(shape.counts[d] + 2 * shape.width));
      array.step[d] = static_cast<long>(view.stride(d));
      origin += shape.width * array.step[d];
    }
    array.origin = view.data() + origin;
    return array;
  };
  return halo.bind(std::vector<Array<Dim>>{array(views)...});
}

}  // namespace lanyard::halo

#endif  // LANYARD_BENCH_HALO_KOKKOS_H_
