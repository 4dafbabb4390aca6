// Introductions: processes of a job send each other the addresses of their NICs. Nothing is
// collective, and other processes of the job need not use Lanyard.
//
// The first match with a peer sends it a letter over MPI with the address of this process's NIC.
// The peer answers over the NIC. From then on, neither program needs to make MPI calls. Both sides
// of a match send a letter, because neither knows which is first. A receive from any source sends
// none and only expects letters. A process that ends before the answer sends a second letter.
//
// Letters are messages on MPI_COMM_WORLD with a tag near MPI_TAG_UB. A receive or a probe of the
// program there with MPI_ANY_TAG would take them.
#ifndef LANYARD_API_INTRODUCTIONS_H_
#define LANYARD_API_INTRODUCTIONS_H_

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "api/context_lock.h"
#include "transport/core/control_plane.h"

namespace lanyard::api {

class Introductions {
 public:
  // Requires that MPI is initialised. `ranks`: the size of MPI_COMM_WORLD.
  Introductions(uint32_t rank, uint32_t ranks);
  // Cancels the receives of expected letters. Leaks letters that MPI has not sent yet.
  ~Introductions();
  Introductions(const Introductions&) = delete;
  Introductions& operator=(const Introductions&) = delete;

  // All functions below except look() make non-blocking MPI calls: use them only in calls of the
  // program. `plane` is null if this process has no NIC.

  // Sends a letter to the peer, once, and expects one from it.
  void introduce_to(uint32_t peer, const core::ControlPlane* plane) LANYARD_REQUIRES(context_locked);
  // Expects a letter from every process that has not sent one: any of them may be the source of a
  // receive. Letters may arrive while the program makes no call of Lanyard's.
  void expect_all() LANYARD_REQUIRES(context_locked);
  // If a letter is awaited: progresses letters in MPI, and reads those that have arrived.
  void progress(core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);
  // Reads the letters that have arrived. Makes no MPI call. Any thread.
  void look(core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);
  // Whether a match of this process may wait for a letter.
  bool awaits(core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);
  // For MPI_Finalize. Tells the peers that this process cannot tell over the NIC that it ends, and
  // gives them up.
  void take_leave(core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);
  // For MPI_Finalize: as progress(), whether a letter is awaited or not.
  void drain(core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);

 private:
  // Sent as bytes.
  struct Letter {
    enum class Kind : uint64_t { kHello = 1, kNoCard, kEnds };
    Kind kind{};
    uint64_t from = 0;  // rank of the sender
    core::Introduction introduction;
    uint64_t checksum = 0;  // of the members above; never 0
    uint64_t sum() const;
  };
  struct Post {
    MPI_Request request = MPI_REQUEST_NULL;
    Letter letter;
    bool read = false;
  };

  void send(uint32_t peer, Letter::Kind kind, const core::Introduction& introduction);
  void expect();
  void receive();
  void read(const Letter& letter, core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);

  const uint32_t rank_;
  int tag_ = 0;
  size_t heard_ = 0;                         // how many processes have sent a first letter
  std::vector<bool> written_;                // by rank: this process has sent it a letter
  std::vector<uint32_t> unanswered_;         // ranks that it has sent one, and may not know yet
  std::vector<std::unique_ptr<Post>> sent_;  // until MPI has sent them
  std::vector<std::unique_ptr<Post>> expected_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_INTRODUCTIONS_H_
