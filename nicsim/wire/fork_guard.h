// ForkGuard: closes a socket in the children of this process.
//
// A child made by fork(2) has all descriptors of its parent and keeps its connections open. Peers
// would take a parent that has ended for one that is silent. So a child closes them before fork()
// returns in it.
#ifndef LANYARD_NICSIM_WIRE_FORK_GUARD_H_
#define LANYARD_NICSIM_WIRE_FORK_GUARD_H_

namespace lanyard::nicsim {

// Threads: one at a time; any thread may call fork().
class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard() { release(); }

  // Guards one socket, from when it is open until release(). Call release() before closing it.
  void watch(int socket);
  // Shuts the socket down, because children that fork() did not make (clone(2)) may hold it. May be
  // repeated; does nothing in a child.
  void release();

 private:
  int socket_ = -1;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_FORK_GUARD_H_
