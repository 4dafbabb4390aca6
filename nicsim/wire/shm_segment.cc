#include "nicsim/wire/shm_segment.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "transport/base/reserve.h"

namespace lanyard::nicsim {

namespace {

Status system_failure(const char* what) { return {Code::kFailed, std::string(what) + ": " + std::strerror(errno)}; }

// Equal in all processes under one running kernel, containers included.
uint64_t host_identity() {
  std::string text;
  if (!std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text)) {
    text.resize(256);
    ::gethostname(text.data(), text.size() - 1);
  }
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char each : text)
    hash = (hash ^ static_cast<unsigned char>(each)) * 0x100000001b3;
  return hash;
}

constexpr const char* kTcpDoes = "; LANYARD_SIM_WIRE=tcp on all ranks needs no shared memory";

// 0 if the system does not tell.
ino_t namespace_of_this_process(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 ? info.st_ino : 0;
}

// The status for a peer that lives.
Status unreachable(const std::string& what, int error) {
  std::string text = nic::kCannotBeReached + what + ": " + std::strerror(error);
  if (error == EMFILE)
    text += " (ulimit -n)";
  else if (error == EACCES || error == EPERM || error == ENOENT)
    text += kTcpDoes;
  return {Code::kFailed, std::move(text)};
}

// Maps a writable file. All pages exist afterwards, so there are no page faults later.
Result<Mapping> map(int fd, size_t bytes) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (base == MAP_FAILED)
    return system_failure("mmap");
  return Mapping(base, Unmap{bytes});
}

RemoteCopy copy_remote(decltype(::process_vm_readv)& call, pid_t pid, std::byte* here, uint64_t there, size_t bytes) {
  while (bytes > 0) {
    const iovec local{here, bytes};
    const iovec remote{reinterpret_cast<void*>(there), bytes};
    const ssize_t count = call(pid, &local, 1, &remote, 1, 0);
    if (count < 0) {
      if (errno == EINTR)
        continue;
      if (errno == EFAULT)
        return RemoteCopy::kUnmapped;
      return errno == ESRCH ? RemoteCopy::kGone : RemoteCopy::kRefused;
    }
    if (count == 0)
      return RemoteCopy::kUnmapped;
    here += count;
    there += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return RemoteCopy::kDone;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0)
    ::close(fd_);
}

void Unmap::operator()(void* base) const { ::munmap(base, bytes); }

Result<OwnSegment> OwnSegment::create(size_t bytes) {
  OwnSegment segment;
  segment.fd = FileDescriptor(::memfd_create("lanyard-nic", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!segment.fd.valid())
    return system_failure("memfd_create");
  const int fd = segment.fd.get();
  if (const Status room = reserve_file(fd, bytes); !room.ok())
    return Status(room.code(), room.message() + kTcpDoes);
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_failure("F_ADD_SEALS");
  LANYARD_ASSIGN_OR_RETURN(segment.mapping, map(fd, bytes));

  ShmAddress& address = segment.address;
  address.pid = ::getpid();
  address.fd = fd;
  address.host = host_identity();
  address.pid_namespace = namespace_of_this_process("/proc/self/ns/pid");
  address.user_namespace = static_cast<uint32_t>(namespace_of_this_process("/proc/self/ns/user"));
  address.base = reinterpret_cast<uint64_t>(segment.mapping.get());
  address.bytes = bytes;
  if (::getrandom(&address.nonce, sizeof address.nonce, 0) != sizeof address.nonce)
    return system_failure("getrandom");
  return segment;
}

Result<PeerSegment> PeerSegment::open(const ShmAddress& address) {
  const Status has_ended(Code::kNotFound, nic::kHasEnded);
  PeerSegment segment;
  segment.pid_ = address.pid;
  segment.same_process_ = address.pid == ::getpid();
  // Open the process before its file: if the file is the right one, so is the process.
  if (!segment.same_process_)
    segment.pidfd_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, address.pid, 0)));
  const std::string folder = "/proc/" + std::to_string(address.pid) + "/fd";
  const std::string path = folder + "/" + std::to_string(address.fd);
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) {
    const int error = errno;
    // The folder can be read but the file is not there: a live process has closed it.
    const bool closed = error == ENOENT && ::access(folder.c_str(), F_OK) == 0;
    return closed || segment.process_ended() ? has_ended : unreachable("open " + path, error);
  }
  struct stat info {};
  const int seals = ::fcntl(file.get(), F_GET_SEALS);
  if (::fstat(file.get(), &info) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0 ||
      static_cast<uint64_t>(info.st_size) != address.bytes)
    return has_ended;  // the numbers now name something else
  Result<Mapping> mapping = map(file.get(), address.bytes);
  if (!mapping.ok())
    return Status(Code::kFailed, nic::kCannotBeReached + mapping.status().message());
  segment.mapping_ = std::move(mapping.value());
  return segment;
}

bool PeerSegment::process_ended() const {
  if (same_process_)
    return false;
  if (!pidfd_.valid())
    return ::kill(pid_, 0) != 0 && errno == ESRCH;  // misses zombies
  pollfd wanted{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&wanted, 1, 0) == 1;
}

RemoteCopy read_remote(pid_t pid, uint64_t from, std::byte* to, size_t bytes) {
  return copy_remote(::process_vm_readv, pid, to, from, bytes);
}

RemoteCopy write_remote(pid_t pid, const std::byte* from, uint64_t to, size_t bytes) {
  return copy_remote(::process_vm_writev, pid, const_cast<std::byte*>(from), to, bytes);
}

}  // namespace lanyard::nicsim
