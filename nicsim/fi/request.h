// Requests: what the host still owes an operation that the NIC has, so that its event can be given
// a meaning.
#ifndef LANYARD_NICSIM_FI_REQUEST_H_
#define LANYARD_NICSIM_FI_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace lanyard::nicsim::fi {

class Endpoint;

struct Request {
  Endpoint* endpoint = nullptr;  // null once it has been closed
  void* context = nullptr;       // the user's
  uint64_t flags = 0;            // of the completion entry: FI_RMA | FI_WRITE, ...
  size_t bytes = 0;
  bool visible = false;    // success makes a completion entry; failure always does
  bool holds_slot = true;  // until its event has been read
};

// The requests of a domain by the number that travels in nic::Op::context. Threads: its owner's
// lock.
class RequestTable {
 public:
  // Numbers that are no request's: of entries that concern nobody, and of those that write a
  // counter back.
  static constexpr uint64_t kNobody = 0;
  static constexpr uint64_t kWriteback = UINT64_MAX;

  uint64_t add(const Request& request);
  // The request, which is then no longer there; nothing for kNobody and kWriteback.
  std::optional<Request> take(uint64_t number);
  // From now on nobody asks for the events of this endpoint.
  void forget(const Endpoint* endpoint);
  size_t size() const { return requests_.size() - free_.size(); }

 private:
  struct Place {
    Request request;
    bool used = false;
  };
  std::vector<Place> requests_;
  std::vector<uint64_t> free_;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_REQUEST_H_
