#include "nicsim/fi/address_vector.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "nicsim/fi/provider.h"

namespace lanyard::nicsim::fi {

fi_addr_t AddressVector::insert(const EndpointAddress& address) {
  const std::optional<nic::Address> nic = address.nic_address();
  if (!nic.has_value())
    return FI_ADDR_NOTAVAIL;
  const Result<uint32_t> peer = domain_.peers().add(*nic);
  if (!peer.ok()) {
    error_of(peer.status(), FI_LOG_AV);
    return FI_ADDR_NOTAVAIL;
  }
  const std::lock_guard lock(mutex_);
  entries_.push_back({.address = address, .peer = peer.value()});
  return entries_.size() - 1;
}

const AddressVector::Entry* AddressVector::find(fi_addr_t place) const {
  return place < entries_.size() && !entries_[place].removed ? &entries_[place] : nullptr;
}

void AddressVector::remove(fi_addr_t place) {
  const std::lock_guard lock(mutex_);
  if (place < entries_.size())
    entries_[place].removed = true;
}

std::optional<EndpointAddress> AddressVector::address(fi_addr_t place) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(place);
  return entry == nullptr ? std::nullopt : std::optional(entry->address);
}

std::optional<uint32_t> AddressVector::peer(fi_addr_t place) const {
  const std::lock_guard lock(mutex_);
  const Entry* entry = find(place);
  return entry == nullptr ? std::nullopt : std::optional(entry->peer);
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
  // FI_MORE is a hint; whatever else there is would have to be done in another way.
  if ((flags & ~FI_MORE) != 0 || addresses == nullptr)
    return -FI_EINVAL;
  AddressVector* vector = vector_of(fid);
  int inserted = 0;
  for (size_t i = 0; i < count; ++i) {
    EndpointAddress address;
    std::memcpy(static_cast<void*>(&address), static_cast<const std::byte*>(addresses) + i * sizeof address,
                sizeof address);
    const fi_addr_t place = vector->insert(address);
    if (places != nullptr)
      places[i] = place;
    inserted += place != FI_ADDR_NOTAVAIL;
  }
  if (count > 1)
    vector->domain().peers().complete_if_whole(2);
  return inserted;
}

int remove(struct fid_av* fid, fi_addr_t* places, size_t count, uint64_t) {
  if (places == nullptr && count > 0)
    return -FI_EINVAL;
  for (size_t i = 0; i < count; ++i)
    vector_of(fid)->remove(places[i]);
  return 0;
}

int lookup(struct fid_av* fid, fi_addr_t place, void* buffer, size_t* bytes) {
  const std::optional<EndpointAddress> address = vector_of(fid)->address(place);
  if (!address.has_value() || bytes == nullptr || (buffer == nullptr && *bytes > 0))
    return -FI_EINVAL;
  if (buffer != nullptr)
    std::memcpy(buffer, &*address, std::min(*bytes, sizeof *address));
  *bytes = sizeof *address;
  return 0;
}

const char* print(struct fid_av*, const void* bytes, char* buffer, size_t* length) {
  if (bytes == nullptr || length == nullptr || (buffer == nullptr && *length > 0))
    return nullptr;
  EndpointAddress address;
  std::memcpy(static_cast<void*>(&address), bytes, sizeof address);
  uint32_t hash = 0;
  for (const std::byte byte : address.nic)
    hash = hash * 31 + static_cast<uint32_t>(byte);
  const int wanted = std::snprintf(buffer, *length, "lanyard-cxi://%08x:%u", hash, unsigned{address.endpoint});
  *length = static_cast<size_t>(wanted) + 1;
  return buffer;
}

fi_ops vector_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_vector,
    .bind = not_simulated,
    .control = not_simulated,
    .ops_open = not_simulated,
    .tostr = nullptr,
    .ops_set = nullptr,
};

fi_ops_av vector_ops = {
    .size = sizeof(fi_ops_av),
    .insert = insert,
    .insertsvc = not_simulated,
    .insertsym = not_simulated,
    .remove = remove,
    .lookup = lookup,
    .straddr = print,
    .av_set = not_simulated,
};

}  // namespace

int open_address_vector(struct fid_domain* fid, struct fi_av_attr* attributes, struct fid_av** out, void* context) {
  if (out == nullptr)
    return -FI_EINVAL;
  if (attributes != nullptr) {
    // cxip_av.c: cxip_av_open(): a promise of the user's, that all have the same vector.
    if ((attributes->flags & ~FI_SYMMETRIC) != 0 || attributes->name != nullptr || attributes->rx_ctx_bits != 0)
      return refuse(FI_ENOSYS, FI_LOG_AV, "the simulated vectors are private and synchronous");
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
