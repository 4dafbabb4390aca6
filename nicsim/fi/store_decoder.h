// Takes a 64-bit store out of a thread that has faulted at it.
#ifndef LANYARD_NICSIM_FI_STORE_DECODER_H_
#define LANYARD_NICSIM_FI_STORE_DECODER_H_

#include <ucontext.h>

#include <cstdint>

namespace lanyard::nicsim::fi {

#if defined(__x86_64__)
inline constexpr bool kDecodesStores = true;
#else
inline constexpr bool kDecodesStores = false;
#endif

// Where the thread's next instruction stores 64 bits of a general register or a constant (MOV,
// MOVNTI, XCHG): gives the value, moves the thread behind the instruction and returns true. Else
// changes nothing. What XCHG reads is 0. May run in a signal handler.
bool take_store(ucontext_t& thread, uint64_t& value);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_STORE_DECODER_H_
