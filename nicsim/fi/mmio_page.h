// The page of a counter's registers: a plain 64-bit store to its start adds, as on Slingshot.
//
// Polled memory cannot do that, because stores overwrite one another. So the page is read-only: a
// store faults, and a handler adds the value in the instruction. It decodes the stores that
// compilers make for a volatile or atomic 64-bit integer. Other faults go to the handler installed
// before. A store by a GPU does not fault and is lost.
#ifndef LANYARD_NICSIM_FI_MMIO_PAGE_H_
#define LANYARD_NICSIM_FI_MMIO_PAGE_H_

#include "transport/base/status.h"

namespace lanyard::nicsim::fi {

class Counter;

// Returns a page for the counter, until unmap_registers(). Any thread. Stores may come from any
// thread, and must end before unmap_registers(). kUnsupported unless this is an x86-64;
// kExhausted if all pages are in use; kFailed if the system refuses memory or the handler.
Result<void*> map_registers(Counter& counter);
void unmap_registers(void* page);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_MMIO_PAGE_H_
