// Introductions: how the processes of a job get to know each other, without anything collective. Other
// processes of the job need not use Lanyard.
//
// The first match with a peer sends it a letter, by MPI: the address of this process's network card. A
// process that has got a letter answers by the card, so that no MPI call of either program is needed any
// more. Both sides of a match send one, as neither knows which comes first; a receive from any source
// only waits for letters. A process that ends before it was answered says so by a second letter.
//
// Letters travel on MPI_COMM_WORLD with a tag near MPI_TAG_UB. A receive of the program's there with
// MPI_ANY_TAG would take them.
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
  // MPI is initialised.
  Introductions(uint32_t rank, uint32_t ranks);
  // Letters that MPI has not sent stay in memory.
  ~Introductions();
  Introductions(const Introductions&) = delete;
  Introductions& operator=(const Introductions&) = delete;

  // The functions below but look() make MPI calls that do not block; the thread is in a call of the
  // program's. `plane`: null where this process has no network card.

  // Sends a letter to the peer, once, and expects one from it.
  void introduce_to(uint32_t peer, const core::ControlPlane* plane) LANYARD_REQUIRES(context_locked);
  // Expects a letter from anybody who has not sent one.
  void expect() LANYARD_REQUIRES(context_locked);
  // Expects one more letter, where none is expected: a peer that ends may send a second one.
  void listen() LANYARD_REQUIRES(context_locked);
  // Lets MPI make progress with letters, and reads those that have come.
  void progress(core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);
  // Reads the letters that have come. No MPI call: any thread.
  void look(core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);
  // Whether a letter is expected.
  bool expects() const LANYARD_REQUIRES(context_locked) { return !expected_.empty(); }
  // Tells the peers that have not answered that this process ends.
  void take_leave(const core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);
  // Expects nothing any more.
  void stop() LANYARD_REQUIRES(context_locked);

 private:
  // Plain data.
  struct Letter {
    enum class Kind : uint64_t { kHello = 1, kNoCard, kEnds };
    Kind kind{};
    uint64_t from = 0;  // rank
    core::Introduction introduction;
    uint64_t checksum = 0;  // of all before; never 0
    uint64_t sum() const;
  };
  struct Post {
    MPI_Request request = MPI_REQUEST_NULL;
    Letter letter;
    bool read = false;
  };

  void send(uint32_t peer, Letter::Kind kind, const core::Introduction& introduction);
  void receive();
  void read(const Letter& letter, core::ControlPlane& plane) LANYARD_REQUIRES(context_locked);

  const uint32_t rank_;
  int tag_ = 0;
  size_t heard_ = 0;                         // processes that have sent a letter
  std::vector<bool> written_;                // by rank: a letter was sent to it
  std::vector<std::unique_ptr<Post>> sent_;  // until MPI has taken them
  std::vector<std::unique_ptr<Post>> expected_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_INTRODUCTIONS_H_
