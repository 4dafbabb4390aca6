#include "bench/jacobi/kernel.h"

#include "bench/kernels.h"

namespace lanyard::bench {

template <class T>
void jacobi_kernel(void* argument) {
  const JacobiKernel kernel = *static_cast<const JacobiKernel*>(argument);
  for (long i = 0; i < kernel.count; ++i)
    for (long row = 0; row < kernel.rows; ++row) {
      const long first = (kernel.first + i * kernel.step) * kernel.slab_stride + row * kernel.row_stride;
      const T* __restrict from = reinterpret_cast<const T*>(kernel.from) + first;
      T* __restrict to = reinterpret_cast<T*>(kernel.to) + first;
      for (long c = 0; c < kernel.columns; ++c)
        to[c] = jacobi_next(from + c, kernel);
    }
}

template void jacobi_kernel<float>(void*);
template void jacobi_kernel<double>(void*);

}  // namespace lanyard::bench
