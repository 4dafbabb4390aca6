#include "nicsim/fi/address_vector.h"

#include <cstring>
#include <new>

#include "nicsim/fi/provider.h"

namespace lanyard::nicsim::fi {

fi_addr_t AddressVector::insert(const nic::Address& address) {
  const Result<uint32_t> peer = domain_.peers().add(address);
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

AddressVector* vector_of(struct fid_av* vector) { return static_cast<AddressVector*>(vector); }

int close_vector(struct fid* fid) {
  auto* vector = object_of<AddressVector, fid_av>(fid);
  if (vector->endpoints.load() > 0)
    return -FI_EBUSY;
  vector->domain().close_child();
  delete vector;
  return 0;
}

int insert(struct fid_av* fid, const void* addresses, size_t count, fi_addr_t* places, uint64_t flags, void*) {
  // FI_MORE is only a hint. Other flags would need other behaviour.
  if ((flags & ~FI_MORE) != 0 || addresses == nullptr)
    return -FI_EINVAL;
  AddressVector* vector = vector_of(fid);
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
    vector_of(fid)->remove(places[i]);
  return 0;
}

fi_ops vector_fid_ops = fid_ops(close_vector);

fi_ops_av vector_ops = {
    .size = sizeof(fi_ops_av),
    .insert = insert,
    .insertsvc = not_simulated,
    .insertsym = not_simulated,
    .remove = remove,
    .lookup = not_simulated,
    .straddr = [](struct fid_av*, const void*, char*, size_t*) -> const char* { return kDomainName; },
    .av_set = not_simulated,
};

}  // namespace

int open_address_vector(struct fid_domain* fid, struct fi_av_attr* attributes, struct fid_av** out, void* context) {
  if (attributes != nullptr) {
    if (attributes->flags != 0 || attributes->name != nullptr || attributes->rx_ctx_bits != 0)
      return refuse(FI_ENOSYS, FI_LOG_AV, "the simulated provider has only private, synchronous address vectors");
    attributes->type = attributes->type == FI_AV_UNSPEC ? FI_AV_TABLE : attributes->type;
  }
  auto* domain = &static_cast<Domain&>(*fid);
  auto* vector = new (std::nothrow) AddressVector(*domain);
  if (vector == nullptr)
    return -FI_ENOMEM;
  vector->fid = {.fclass = FI_CLASS_AV, .context = context, .ops = &vector_fid_ops};
  vector->ops = &vector_ops;
  domain->open_child();
  *out = vector;
  return 0;
}

}  // namespace lanyard::nicsim::fi
