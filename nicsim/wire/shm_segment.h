// Shared memory between the NICs of one host, and what can be done to another process: map its
// memory, read and write its memory, see it die.
//
// A segment is a memfd: it has no name that could be left behind, and goes with the last process
// that maps it. Peers reach it through /proc/PID/fd/FD, which needs the same user, and the same pid and
// user namespaces; a random nonce tells a segment from another one that got the same numbers later.
#ifndef LANYARD_NICSIM_WIRE_SHM_SEGMENT_H_
#define LANYARD_NICSIM_WIRE_SHM_SEGMENT_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "transport/base/status.h"
#include "transport/nic/nic.h"

namespace lanyard::nicsim {

// Plain data of which a nic::Address carries a copy. The first word, `tag`, is the same in all of a wire's.
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
  uint32_t user_namespace = 0;  // files of processes in another one cannot be opened, in one direction or both
  uint64_t host = 0;            // from the kernel's boot id: one running kernel
  uint64_t pid_namespace = 0;   // pids mean something within it only; 0: there is no /proc
  uint64_t nonce = 0;
  uint64_t base = 0;  // of the segment in its owner's memory
  uint64_t bytes = 0;
};

// A file descriptor, closed in the end. Move-only.
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

// Mapped shared memory, unmapped in the end. Move-only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Mapping();
  // Maps a file that can be written. All pages are there afterwards: no page faults later.
  static Result<Mapping> map(int fd, size_t bytes);
  void* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  void* base_ = nullptr;
  size_t bytes_ = 0;
};

// This process's own segment, zeroed, of a size that nobody can change (so that nobody can make a
// peer fault by cutting it off).
struct OwnSegment {
  FileDescriptor fd;
  Mapping mapping;
  ShmAddress address;
  // kFailed with the system's reason. Random nonce.
  static Result<OwnSegment> create(size_t bytes);
};

// A peer's segment in this process, and a hold on the peer itself. Movable.
class PeerSegment {
 public:
  PeerSegment() = default;
  // kNotFound where the peer has gone, kFailed where it lives and cannot be reached; the message is as of
  // nic::Nic::why_lost(). The nonce remains to be checked by whoever knows the contents.
  static Result<PeerSegment> open(const ShmAddress& address);

  void* base() const { return mapping_.base(); }
  size_t bytes() const { return mapping_.bytes(); }
  bool same_process() const { return same_process_; }
  // Whether the peer's process has ended. A system call.
  bool process_ended() const;

 private:
  Mapping mapping_;
  FileDescriptor pidfd_;  // none where the kernel has no pidfd
  pid_t pid_ = 0;
  bool same_process_ = false;
};

enum class RemoteCopy {
  kDone,
  kRefused,   // not for this process or on this system: another way may work
  kUnmapped,  // memory at either end is not there
  kGone,      // the process has ended
};

// Copies `bytes` from another process's memory (process_vm_readv(2)), and to it
// (process_vm_writev(2)). A copy that fails may have been done in part.
RemoteCopy read_remote(pid_t pid, uint64_t from, std::byte* to, size_t bytes);
RemoteCopy write_remote(pid_t pid, const std::byte* from, uint64_t to, size_t bytes);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_SHM_SEGMENT_H_
