// Nccl: sends and receives of NVIDIA's NCCL or AMD's RCCL, the usual choice for GPUs in one node.
// The library is loaded at run time.
#ifndef LANYARD_BENCH_NCCL_H_
#define LANYARD_BENCH_NCCL_H_

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <type_traits>

#include "bench/program.h"
#include "bench/stream.h"

namespace lanyard::bench {

// One thread at a time. An error of the library's ends the job.
class Nccl {
 public:
  // Opens a communicator of all ranks, each with its current device. Collective. If that fails,
  // returns null on all ranks, and ranks that know the reason set `why`: `stream` is not a GPU's,
  // the library is missing, ranks share a GPU, or the library refuses.
  static std::unique_ptr<Nccl> open(const MpiProcess& process, Stream& stream, std::string& why) {
    std::unique_ptr<Nccl> nccl(new Nccl(stream));
    if (stream.gpu() == nullptr)
      why = "needs memory of a GPU";
    if (!process.all(stream.gpu() != nullptr && nccl->load(why)))
      return nullptr;
    if (share_a_gpu(process, *stream.gpu())) {
      why = "ranks share a GPU";
      return nullptr;
    }
    UniqueId id{};
    int result = process.is_first() ? nccl->get_unique_id_(&id) : 0;
    check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
    if (process.all(result == 0))
      result = nccl->init_rank_(&nccl->communicator_, process.ranks(), id, process.rank());
    if (result != 0)
      why = nccl->error_text_(result);
    return process.all(result == 0 && nccl->communicator_ != nullptr) ? std::move(nccl) : nullptr;
  }
  ~Nccl() {
    if (communicator_ != nullptr)
      destroy_(communicator_);
  }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  // "NCCL 2.28.3"
  std::string version() const {
    int number = 0;
    expect(get_version_(&number), "ncclGetVersion");
    return fmt::format("{} {}.{}.{}", is_cuda_ ? "NCCL" : "RCCL", number / 10000, number / 100 % 100, number % 100);
  }
  // What is enqueued between the two goes at once.
  void begin_group() { expect(begin_group_(), "ncclGroupStart"); }
  void end_group() { expect(end_group_(), "ncclGroupEnd"); }
  // Enqueue on the stream.
  void send(const std::byte* from, size_t bytes, int peer) {
    expect(send_(from, bytes, kUint8, peer, communicator_, stream_), "ncclSend");
  }
  void receive(std::byte* to, size_t bytes, int peer) {
    expect(receive_(to, bytes, kUint8, peer, communicator_, stream_), "ncclRecv");
  }

 private:
  // As in both libraries' headers (nccl.h, rccl.h). Neither need be there to build this.
  struct UniqueId {
    char bytes[128];
  };
  using Communicator = void*;
  static constexpr int kUint8 = 1;

  explicit Nccl(Stream& stream)
      : is_cuda_(stream.kind() == Stream::Kind::kCuda),
        stream_(stream.gpu() != nullptr ? *static_cast<void**>(stream.address()) : nullptr) {}

  // False, and `why` says why: there is no library, or it is too old.
  bool load(std::string& why) {
    const char* const name = is_cuda_ ? "libnccl.so.2" : "librccl.so.1";
    void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      why = dlerror();
      return false;
    }
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
      return function != nullptr;
    };
    const bool all = find(get_version_, "ncclGetVersion") && find(get_unique_id_, "ncclGetUniqueId") &&
                     find(init_rank_, "ncclCommInitRank") && find(destroy_, "ncclCommDestroy") &&
                     find(begin_group_, "ncclGroupStart") && find(end_group_, "ncclGroupEnd") &&
                     find(send_, "ncclSend") && find(receive_, "ncclRecv") && find(error_text_, "ncclGetErrorString");
    if (!all)
      why = std::string(name) + " has no ncclSend";
    return all;
  }

  // Whether some ranks do. Collective.
  static bool share_a_gpu(const MpiProcess& process, const Gpu& gpu) {
    constexpr int kLength = MPI_MAX_PROCESSOR_NAME + 32;
    char host[MPI_MAX_PROCESSOR_NAME] = "";
    int length = 0;
    check(MPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
    std::string mine = fmt::format("{} {}", host, gpu.device_place());
    mine.resize(kLength);
    std::string all(static_cast<size_t>(process.ranks()) * kLength, '\0');
    check(MPI_Allgather(mine.data(), kLength, MPI_CHAR, all.data(), kLength, MPI_CHAR, MPI_COMM_WORLD),
          "MPI_Allgather");
    std::set<std::string> places;
    for (size_t at = 0; at < all.size(); at += kLength)
      places.insert(all.substr(at, kLength));
    return places.size() < static_cast<size_t>(process.ranks());
  }

  void expect(int result, const char* call) const {
    if (result != 0)
      end_job(fmt::format("{} failed: {}", call, error_text_(result)));
  }

  const bool is_cuda_;
  void* const stream_;
  Communicator communicator_ = nullptr;
  int (*get_version_)(int*) = nullptr;
  int (*get_unique_id_)(UniqueId*) = nullptr;
  int (*init_rank_)(Communicator*, int, UniqueId, int) = nullptr;
  int (*destroy_)(Communicator) = nullptr;
  int (*begin_group_)() = nullptr;
  int (*end_group_)() = nullptr;
  int (*send_)(const void*, size_t, int, int, Communicator, void*) = nullptr;
  int (*receive_)(void*, size_t, int, int, Communicator, void*) = nullptr;
  const char* (*error_text_)(int) = nullptr;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_NCCL_H_
