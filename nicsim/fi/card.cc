#include "nicsim/fi/card.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "nicsim/fi/provider.h"

namespace lanyard::nicsim::fi {

namespace {

int close_card(struct fid* fid) {
  auto* card = reinterpret_cast<struct fid_nic*>(fid);
  if (fi_device_attr* device = card->device_attr) {
    for (char* text :
         {device->name, device->device_id, device->device_version, device->vendor_id, device->driver, device->firmware})
      std::free(text);
  }
  if (card->link_attr != nullptr) {
    std::free(card->link_attr->address);
    std::free(card->link_attr->network_type);
  }
  std::free(card->device_attr);
  std::free(card->bus_attr);
  std::free(card->link_attr);
  std::free(card);
  return 0;
}

// libfabric asks for duplicates; one card is like the other, and there is nothing to refresh.
int control_card(struct fid*, int command, void* argument) {
  if (command != FI_DUP)
    return 0;
  auto** copy = static_cast<struct fid_nic**>(argument);
  *copy = describe_card();
  return *copy == nullptr ? -FI_ENOMEM : 0;
}

int print_card(const struct fid*, char* buffer, size_t bytes) {
  std::snprintf(buffer, bytes, "nic:\n    fi_device_attr:\n        name: %s\n", kDomainName);
  return 0;
}

fi_ops card_ops = {
    .size = sizeof(fi_ops),
    .close = close_card,
    .bind = not_simulated,
    .control = control_card,
    .ops_open = not_simulated,
    .tostr = print_card,
    .ops_set = nullptr,
};

template <typename T>
T* zeroed() {
  return static_cast<T*>(std::calloc(1, sizeof(T)));
}

}  // namespace

// cxip_nic.c: cxip_nic_alloc()
struct fid_nic* describe_card() {
  auto* card = zeroed<struct fid_nic>();
  if (card == nullptr)
    return nullptr;
  card->fid = {.fclass = FI_CLASS_NIC, .context = nullptr, .ops = &card_ops};
  card->device_attr = zeroed<fi_device_attr>();
  card->bus_attr = zeroed<fi_bus_attr>();
  card->link_attr = zeroed<fi_link_attr>();
  if (card->device_attr == nullptr || card->bus_attr == nullptr || card->link_attr == nullptr) {
    close_card(&card->fid);
    return nullptr;
  }
  *card->device_attr = {.name = ::strdup(kDomainName),
                        .device_id = ::strdup("0x501"),
                        .device_version = ::strdup("2"),
                        .vendor_id = ::strdup("0x17db"),
                        .driver = ::strdup("lanyard"),
                        .firmware = nullptr};
  card->bus_attr->bus_type = FI_BUS_UNKNOWN;
  *card->link_attr = {.address = ::strdup("0x0"),
                      .mtu = 2048,
                      .speed = 200'000'000'000,
                      .state = FI_LINK_UP,
                      .network_type = ::strdup("HPC Ethernet")};
  return card;
}

}  // namespace lanyard::nicsim::fi
