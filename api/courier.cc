#include "api/courier.h"

namespace lanyard::api {

namespace {
constexpr int kCardTag = 1;
}

MpiCourier::~MpiCourier() {
  collect_sent();
  // A card that nobody received is still the MPI's to read: it is left behind.
  if (!sent_.empty())
    (void)new std::list<Sent>(std::move(sent_));
}

Status MpiCourier::send(uint32_t nic, const core::MatchCard& card) {
  collect_sent();
  Sent& sent = sent_.emplace_back(Sent{card, MPI_REQUEST_NULL});
  const int code =
      PMPI_Isend(&sent.card, sizeof sent.card, MPI_BYTE, static_cast<int>(nic), kCardTag, communicator_, &sent.request);
  if (code == MPI_SUCCESS)
    return {};
  sent_.pop_back();
  return {Code::kFailed, "MPI could not carry a matching message to rank " + std::to_string(nic)};
}

std::optional<core::MatchCard> MpiCourier::receive() {
  collect_sent();
  int flag = 0;
  MPI_Message message;
  if (PMPI_Improbe(MPI_ANY_SOURCE, kCardTag, communicator_, &flag, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS || !flag)
    return std::nullopt;
  core::MatchCard card;
  if (PMPI_Mrecv(&card, sizeof card, MPI_BYTE, &message, MPI_STATUS_IGNORE) != MPI_SUCCESS)
    return std::nullopt;
  return card;
}

void MpiCourier::collect_sent() {
  for (auto sent = sent_.begin(); sent != sent_.end();) {
    int done = 0;
    PMPI_Test(&sent->request, &done, MPI_STATUS_IGNORE);
    sent = done ? sent_.erase(sent) : std::next(sent);
  }
}

}  // namespace lanyard::api
