#include "transport/cxi/library.h"

#include <dlfcn.h>

#include <cstdlib>

namespace lanyard::ofi {

namespace {

template <typename Function>
bool find(void* library, const char* name, Function*& out) {
  out = reinterpret_cast<Function*>(dlsym(library, name));
  return out != nullptr;
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

}  // namespace lanyard::ofi
