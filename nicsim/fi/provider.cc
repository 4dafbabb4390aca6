#include "nicsim/fi/provider.h"

#include "nicsim/fi/fabric.h"
#include "nicsim/fi/info.h"

// libfabric looks this up by name in a shared object that it has loaded (fi_provider(3)). Its
// prototype is written by hand: the macro in fi_prov.h needs another one that only libfabric's own
// build defines.
extern "C" __attribute__((visibility("default"))) struct fi_provider* fi_prov_ini(void);

namespace lanyard::nicsim::fi {

namespace {

void cleanup() {}

struct fi_provider& instance() {
  static struct fi_provider provider = [] {
    struct fi_provider made = {};
    made.name = "cxi";
    // libfabric takes providers that speak at least the version an application asks for.
    made.version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    made.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
    made.getinfo = get_info;
    made.fabric = open_fabric;
    made.cleanup = cleanup;
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
  // Back-pressure is no mistake and comes often.
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
