// The kernels of conjugate gradients on host streams, and the choice between those and a GPU's.
#ifndef LANYARD_BENCH_CG_HOST_KERNELS_H_
#define LANYARD_BENCH_CG_HOST_KERNELS_H_

#include <memory>

#include "bench/cg_kernels.h"
#include "bench/stream.h"

namespace lanyard::bench {

// On a stream of either kind, which outlives them and has nothing enqueued yet.
std::unique_ptr<CgKernels> make_cg_kernels(Stream& stream);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_HOST_KERNELS_H_
