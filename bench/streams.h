// Where a benchmark runs: --memory, and the streams that go with it.
#ifndef LANYARD_BENCH_STREAMS_H_
#define LANYARD_BENCH_STREAMS_H_

#include <memory>
#include <string>

#include "bench/mpi_process.h"
#include "bench/stream.h"

namespace lanyard::bench {

// For reports.
struct Place {
  std::string memory = "host";
  std::string stream = "host";
  // Rank 0's; empty for host memory. The versions of CUDA or HIP that the driver and the run-time library have.
  std::string device, driver, runtime;

  std::string summary() const { return memory + (device.empty() ? "" : " (" + device + ")") + ", streams: " + stream; }
};

class Streams {
 public:
  // GPUs if asked for and possible on every rank; else the host, and the program says why on
  // stderr. Collective over MPI_COMM_WORLD. Ranks of one host take its GPUs in turn.
  Streams(bool wants_device, const char* program, const MpiProcess& process);

  // A new stream, of the same kind on every rank.
  std::unique_ptr<Stream> make() const;
  bool has_device() const { return has_device_; }
  const Place& place() const { return place_; }

 private:
  int local_rank_ = 0;
  bool has_device_ = false;
  Place place_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_STREAMS_H_
