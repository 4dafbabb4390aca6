// Computation: arithmetic of some length on a stream of its own, as a program has it beside its messages.
#ifndef LANYARD_BENCH_COMPUTATION_H_
#define LANYARD_BENCH_COMPUTATION_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "bench/aligned_buffer.h"
#include "bench/kernels.h"
#include "bench/stream.h"

namespace lanyard::bench {

class Computation {
 public:
  explicit Computation(std::unique_ptr<Stream> stream)
      : stream_(std::move(stream)), result_(sizeof(float), stream_->gpu()) {
    kernel_.result = reinterpret_cast<float*>(result_.data());
  }

  // Rounds of arithmetic, one after the other.
  uint64_t rounds() const { return kernel_.rounds; }
  void set_rounds(uint64_t rounds) { kernel_.rounds = rounds; }

  void begin() { stream_->launch(kernel_); }
  // Blocks the host until it is over.
  void end() { stream_->synchronize(); }
  // The seconds that it takes with nothing beside it.
  double alone() {
    const auto start = std::chrono::steady_clock::now();
    begin();
    end();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  const std::unique_ptr<Stream> stream_;
  AlignedBuffer result_;
  ComputeKernel kernel_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_COMPUTATION_H_
