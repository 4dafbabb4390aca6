// The page of registers that a counter shows to a program: a plain store of 64 bits to it adds, as
// on the card.
//
// Memory that is polled cannot do that (stores overwrite one another), so the page cannot be
// written. A store faults, and the handler takes the value out of the instruction and does what the
// register does. It understands the stores that compilers make of an assignment to a volatile or
// atomic 64-bit integer; whatever else faults, here or elsewhere, goes to the handler that was
// there before. A store from a GPU does not fault and never arrives.
#ifndef LANYARD_NICSIM_FI_MMIO_PAGE_H_
#define LANYARD_NICSIM_FI_MMIO_PAGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

class Counter;

// Threads: stores may come from any; the page goes when nobody stores any more.
class MmioPage {
 public:
  // kUnsupported where the machine is not an x86-64, kExhausted where there are too many pages,
  // kFailed where the system refuses memory or the handler. The counter outlives the page.
  static Result<std::unique_ptr<MmioPage>> map(Counter& counter);
  ~MmioPage();
  MmioPage(const MmioPage&) = delete;
  MmioPage& operator=(const MmioPage&) = delete;

  void* address() const { return page_; }
  bool holds(const void* address) const;
  // A store has come: `offset` is the register's, unknown ones are ignored.
  void store(size_t offset, uint64_t value);

 private:
  MmioPage(Counter& counter, void* page) : counter_(counter), page_(page) {}

  Counter& counter_;
  void* const page_;
};

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_MMIO_PAGE_H_
