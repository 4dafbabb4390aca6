// Shared memory between the NICs of one host, and access to another process: map and copy its
// memory, see it end.
//
// A segment is a memfd. It has no name that could stay behind, and ends with the last process that
// maps it. Peers open it through /proc/PID/fd/FD, which needs the same user, pid namespace and user
// namespace. A random nonce tells it from a later segment with the same numbers.
#ifndef LANYARD_NICSIM_WIRE_SHM_SEGMENT_H_
#define LANYARD_NICSIM_WIRE_SHM_SEGMENT_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// Plain data that a nic::Address carries. Every address of one wire has the same first word, `tag`.
template <typename Address>
struct PlainAddress {
  nic::Address encode() const {
    const auto* first = reinterpret_cast<const std::byte*>(static_cast<const Address*>(this));
    return {.bytes = {first, first + sizeof(Address)}};
  }
  static std::optional<Address> decode(const nic::Address& encoded) {
    static_assert(sizeof(Address) <= nic::Address::kMaxBytes);
    Address address;
    const uint32_t tag = address.tag;
    if (encoded.bytes.size() != sizeof address)
      return std::nullopt;
    std::memcpy(&address, encoded.bytes.data(), sizeof address);
    return address.tag == tag ? std::optional(address) : std::nullopt;
  }
};

// Where a NIC's segment is.
struct ShmAddress : PlainAddress<ShmAddress> {
  uint32_t tag = 0x314d4853;  // "SHM1"
  int32_t pid = 0;
  int32_t fd = -1;
  uint32_t user_namespace = 0;  // no access between processes of two such namespaces
  uint64_t host = 0;            // from the kernel's boot id: names one running kernel
  uint64_t pid_namespace = 0;   // where pids are valid; 0: there is no /proc
  uint64_t nonce = 0;
  uint64_t base = 0;  // the segment's address in its owner's memory
  uint64_t bytes = 0;
};

// A file descriptor, closed by the destructor. Move-only.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Mapped shared memory, unmapped by the destructor. Its deleter knows its size.
struct Unmap {
  size_t bytes = 0;
  void operator()(void* base) const;
};
using Mapping = std::unique_ptr<void, Unmap>;

// This process's own segment, zeroed. Its size is sealed, because a peer would fault if the
// file were cut.
struct OwnSegment {
  FileDescriptor fd;
  Mapping mapping;
  ShmAddress address;
  // Makes a random nonce. kFailed with the system's error.
  static Result<OwnSegment> create(size_t bytes);
};

// A peer's segment in this process, and a handle of the peer's process. Movable.
class PeerSegment {
 public:
  PeerSegment() = default;
  // kNotFound if the peer has ended; kFailed if it lives but cannot be reached. The message is as
  // nic::Nic::why_lost(). The caller checks the nonce.
  static Result<PeerSegment> open(const ShmAddress& address);

  void* base() const { return mapping_.get(); }
  size_t bytes() const { return mapping_.get_deleter().bytes; }
  bool same_process() const { return same_process_; }
  // Whether the peer's process has ended. One system call.
  bool process_ended() const;

 private:
  Mapping mapping_;
  FileDescriptor pidfd_;  // invalid if the kernel has no pidfd
  pid_t pid_ = 0;
  bool same_process_ = false;
};

enum class RemoteCopy {
  kDone,
  kRefused,   // not allowed for this process or on this system; another way may work
  kUnmapped,  // memory at either end is not mapped
  kGone,      // the process has ended
};

// Copies `bytes` from another process's memory (process_vm_readv(2)) or to it
// (process_vm_writev(2)). A copy that fails may be done in part.
RemoteCopy read_remote(pid_t pid, uint64_t from, std::byte* to, size_t bytes);
RemoteCopy write_remote(pid_t pid, const std::byte* from, uint64_t to, size_t bytes);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_SEGMENT_H_
