#include "transport/cxi/library.h"

#include <dlfcn.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace lanyard::ofi {

namespace {

template <typename Function>
bool find(void* library, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(dlsym(library, name));
  return out != nullptr;
}

Code code_of(int error) {
  switch (error) {
    case FI_EAGAIN:
    case FI_ENOSPC: return Code::kAgain;
    case FI_EINVAL:
    case FI_EACCES:
    case FI_E2BIG:
    case FI_EMSGSIZE: return Code::kInvalidArgument;
    case FI_EBUSY:
    case FI_EOPBADSTATE: return Code::kInvalidState;
    case FI_ENOKEY:
    case FI_EKEYREJECTED:
    case FI_ENOENT: return Code::kNotFound;
    case FI_ENOMEM:
    case FI_EMFILE: return Code::kExhausted;
    case FI_ENOSYS:
    case FI_EOPNOTSUPP:
    case FI_ENODATA:
    case FI_ENODEV: return Code::kUnsupported;
    case FI_ETIMEDOUT: return Code::kTimedOut;
    case FI_ETRUNC: return Code::kTruncated;
    default: return Code::kFailed;
  }
}

// fi_strerror() would need the library. Numbers below 256 are errno's.
std::string name_of(int error) {
  if (error > 0 && error < FI_ERRNO_OFFSET)
    return std::strerror(error);
  return "libfabric error " + std::to_string(error);
}

}  // namespace

Result<Library> Library::load() {
  // Keep the application's crashes visible (see library.h).
  setenv("IPATH_NO_BACKTRACE", "1", 0);
  void* handle = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    return Status(Code::kUnsupported, std::string("cannot load libfabric: ") + dlerror());
  Library library;
  if (!find(handle, "fi_getinfo", library.getinfo) || !find(handle, "fi_freeinfo", library.freeinfo) ||
      !find(handle, "fi_dupinfo", library.dupinfo) || !find(handle, "fi_fabric", library.fabric) ||
      !find(handle, "fi_version", library.version_number))
    return Status(Code::kUnsupported, std::string("this libfabric lacks a function: ") + dlerror());
  return library;
}

std::string Library::version() const {
  const uint32_t number = version_number();
  return std::to_string(FI_MAJOR(number)) + "." + std::to_string(FI_MINOR(number));
}

Status ofi_status(int64_t returned, std::string_view what) {
  if (returned >= 0)
    return {};
  const int error = static_cast<int>(-returned);
  return {code_of(error), std::string(what) + ": " + name_of(error)};
}

Code ofi_code(int64_t returned) { return returned >= 0 ? Code::kOk : code_of(static_cast<int>(-returned)); }

Code completion_code(int err) {
  const Code code = code_of(err);
  // A completed operation cannot be retried by waiting.
  return code == Code::kAgain ? Code::kFailed : code;
}

// Time-outs are excluded, because a slow peer causes them too.
int unreachable_error(int err) {
  switch (err) {
    case FI_EHOSTUNREACH:
    case FI_EHOSTDOWN:
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN: return err;
    default: return 0;
  }
}

}  // namespace lanyard::ofi
