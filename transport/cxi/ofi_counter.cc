#include "transport/cxi/ofi_counter.h"

#include <algorithm>

namespace lanyard::ofi {

using nic::kMaxFailure;
using nic::kMaxSuccess;

Status OfiCounter::open(fid_domain* domain) {
  Result<Fid<fid_cntr>> opened = open_provider_counter(domain);
  if (!opened.ok())
    return opened.status();
  fid_ = std::move(opened.value());
  uses = 0;
  open_.store(true, std::memory_order_release);
  return {};
}

void OfiCounter::close() {
  open_.store(false, std::memory_order_release);
  fid_.reset();
}

nic::CounterValue OfiCounter::read() const {
  return {.success = fi_cntr_read(fid_.get()) & kMaxSuccess,
          .failure = static_cast<uint32_t>(std::min<uint64_t>(fi_cntr_readerr(fid_.get()), kMaxFailure))};
}

void OfiCounter::add(uint64_t success) { (void)fi_cntr_add(fid_.get(), success); }

void OfiCounter::add_error(uint32_t failures) {
  const uint64_t room = kMaxFailure - std::min<uint64_t>(fi_cntr_readerr(fid_.get()), kMaxFailure);
  if (const uint64_t added = std::min<uint64_t>(failures, room); added > 0)
    (void)fi_cntr_adderr(fid_.get(), added);
}

// On Slingshot, setting 0 and adding are register writes. Any other value would need
// room in a command queue.
void OfiCounter::set(uint64_t success) {
  (void)fi_cntr_seterr(fid_.get(), 0);
  (void)fi_cntr_set(fid_.get(), 0);
  if (success > 0)
    (void)fi_cntr_add(fid_.get(), success);
}

}  // namespace lanyard::ofi
