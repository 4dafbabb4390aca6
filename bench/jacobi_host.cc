#include "bench/jacobi_host.h"

#include "bench/jacobi_kernels.h"

namespace lanyard::bench {
namespace {

// The thread of a host stream: the only one of the only block, which does everything.
struct OnlyBlock {
  uint32_t which() const { return 0; }
  uint32_t blocks() const { return 1; }
  bool is_inner() const { return true; }
  void meet(uint64_t) const {}
  template <class Visit>
  void for_cells(const Region& region, const Visit& visit) const {
    for (long p = region.plane; p < region.plane + region.planes; ++p)
      for (long r = region.row; r < region.row + region.rows; ++r)
        for (long c = region.column; c < region.column + region.columns; ++c)
          visit(p, r, c);
  }
};

}  // namespace

template <class T>
void jacobi_kernel(void* argument) {
  const JacobiKernel& step = *static_cast<const JacobiKernel*>(argument);
  const JacobiShape& shape = step.shape;
  const long stride = shape.stride(), plane_stride = shape.plane_stride();
  for (long p = 0; p < shape.planes; ++p) {
    for (long r = 0; r < shape.rows; ++r) {
      const long offset = shape.origin() + p * plane_stride + r * stride;
      const T* __restrict from = reinterpret_cast<const T*>(step.from) + offset;
      T* __restrict to = reinterpret_cast<T*>(step.to) + offset;
      for (long c = 0; c < shape.columns; ++c)
        to[c] = jacobi_next(from + c, stride, plane_stride);
    }
  }
}

template <class T>
void jacobi_loop_kernel(void* argument) {
  jacobi_loop<T>(*static_cast<const JacobiLoop*>(argument), OnlyBlock());
}

template void jacobi_kernel<float>(void*);
template void jacobi_kernel<double>(void*);
template void jacobi_loop_kernel<float>(void*);
template void jacobi_loop_kernel<double>(void*);

}  // namespace lanyard::bench
