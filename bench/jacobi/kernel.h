#ifndef LANYARD_BENCH_JACOBI_KERNEL_H_
#define LANYARD_BENCH_JACOBI_KERNEL_H_

namespace lanyard::bench {

// JacobiKernel for host streams. T: float or double.
template <class T>
void jacobi_kernel(void* kernel);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_JACOBI_KERNEL_H_
