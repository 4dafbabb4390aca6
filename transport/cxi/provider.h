// Provider: in what the providers that we know differ. Data, so that the driver has one path.
#ifndef LANYARD_TRANSPORT_CXI_PROVIDER_H_
#define LANYARD_TRANSPORT_CXI_PROVIDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "transport/base/status.h"

namespace lanyard::ofi {

struct Provider {
  // kUnsupported for a name that stands for none: what a provider does not document cannot be
  // guessed.
  static Result<Provider> by_name(std::string_view name);

  std::string name;
  // The domain that is taken where nobody names one; empty: the nearest.
  std::string usual_domain;
  // Counters hold 48 bits of success and count failures beside them, towards thresholds too. Where
  // false they hold 31 bits and count no failures: OfiCounter keeps the rest.
  bool wide_counters = false;
  // Deferred work that asks for it is reported by the completion queue when it is done. Where false
  // each operation completes into a counter of the driver's making, whose add() the provider calls when the operation
  // has succeeded: that adds to the operation's completion counter and tells the driver. The sockets provider asks such
  // a counter for nothing else (libfabric 1.15 to 2.x); one that looked into it could not be used so.
  bool reports_deferred_work = false;
  // What keys of the user's have; providers may say more than they take.
  size_t key_bytes = sizeof(uint64_t);
  // Writes of no bytes work. Where false each region has a word beside it that stands for them.
  bool empty_writes = false;
  // A region's counter that has counted a message means that every reader sees the message. No documentation promises
  // that of Slingshot.
  bool counts_mean_visible = false;
  // A counter may count what arrives in regions and own operations as well. fi_endpoint(3) and fi_mr(3) name these
  // kinds of events one by one, each of which may be bound to any counter, and fi_cntr(3) has one count sends and
  // receives; libfabric's cxi provider gives both to the same counting event of the card (cxip_mr_bind, cxip_cntr).
  bool counters_count_both = false;
  // FI_FLUSH_WORK cancels what waits.
  bool flush = false;
  // fi_close() of a region returns when no message is landing in it any more.
  bool fenced_deregistration = false;
  // An I/O error says that the connection to the peer has gone: a target that refuses an operation says it otherwise.
  bool io_error_means_gone = false;
};

}  // namespace lanyard::ofi

#endif  // LANYARD_TRANSPORT_CXI_PROVIDER_H_
