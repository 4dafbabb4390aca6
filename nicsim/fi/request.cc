#include "nicsim/fi/request.h"

namespace lanyard::nicsim::fi {

uint64_t RequestTable::add(const Request& request) {
  if (free_.empty()) {
    requests_.push_back({.request = request, .used = true});
    return requests_.size();  // one more than the index: 0 is nobody's
  }
  const uint64_t index = free_.back();
  free_.pop_back();
  requests_[index] = {.request = request, .used = true};
  return index + 1;
}

std::optional<Request> RequestTable::take(uint64_t number) {
  if (number == kNobody || number > requests_.size() || !requests_[number - 1].used)
    return std::nullopt;
  requests_[number - 1].used = false;
  free_.push_back(number - 1);
  return requests_[number - 1].request;
}

void RequestTable::forget(const Endpoint* endpoint) {
  for (Place& place : requests_) {
    if (place.used && place.request.endpoint == endpoint)
      place.request.endpoint = nullptr;
  }
}

}  // namespace lanyard::nicsim::fi
