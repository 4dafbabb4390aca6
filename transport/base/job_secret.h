// What the processes of one job know and nobody else does: made by one of them, carried to the others by the MPI.
#ifndef LANYARD_TRANSPORT_BASE_JOB_SECRET_H_
#define LANYARD_TRANSPORT_BASE_JOB_SECRET_H_

#include <sys/random.h>

#include <array>
#include <cstddef>

#include "transport/base/check.h"

namespace lanyard {

// Plain data.
struct JobSecret {
  std::array<std::byte, 32> bytes{};

  static JobSecret random() {
    JobSecret secret;
    const ssize_t count = ::getrandom(secret.bytes.data(), secret.bytes.size(), 0);
    LANYARD_CHECK(count == static_cast<ssize_t>(secret.bytes.size()), "the system has random numbers");
    return secret;
  }
};

}  // namespace lanyard

#endif  // LANYARD_TRANSPORT_BASE_JOB_SECRET_H_
