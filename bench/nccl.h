// Nccl: sends and receives of NVIDIA's NCCL or AMD's RCCL, the usual choice for GPUs in one node.
// The library is loaded at run time.
#ifndef LANYARD_BENCH_NCCL_H_
#define LANYARD_BENCH_NCCL_H_

#include <cstddef>
#include <memory>
#include <string>

#include "bench/program.h"
#include "bench/stream.h"

namespace lanyard::bench {

// One thread at a time. An error of the library's ends the job.
class Nccl {
 public:
  virtual ~Nccl() = default;
  // Opens a communicator of all ranks, each with its current device. Collective. If that fails,
  // returns null on all ranks, and ranks that know the reason set `why`: `stream` is not a GPU's,
  // the library is missing, ranks share a GPU, or the library refuses.
  static std::unique_ptr<Nccl> open(const MpiProcess& process, Stream& stream, std::string& why);

  // "NCCL 2.28.3"
  virtual std::string version() const = 0;
  // What is enqueued between the two goes at once.
  virtual void begin_group() = 0;
  virtual void end_group() = 0;
  // Enqueue on the stream.
  virtual void send(const std::byte* from, size_t bytes, int peer) = 0;
  virtual void receive(std::byte* to, size_t bytes, int peer) = 0;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_NCCL_H_
