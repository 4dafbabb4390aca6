#include "bench/streams.h"

#include <cstdio>

#include "bench/queue.h"

namespace lanyard::bench {

#ifndef LANYARD_BENCH_GPU
std::unique_ptr<Stream> open_gpu_stream(int /*local_rank*/, std::string& why) {
  why = "this build has no GPU code: build with --config=cuda or --config=hip";
  return nullptr;
}
#endif

namespace {

int local_rank(const MpiProcess& process) {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, process.rank(), MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  int rank = 0;
  check(MPI_Comm_rank(host, &rank), "MPI_Comm_rank");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  return rank;
}

// The first rank that has something to say; their number if none has.
int first_rank(const MpiProcess& process, bool mine) {
  int rank = mine ? process.rank() : process.ranks();
  check(MPI_Allreduce(MPI_IN_PLACE, &rank, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
  return rank;
}

}  // namespace

Streams::Streams(bool wants_device, const char* program, const MpiProcess& process) {
  if (!wants_device)
    return;
  local_rank_ = local_rank(process);
  std::string why;
  const std::unique_ptr<Stream> stream = open_gpu_stream(local_rank_, why);
  if (stream != nullptr)
    why = StreamQueue::refusal(*stream);
  const int refused = first_rank(process, !why.empty());
  if (refused == process.rank())
    std::fprintf(stderr, "%s: %s; running on host streams\n", program, why.c_str());
  if (stream == nullptr || refused != process.ranks())
    return;
  has_device_ = true;
  kind_ = stream->kind() == Stream::Kind::kCuda ? "cuda" : "hip";
  device_ = stream->gpu()->device_name();
}

void Streams::describe(Report& report) const {
  report.fact("memory", has_device_ ? "device" : "host");
  report.fact("stream", kind_);
  report.fact("device", device_);
}

std::unique_ptr<Stream> Streams::make() const {
  if (!has_device_)
    return std::make_unique<HostStream>();
  std::string why;
  std::unique_ptr<Stream> stream = open_gpu_stream(local_rank_, why);
  if (stream == nullptr) {
    std::fprintf(stderr, "%s\n", why.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return stream;
}

}  // namespace lanyard::bench
