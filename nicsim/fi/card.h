// The card as fi_info(3) describes it: made up, but so that whoever looks for a card finds one.
#ifndef LANYARD_NICSIM_FI_CARD_H_
#define LANYARD_NICSIM_FI_CARD_H_

#include <rdma/fabric.h>

namespace lanyard::nicsim::fi {

// For fi_info's nic: the caller's, or libfabric's, which closes and duplicates it. Null where there is no memory.
struct fid_nic* describe_card();

}  // namespace lanyard::nicsim::fi

#endif  // LANYARD_NICSIM_FI_CARD_H_
