#include "transport/cxi/ofi_counter.h"

#include <algorithm>

#include "transport/base/check.h"
#include "transport/cxi/ofi_status.h"

namespace lanyard::ofi {

using nic::kMaxFailure;
using nic::kMaxSuccess;

Result<Fid<fid_cntr>> open_provider_counter(fid_domain* domain) {
  fi_cntr_attr attributes{};
  attributes.events = FI_CNTR_EVENTS_COMP;
  attributes.wait_obj = FI_WAIT_NONE;
  fid_cntr* counter = nullptr;
  LANYARD_RETURN_IF_ERROR(ofi_status(fi_cntr_open(domain, &attributes, &counter, nullptr), "fi_cntr_open"));
  return Fid<fid_cntr>(counter);
}

Status OfiCounter::open(fid_domain* domain, bool wide) {
  Result<Fid<fid_cntr>> opened = open_provider_counter(domain);
  if (!opened.ok())
    return opened.status();
  fid_ = std::move(opened.value());
  wide_ = wide;
  base_ = 0;
  failures_ = 0;
  uses = 0;
  open_.store(true, std::memory_order_release);
  return {};
}

void OfiCounter::close() {
  open_.store(false, std::memory_order_release);
  fid_.reset();
}

// A narrow one may have been taken below 0 for a moment.
uint64_t OfiCounter::provider_value() const {
  const auto value = static_cast<int32_t>(fi_cntr_read(fid_.get()));
  return static_cast<uint64_t>(std::max<int32_t>(value, 0));
}

nic::CounterValue OfiCounter::read() const {
  if (wide_)
    return {.success = fi_cntr_read(fid_.get()) & kMaxSuccess,
            .failure = static_cast<uint32_t>(std::min<uint64_t>(fi_cntr_readerr(fid_.get()), kMaxFailure))};
  const uint64_t reached = base_ + provider_value();
  return {.success = (reached - std::min<uint64_t>(failures_, reached)) & kMaxSuccess, .failure = failures_};
}

void OfiCounter::add(uint64_t success) {
  if (wide_) {
    (void)fi_cntr_add(fid_.get(), success);
    return;
  }
  if (base_ != 0) {
    base_ += success;
    return;
  }
  const uint64_t now = provider_value();
  if (now + success <= kReach) {
    (void)fi_cntr_add(fid_.get(), success);
    return;
  }
  // Far: every entry that waits in the provider is due, and those to come wait in the driver.
  const uint64_t rise = now < kReach ? kReach - now : 0;
  (void)fi_cntr_add(fid_.get(), rise);
  base_ = success - rise;
}

void OfiCounter::add_error(uint32_t failures) {
  if (wide_) {
    const uint64_t room = kMaxFailure - std::min<uint64_t>(fi_cntr_readerr(fid_.get()), kMaxFailure);
    if (const uint64_t added = std::min<uint64_t>(failures, room); added > 0)
      (void)fi_cntr_adderr(fid_.get(), added);
    return;
  }
  const uint32_t added = std::min(failures, kMaxFailure - failures_);
  failures_ += added;  // first: what the counter fires must find it
  if (added > 0)
    add(added);
}

void OfiCounter::set(uint64_t success) {
  if (wide_) {
    // Zero and additions are register writes on Slingshot; any other value would need room in a
    // command queue.
    (void)fi_cntr_seterr(fid_.get(), 0);
    (void)fi_cntr_set(fid_.get(), 0);
    if (success > 0)
      (void)fi_cntr_add(fid_.get(), success);
    return;
  }
  // By subtraction: what arrives meanwhile is not lost.
  (void)fi_cntr_add(fid_.get(), ~provider_value() + 1);
  base_ = 0;
  failures_ = 0;
  if (success > 0)
    add(success);
}

}  // namespace lanyard::ofi
