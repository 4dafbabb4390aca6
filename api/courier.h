// MpiCourier: carries matching cards over a communicator of Lanyard's own, so that no receive of the user's can take
// one.
#ifndef LANYARD_API_COURIER_H_
#define LANYARD_API_COURIER_H_

#include <mpi.h>

#include <list>

#include "transport/core/match_card.h"

namespace lanyard::api {

class MpiCourier final : public core::Courier {
 public:
  // `communicator` has the ranks of MPI_COMM_WORLD, carries nothing else, and outlives the courier.
  explicit MpiCourier(MPI_Comm communicator) : communicator_(communicator) {}
  // Cards that nobody has received are left behind.
  ~MpiCourier() override;

  Status send(uint32_t nic, const core::MatchCard& card) override;
  std::optional<core::MatchCard> receive() override;

 private:
  struct Sent {
    core::MatchCard card;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void collect_sent();

  const MPI_Comm communicator_;
  std::list<Sent> sent_;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_COURIER_H_
