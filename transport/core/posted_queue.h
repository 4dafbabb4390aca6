// PostedQueue: the receives that wait for an offer. An offer takes the oldest that it fits (MPI 4.0 section 3.5).
#ifndef LANYARD_TRANSPORT_CORE_POSTED_QUEUE_H_
#define LANYARD_TRANSPORT_CORE_POSTED_QUEUE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "transport/core/envelope.h"
#include "transport/core/linked_table.h"
#include "transport/core/request.h"

namespace lanyard::core {

class PostedQueue {
 public:
  void add(Request& receive);
  // Requires that it is there.
  void remove(Request& receive);
  // The oldest that fits an offer with that envelope; null if there is none.
  Request* find(const Envelope& offer) const;
  bool empty() const { return table_.empty(); }

 private:
  struct Key {
    static Links<Request>& links(Request& receive) { return receive.posted_links; }
    static uint64_t hash(const Request& receive) { return envelope_of(receive).hash(); }
  };
  static Envelope envelope_of(const Request& receive) {
    return {receive.transfer.communicator, receive.transfer.peer, receive.transfer.tag};
  }

  LinkedTable<Request, Key> table_;  // by their own envelopes, wildcards and all
  std::array<size_t, Envelope::kKinds> count_{};
  uint64_t ever_posted_ = 0;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_POSTED_QUEUE_H_
