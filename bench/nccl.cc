#include "bench/nccl.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <set>
#include <string>
#include <type_traits>

namespace lanyard::bench {
namespace {

// What both libraries' headers (nccl.h, rccl.h) say, of which neither need be there to build this.
struct UniqueId {
  std::array<char, 128> bytes;
};
using Communicator = void*;
constexpr int kUint8 = 1;

struct Library {
  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(UniqueId*) = nullptr;
  int (*init_rank)(Communicator*, int, UniqueId, int) = nullptr;
  int (*destroy)(Communicator) = nullptr;
  int (*begin_group)() = nullptr;
  int (*end_group)() = nullptr;
  int (*send)(const void*, size_t, int, int, Communicator, void*) = nullptr;
  int (*receive)(void*, size_t, int, int, Communicator, void*) = nullptr;
  const char* (*error_text)(int) = nullptr;

  // False, and `why` says why: there is none, or it is too old.
  bool load(const char* name, std::string& why) {
    void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      why = dlerror();
      return false;
    }
    bool all = true;
    const auto find = [&](auto& function, const char* symbol) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, symbol));
      all = all && function != nullptr;
    };
    find(get_version, "ncclGetVersion");
    find(get_unique_id, "ncclGetUniqueId");
    find(init_rank, "ncclCommInitRank");
    find(destroy, "ncclCommDestroy");
    find(begin_group, "ncclGroupStart");
    find(end_group, "ncclGroupEnd");
    find(send, "ncclSend");
    find(receive, "ncclRecv");
    find(error_text, "ncclGetErrorString");
    if (!all)
      why = std::string(name) + " has no ncclSend";
    return all;
  }
};

class LoadedNccl final : public Nccl {
 public:
  LoadedNccl(const Library& library, const char* name, Communicator communicator, void* stream)
      : library_(library), name_(name), communicator_(communicator), stream_(stream) {}
  ~LoadedNccl() override { library_.destroy(communicator_); }

  std::string version() const override {
    int number = 0;
    expect(library_.get_version(&number), "ncclGetVersion");
    return fmt::format("{} {}.{}.{}", name_, number / 10000, number / 100 % 100, number % 100);
  }
  void begin_group() override { expect(library_.begin_group(), "ncclGroupStart"); }
  void end_group() override { expect(library_.end_group(), "ncclGroupEnd"); }
  void send(const std::byte* from, size_t bytes, int peer) override {
    expect(library_.send(from, bytes, kUint8, peer, communicator_, stream_), "ncclSend");
  }
  void receive(std::byte* to, size_t bytes, int peer) override {
    expect(library_.receive(to, bytes, kUint8, peer, communicator_, stream_), "ncclRecv");
  }

 private:
  void expect(int result, const char* call) const {
    if (result == 0)
      return;
    fmt::print(stderr, "{} failed: {}\n", call, library_.error_text(result));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }

  const Library library_;
  const char* const name_;
  const Communicator communicator_;
  void* const stream_;
};

// Whether some of them do. Collective.
bool share_a_gpu(const MpiProcess& process, const Gpu& gpu) {
  constexpr int kLength = MPI_MAX_PROCESSOR_NAME + 32;
  std::string host(MPI_MAX_PROCESSOR_NAME, '\0');
  int length = 0;
  check(MPI_Get_processor_name(host.data(), &length), "MPI_Get_processor_name");
  std::string mine = host.substr(0, static_cast<size_t>(length)) + " " + gpu.device_place();
  mine.resize(kLength);
  std::string all(static_cast<size_t>(process.ranks()) * kLength, '\0');
  check(MPI_Allgather(mine.data(), kLength, MPI_CHAR, all.data(), kLength, MPI_CHAR, MPI_COMM_WORLD), "MPI_Allgather");
  std::set<std::string> places;
  for (size_t at = 0; at < all.size(); at += kLength)
    places.insert(all.substr(at, kLength));
  return places.size() < static_cast<size_t>(process.ranks());
}

}  // namespace

std::unique_ptr<Nccl> Nccl::open(const MpiProcess& process, Stream& stream, std::string& why) {
  const bool is_cuda = stream.kind() == Stream::Kind::kCuda;
  Library library;
  bool may = stream.gpu() != nullptr;
  if (!may)
    why = "needs memory of a GPU";
  may = may && library.load(is_cuda ? "libnccl.so.2" : "librccl.so.1", why);
  if (!process.all(may))
    return nullptr;
  if (share_a_gpu(process, *stream.gpu())) {
    why = "ranks share a GPU";
    return nullptr;
  }
  UniqueId id{};
  int result = process.is_first() ? library.get_unique_id(&id) : 0;
  check(MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
  Communicator communicator = nullptr;
  if (process.all(result == 0))
    result = library.init_rank(&communicator, process.ranks(), id, process.rank());
  if (result != 0)
    why = library.error_text(result);
  const bool mine = result == 0 && communicator != nullptr;
  if (!process.all(mine)) {
    if (mine)
      library.destroy(communicator);
    return nullptr;
  }
  return std::make_unique<LoadedNccl>(library, is_cuda ? "NCCL" : "RCCL", communicator,
                                      *static_cast<void**>(stream.address()));
}

}  // namespace lanyard::bench
