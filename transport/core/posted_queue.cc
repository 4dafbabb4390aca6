#include "transport/core/posted_queue.h"

namespace lanyard::core {

void PostedQueue::add(Request& receive) {
  receive.posted = ++ever_posted_;
  ++count_[envelope_of(receive).kind()];
  table_.add(receive);
}

void PostedQueue::remove(Request& receive) {
  --count_[envelope_of(receive).kind()];
  table_.remove(receive);
}

// Receives of one envelope stand in their order; of the oldest of each kind the first posted is taken.
Request* PostedQueue::find(const Envelope& offer) const {
  Request* oldest = nullptr;
  for (unsigned kind = 0; kind < Envelope::kKinds; ++kind) {
    if (count_[kind] == 0)
      continue;
    const Envelope wanted = offer.as(kind);
    Request* receive =
        table_.find(wanted.hash(), [&](const Request& request) { return envelope_of(request) == wanted; });
    if (receive != nullptr && (oldest == nullptr || receive->posted < oldest->posted))
      oldest = receive;
  }
  return oldest;
}

}  // namespace lanyard::core
