// The domain's tables of functions, libfabric's and CXI's.
#ifndef LANYARD_NICSIM_FI_DOMAIN_TABLES_H_
#define LANYARD_NICSIM_FI_DOMAIN_TABLES_H_

#include "nicsim/fi/domain.h"

namespace lanyard::nicsim::fi {

// Makes the domain a libfabric object; `context` is the user's.
void fill_tables(Domain& domain, void* context);

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_DOMAIN_TABLES_H_
