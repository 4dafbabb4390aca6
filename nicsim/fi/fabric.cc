#include "nicsim/fi/fabric.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <new>
#include <string_view>

#include "nicsim/fi/domain.h"
#include "nicsim/fi/provider.h"

namespace lanyard::nicsim::fi {

namespace {

int close_fabric(struct fid* fid) {
  auto* fabric = object_of<Fabric, fid_fabric>(fid);
  if (fabric->domains.load() > 0)
    return -FI_EBUSY;
  delete fabric;
  return 0;
}

fi_ops fabric_fid_ops = {
    .size = sizeof(fi_ops),
    .close = close_fabric,
    .bind = not_simulated,
    .control = not_simulated,
    .ops_open = not_simulated,
    .tostr = nullptr,
    .ops_set = nullptr,
};

fi_ops_fabric fabric_ops = {
    .size = sizeof(fi_ops_fabric),
    .domain = open_domain,
    .passive_ep = not_simulated,
    .eq_open = not_simulated,
    .wait_open = not_simulated,
    .trywait = not_simulated,
    .domain2 = nullptr,
};

}  // namespace

int open_fabric(struct fi_fabric_attr* attributes, struct fid_fabric** out, void* context) {
  if (attributes == nullptr || attributes->name == nullptr || std::string_view(attributes->name) != kFabricName)
    return -FI_ENODATA;
  if (out == nullptr)
    return -FI_EINVAL;
  auto* fabric = new (std::nothrow) Fabric();
  if (fabric == nullptr)
    return -FI_ENOMEM;
  fabric->fid = {.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fid_ops};
  fabric->ops = &fabric_ops;
  fabric->api_version = attributes->api_version;
  *out = fabric;
  return 0;
}

}  // namespace lanyard::nicsim::fi
