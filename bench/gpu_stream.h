// Streams of GPUs, as the build's configuration has them.
#ifndef LANYARD_BENCH_GPU_STREAM_H_
#define LANYARD_BENCH_GPU_STREAM_H_

#include <memory>
#include <string>

#include "bench/stream.h"

namespace lanyard::bench {

// A new stream on the GPU with the number local_rank modulo their number, which is current for the
// calling thread from then on. Null, and `why` says why: the build has no code for GPUs, or the
// machine has none.
std::unique_ptr<Stream> open_gpu_stream(int local_rank, std::string& why);

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_GPU_STREAM_H_
