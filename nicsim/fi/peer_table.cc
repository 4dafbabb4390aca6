#include "nicsim/fi/peer_table.h"

#include <algorithm>
#include <cstring>

namespace lanyard::nicsim::fi {

namespace {

nic::Address with_number(nic::Address wire, uint32_t number) {
  const auto* first = reinterpret_cast<const std::byte*>(&number);
  wire.bytes.insert(wire.bytes.end(), first, first + sizeof number);
  return wire;
}

nic::Address without_number(nic::Address address) {
  address.bytes.resize(address.bytes.size() - sizeof(uint32_t));
  return address;
}

uint32_t number_of(const nic::Address& address) {
  uint32_t number = 0;
  std::memcpy(&number, address.bytes.data() + address.bytes.size() - sizeof number, sizeof number);
  return number;
}

}  // namespace

PeerTable::PeerTable(ThreadedNic& nic, const Numbering& numbering)
    : nic_(nic),
      numbering_(numbering),
      own_(with_number(nic.address(), numbering.processes > 0 ? numbering.number : kNoNumber)) {
  if (numbering.processes == 0)
    return;
  peers_.resize(numbering.processes);
  peers_[numbering.number] = own_;
  self_ = numbering.number;
}

Result<uint32_t> PeerTable::add(const nic::Address& address) {
  const std::lock_guard lock(mutex_);
  if (numbering_.processes > 0)
    return add_numbered(address);
  const auto found =
      std::find_if(peers_.begin(), peers_.end(), [&](const nic::Address& peer) { return peer.bytes == address.bytes; });
  const auto place = static_cast<uint32_t>(found - peers_.begin());
  if (found != peers_.end())
    return place;
  if (complete_.load())
    return Status(Code::kInvalidState, "the simulated NIC is in use: insert all addresses before the first operation");
  peers_.push_back(address);
  if (address.bytes == own_.bytes)
    self_ = place;
  return place;
}

Result<uint32_t> PeerTable::add_numbered(const nic::Address& address) {
  const uint32_t number = number_of(address);
  if (number >= peers_.size())
    return Status(Code::kInvalidArgument, "the address belongs to a process without a number from the launcher");
  LANYARD_RETURN_IF_ERROR(complete_locked());
  if (peers_[number].bytes == address.bytes)
    return number;
  LANYARD_RETURN_IF_ERROR(nic_.add_peer(number, without_number(address)));
  peers_[number] = address;
  return number;
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
            "insert the addresses of all endpoints in the same order everywhere, including this endpoint's own"};
  std::vector<nic::Address> wires;
  for (const nic::Address& peer : peers_)
    wires.push_back(peer.bytes.empty() ? peer : without_number(peer));
  LANYARD_RETURN_IF_ERROR(nic_.set_peers(wires, self_));
  complete_.store(true, std::memory_order_release);
  return {};
}

}  // namespace lanyard::nicsim::fi
