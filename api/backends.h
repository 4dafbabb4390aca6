// The composition root: the only place that names drivers.
#ifndef LANYARD_API_BACKENDS_H_
#define LANYARD_API_BACKENDS_H_

#include <memory>

#include "api/settings.h"
#include "transport/nic/nic.h"

namespace lanyard::api {

// The NIC that the settings ask for, without peers yet. kUnsupported, or whatever kept the device from opening.
Result<std::unique_ptr<nic::Nic>> open_nic(const Settings& settings);

}  // namespace lanyard::api

#endif  // LANYARD_API_BACKENDS_H_
