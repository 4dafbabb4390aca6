// Where a benchmark runs: --memory, and the streams that go with it.
#ifndef LANYARD_BENCH_STREAMS_H_
#define LANYARD_BENCH_STREAMS_H_

#include <memory>
#include <string>

#include "bench/mpi_process.h"
#include "bench/options.h"
#include "bench/stream.h"

namespace lanyard::bench {

// For reports.
struct Place {
  std::string memory = "host";
  std::string stream = "host";
  std::string device;  // rank 0's; empty for host memory

  std::string summary() const { return memory + (device.empty() ? "" : " (" + device + ")") + ", streams: " + stream; }
};

inline void add_memory(CLI::App& app, std::string& memory) {
  app.add_option("--memory", memory,
                 "host; device: buffers, kernels and streams of a GPU, where there is one (default: "
                 "host)")
      ->check(CLI::IsMember({"host", "device"}));
}

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
