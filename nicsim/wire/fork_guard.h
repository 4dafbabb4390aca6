// ForkGuard: a socket that the children of this process do not keep.
//
// A child that fork(2) makes has all descriptors of its parent. While it lives it would keep the parent's connections
// open, and whoever is at the other end would take a parent that has ended for one that says nothing. So a child closes
// them before fork() returns to it.
#ifndef LANYARD_NICSIM_WIRE_FORK_GUARD_H_
#define LANYARD_NICSIM_WIRE_FORK_GUARD_H_

namespace lanyard::nicsim {

// Threads: one at a time; fork() may come from any.
class ForkGuard {
 public:
  ForkGuard() = default;
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;
  ~ForkGuard() { release(); }

  // A socket, from when it is open until release(), which comes before its end. One at a time.
  void watch(int socket);
  // Shuts the socket down, for those children that fork() did not make (clone(2)). May be repeated; does nothing in a
  // child.
  void release();

 private:
  int socket_ = -1;
};

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_WIRE_FORK_GUARD_H_
