#include "nicsim/fi/peer_table.h"

#include <algorithm>

namespace lanyard::nicsim::fi {

Result<uint32_t> PeerTable::add(const nic::Address& address) {
  const std::lock_guard lock(mutex_);
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const nic::Address& peer) { return peer.bytes == address.bytes; });
  const auto place = static_cast<uint32_t>(found - peers_.begin());
  if (found != peers_.end())
    return place;
  if (complete_.load())
    return Status(Code::kInvalidState,
                  "the simulated NIC has been used: it takes no address that it did not know before");
  peers_.push_back(address);
  if (address.bytes == own_.bytes)
    self_ = place;
  return place;
}

Status PeerTable::complete() {
  if (complete_.load(std::memory_order_acquire))
    return {};
  const std::lock_guard lock(mutex_);
  return complete_locked();
}

Status PeerTable::complete_if_whole(size_t nics) {
  if (complete_.load(std::memory_order_acquire))
    return {};
  const std::lock_guard lock(mutex_);
  return self_ != UINT32_MAX && peers_.size() >= nics ? complete_locked() : Status();
}

Status PeerTable::complete_locked() {
  if (complete_.load())
    return {};
  if (self_ == UINT32_MAX)
    return {Code::kInvalidState,
            "insert the addresses of all endpoints in the same order everywhere, the own included"};
  LANYARD_RETURN_IF_ERROR(nic_.set_peers(peers_, self_));
  complete_.store(true, std::memory_order_release);
  return {};
}

}  // namespace lanyard::nicsim::fi
