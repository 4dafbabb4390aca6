// GPUs in software (fake_driver.h) in place of those of the build's vendor, for a program of one file.
#ifndef LANYARD_TESTS_SOFTWARE_GPU_H_
#define LANYARD_TESTS_SOFTWARE_GPU_H_

#include <memory>
#include <utility>

#include "gpu/device/open_driver.h"
#include "tests/fake_driver.h"

namespace lanyard {
namespace {

FakeDriver* the_driver = nullptr;
// Lanyard's, from MPI_Init to MPI_Finalize.
FakeDriver& software_gpu() { return *the_driver; }

}  // namespace

// Linked before the build's own.
Result<std::unique_ptr<gpu::Driver>> gpu::open_driver() {
  auto driver = std::make_unique<FakeDriver>(FakeDriver::Options{.kind = "cuda", .devices = 2});
  the_driver = driver.get();
  return std::unique_ptr<gpu::Driver>(std::move(driver));
}

}  // namespace lanyard

#endif  // LANYARD_TESTS_SOFTWARE_GPU_H_
