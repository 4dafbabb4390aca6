// The page of registers that a counter shows to a program: a plain store of 64 bits to its begin adds, as on the card.
//
// Memory that is polled cannot do that (stores overwrite one another), so the page cannot be
// written. A store faults, and the handler takes the value out of the instruction and does what the
// register does. It understands the stores that compilers make of an assignment to a volatile or
// atomic 64-bit integer; whatever else faults, here or elsewhere, goes to the handler that was
// there before. A store from a GPU does not fault and never arrives.
#ifndef LANYARD_NICSIM_FI_MMIO_PAGE_H_
#define LANYARD_NICSIM_FI_MMIO_PAGE_H_

#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

class Counter;

// A page of the counter's, until unmap_registers(). kUnsupported where the machine is not an x86-64, kExhausted where
// there are too many, kFailed where the system refuses memory or the handler. Threads: any; stores may come from any,
// and end before the page goes.
Result<void*> map_registers(Counter& counter);
void unmap_registers(void* page);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_MMIO_PAGE_H_
