#include "nicsim/fi/provider.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <string_view>

#include "nicsim/fi/domain.h"

// libfabric looks up this name in each shared object that it loads (fi_provider(3)). The macro in
// fi_prov.h would need a macro of libfabric's own build.
extern "C" __attribute__((visibility("default"))) struct fi_provider* fi_prov_ini(void);

namespace lanyard::nicsim::fi {

namespace {

fi_ops fabric_fid_ops = fid_ops<Fabric>();

fi_ops_fabric fabric_ops = table_of<fi_ops_fabric>([](auto& ops) { ops.domain = open_domain; });

int open_fabric(struct fi_fabric_attr* attributes, struct fid_fabric** out, void* context) {
  if (attributes == nullptr || attributes->name == nullptr || std::string_view(attributes->name) != kFabricName)
    return -FI_ENODATA;
  auto* fabric = new Fabric;
  fabric->ops = &fabric_ops;
  fabric->api_version = attributes->api_version;
  return hand_out(fabric, FI_CLASS_FABRIC, context, fabric_fid_ops, out);
}

struct fi_provider& instance() {
  static struct fi_provider provider = [] {
    struct fi_provider made = {};
    made.name = "cxi";
    // libfabric refuses a provider whose version is older than the one that
    // the application asks for.
    made.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    made.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    made.getinfo = get_info;
    made.fabric = open_fabric;
    made.cleanup = [] {};
    return made;
  }();
  return provider;
}

int errno_of(Code code) {
  switch (code) {
    case Code::kOk: return 0;
    case Code::kAgain: return FI_EAGAIN;
    case Code::kInvalidArgument: return FI_EINVAL;
    case Code::kInvalidState: return FI_EOPBADSTATE;
    case Code::kNotFound: return FI_EINVAL;
    case Code::kExhausted: return FI_ENOSPC;
    case Code::kUnsupported: return FI_EOPNOTSUPP;
    case Code::kTimedOut: return FI_ETIMEDOUT;
    case Code::kTruncated: return FI_ETRUNC;
    case Code::kUnmapped: return FI_EFAULT;
    case Code::kFailed: return FI_EIO;
  }
  return FI_EOTHER;
}

}  // namespace

const struct fi_provider& provider() { return instance(); }

int error_of(const Status& status, fi_log_subsys subsystem) {
  if (status.ok())
    return 0;
  // Back-pressure is frequent and no error: do not log it.
  if (status.code() == Code::kAgain)
    return -FI_EAGAIN;
  return refuse(errno_of(status.code()), subsystem, status.message().c_str());
}

int refuse(int error, fi_log_subsys subsystem, const char* why) {
  FI_WARN(&instance(), subsystem, "%s\n", why);
  return -error;
}

}  // namespace lanyard::nicsim::fi

struct fi_provider* fi_prov_ini(void) {
  return &lanyard::nicsim::fi::instance();
}
