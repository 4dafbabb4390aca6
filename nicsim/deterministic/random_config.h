// Random programs in random worlds: what nobody thought of. Each is a valid MPI program that cannot deadlock on a NIC
// that keeps its rules, so whatever is found in it is a mistake of the protocol, of the model or of an oracle.
#ifndef LANYARD_NICSIM_DETERMINISTIC_RANDOM_CONFIG_H_
#define LANYARD_NICSIM_DETERMINISTIC_RANDOM_CONFIG_H_

#include <cstdint>

#include "nicsim/deterministic/config.h"

namespace lanyard::nicsim {

// Follows from the seed alone, whatever compiled it. Up to 4 ranks, 6 messages (regular and ready; empty, whole pieces
// and one byte off; equal tags, wildcards, longer receives), 3 queues a rank and 4 epochs, in each of which some of the
// messages go: started together or one by one, waited for at once or later, on this queue or another; freed and matched
// anew on the way; with calls that must be refused; under any strategy, with few entries or many, and with faults.
Config random_config(uint64_t seed);

}  // namespace lanyard::nicsim

#endif  // LANYARD_NICSIM_DETERMINISTIC_RANDOM_CONFIG_H_
