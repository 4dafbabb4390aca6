#include "nicsim/fi/address_vector.h"

#include <algorithm>
#include <cstring>

#include "nicsim/fi/domain.h"

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
  const auto found = std::ranges::find(peers_, address.bytes, &nic::Address::bytes);
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

Status PeerTable::complete_if_whole(size_t nics) {
  if (complete_.load(std::memory_order_acquire))
    return {};
  const std::lock_guard lock(mutex_);
  const bool whole = nics == 0 || (self_ != UINT32_MAX && peers_.size() >= nics);
  return whole ? complete_locked() : Status();
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

// ---- libfabric's view

AddressVector::AddressVector(Domain& domain) : domain_(use(domain)) {}

AddressVector::~AddressVector() = default;

fi_addr_t AddressVector::insert(const nic::Address& address) {
  const Result<uint32_t> peer = domain_->peers().add(address);
  if (!peer.ok()) {
    error_of(peer.status(), FI_LOG_AV);
    return FI_ADDR_NOTAVAIL;
  }
  const std::lock_guard lock(mutex_);
  peers_.emplace_back(peer.value());
  return peers_.size() - 1;
}

void AddressVector::remove(fi_addr_t place) {
  const std::lock_guard lock(mutex_);
  if (place < peers_.size())
    peers_[place].reset();
}

std::optional<uint32_t> AddressVector::peer(fi_addr_t place) const {
  const std::lock_guard lock(mutex_);
  return place < peers_.size() ? peers_[place] : std::nullopt;
}

namespace {

int insert(struct fid_av* fid, const void* addresses, size_t count, fi_addr_t* places, uint64_t flags, void*) {
  // FI_MORE is only a hint. Other flags would need other behaviour.
  if ((flags & ~FI_MORE) != 0 || addresses == nullptr)
    return -FI_EINVAL;
  auto* vector = object_of<AddressVector>(fid);
  int inserted = 0;
  // All addresses of a job have the length of this NIC's own.
  const nic::Address& own = vector->domain().peers().own();
  const size_t bytes = own.bytes.size();
  for (size_t i = 0; i < count; ++i) {
    const std::byte* address = static_cast<const std::byte*>(addresses) + i * bytes;
    // The first word names the wire.
    const bool is_ours = std::memcmp(address, own.bytes.data(), sizeof(uint32_t)) == 0;
    const fi_addr_t place = is_ours ? vector->insert({.bytes = {address, address + bytes}}) : FI_ADDR_NOTAVAIL;
    if (places != nullptr)
      places[i] = place;
    inserted += place != FI_ADDR_NOTAVAIL;
  }
  if (count > 1)
    if (const Status whole = vector->domain().peers().complete_if_whole(2); !whole.ok())
      return error_of(whole, FI_LOG_AV);
  return inserted;
}

int remove(struct fid_av* fid, fi_addr_t* places, size_t count, uint64_t) {
  for (size_t i = 0; i < count; ++i)
    object_of<AddressVector>(fid)->remove(places[i]);
  return 0;
}

fi_ops vector_fid_ops = fid_ops<AddressVector>();

fi_ops_av vector_ops = table_of<fi_ops_av>([](auto& ops) {
  ops.insert = insert;
  ops.remove = remove;
  ops.straddr = [](struct fid_av*, const void*, char*, size_t*) -> const char* { return kDomainName; };
});

}  // namespace

int open_address_vector(struct fid_domain* fid, struct fi_av_attr* attributes, struct fid_av** out, void* context) {
  if (attributes != nullptr) {
    if (attributes->flags != 0 || attributes->name != nullptr || attributes->rx_ctx_bits != 0)
      return refuse(FI_ENOSYS, FI_LOG_AV, "the simulated provider has only private, synchronous address vectors");
    attributes->type = attributes->type == FI_AV_UNSPEC ? FI_AV_TABLE : attributes->type;
  }
  auto* vector = new AddressVector(*object_of<Domain>(fid));
  vector->ops = &vector_ops;
  return hand_out(vector, FI_CLASS_AV, context, vector_fid_ops, out);
}

}  // namespace lanyard::nicsim::fi
