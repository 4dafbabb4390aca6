// Jacobi's kernels for host streams.
#ifndef LANYARD_BENCH_JACOBI_HOST_H_
#define LANYARD_BENCH_JACOBI_HOST_H_

namespace lanyard::bench {

// Of a JacobiKernel and a JacobiLoop. T: float, double.
template <class T>
void jacobi_kernel(void* argument);
template <class T>
void jacobi_loop_kernel(void* argument);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_HOST_H_
