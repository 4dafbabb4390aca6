/* HPE's tests include this internal header of libfabric beside cxip.h, which has what they use of it. */
