#include "bench/streams.h"

#include <cstdio>
#include <cstring>

namespace lanyard::bench {

#ifndef LANYARD_BENCH_GPU
std::unique_ptr<Stream> open_gpu_stream(int /*local_rank*/, std::string& why) {
  why = "this build has no GPU code: build with --config=cuda or --config=hip";
  return nullptr;
}
#endif

namespace {

// ---- Kernels on the host

void copy_bytes(const CopyKernel& what) { std::memcpy(what.to, what.from, what.bytes); }

template <class T>
void life(const LifeKernel& what) {
  const long columns = what.columns, stride = columns + 2;
  for (long r = 0; r < what.rows; ++r) {
    const T* __restrict above = static_cast<const T*>(what.from) + r * stride + 1;
    const T* __restrict here = above + stride;
    const T* __restrict below = here + stride;
    T* __restrict out = static_cast<T*>(what.to) + (r + 1) * stride + 1;
    for (long c = 0; c < columns; ++c) {
      const auto neighbours =
          above[c - 1] + above[c] + above[c + 1] + here[c - 1] + here[c + 1] + below[c - 1] + below[c] + below[c + 1];
      out[c] = static_cast<T>((neighbours | here[c]) == 3);  // 3, or 2 and alive
    }
  }
}

template <class T>
void jacobi(const JacobiKernel& argument) {
  const JacobiKernel what = argument;
  for (long i = 0; i < what.count; ++i)
    for (long row = 0; row < what.rows; ++row) {
      const long first = (what.first + i * what.step) * what.slab_stride + row * what.row_stride;
      const T* __restrict from = static_cast<const T*>(what.from) + first;
      T* __restrict to = static_cast<T*>(what.to) + first;
      for (long c = 0; c < what.columns; ++c)
        to[c] = jacobi_next(from + c, what);
    }
}

void trips(const TripsKernel& what) {
  struct OnlyThread {
    bool is_leader() const { return true; }
    void copy(const CopyKernel& part) const { copy_bytes(part); }
  };
  make_trips(what, OnlyThread());
}

// Kernels take a void*, but do not write to it.
template <auto kRun, class Kernel>
void enqueue(HostStream& stream, const Kernel& kernel) {
  stream.launch([](void* argument) { kRun(*static_cast<const Kernel*>(argument)); }, const_cast<Kernel*>(&kernel));
}

// Among the ranks of this host.
int local_rank(const MpiProcess& process) {
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, process.rank(), MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  int rank = 0;
  check(MPI_Comm_rank(host, &rank), "MPI_Comm_rank");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  return rank;
}

// Why there can be no queue on the stream whose requests move the stream's memory; empty if there
// can.
std::string refusal(Stream& stream) {
  try {
    const Json info = StreamQueue(stream).info();
    const bool has_memory = info.value("device_memory", "") == "yes";
    return has_memory ? "" : "the network card (" + info.value("nic", "") + ") does not reach GPU memory";
  } catch (const Error& error) {
    return std::string("MPIX_Queue_init: ") + error.what();
  }
}

}  // namespace

void HostStream::launch(const CopyKernel& kernel) { enqueue<copy_bytes>(*this, kernel); }
void HostStream::launch(const halo::BoxCopies& copies) {
  launch(halo::copy_boxes_on_host, const_cast<halo::BoxCopies*>(&copies));
}
void HostStream::launch(const JacobiKernel& kernel) {
  kernel.cell_bytes == 4 ? enqueue<jacobi<float>>(*this, kernel) : enqueue<jacobi<double>>(*this, kernel);
}
void HostStream::launch(const LifeKernel& kernel) {
  kernel.cell_bytes == 1 ? enqueue<life<uint8_t>>(*this, kernel) : enqueue<life<uint64_t>>(*this, kernel);
}
void HostStream::launch(const TripsKernel& kernel) { enqueue<trips>(*this, kernel); }

Streams::Streams(bool wants_device, const char* program, const MpiProcess& process) {
  if (!wants_device)
    return;
  local_rank_ = local_rank(process);
  std::string why;
  const std::unique_ptr<Stream> stream = open_gpu_stream(local_rank_, why);
  if (stream != nullptr)
    why = refusal(*stream);
  int refused = why.empty() ? process.ranks() : process.rank();  // the first one
  check(MPI_Allreduce(MPI_IN_PLACE, &refused, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD), "MPI_Allreduce");
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
  if (stream == nullptr)
    end_job(why);
  return stream;
}

Json to_json(const std::map<std::string, std::string>& info) {
  Json json = Json::object();
  for (const auto& [key, value] : info) {
    const Json number = Json::parse(value, nullptr, false);
    json[key] = number.is_number_integer() ? number : Json(value);
  }
  return json;
}

void add_nic(Report& report, const Json& info) {
  if (info.is_null())
    return report.remark("NIC: none (no stream mode)");
  const std::string nic = info.value("nic", "");
  const size_t slash = nic.find('/');
  const std::string wire = slash == std::string::npos ? "its own" : nic.substr(slash + 1);
  report.remark("NIC: " + nic.substr(0, slash) + ", wire: " + wire + ", strategy: " + info.value("strategy", "") +
                ", deferred-work entries: " + info.at("entries_depth").dump());
  report.fact("nic", info);
}

void add_entries(Json& row, const Json& before, const Json& after) {
  for (const std::string key : {"counters", "entries_posted", "entries_overflowed"}) {
    row[key] = nullptr;
    if (after.is_null())
      continue;
    long long value = after.value(key, 0LL) - (key == "counters" ? 0 : before.value(key, 0LL));
    check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_LONG_LONG, MPI_MAX, MPI_COMM_WORLD), "MPI_Allreduce");
    row[key] = value;
  }
}

}  // namespace lanyard::bench
