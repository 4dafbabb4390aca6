/* The MPIX_ names that programs write. They are macros for Lanyard's own names, so that an MPI may
 * have functions and types with the same MPIX_ names. lanyard.h includes this file last, unless
 * LANYARD_NO_MPIX_NAMES is defined. lanyard_device.h has the names for kernels. The manual pages
 * are made from both lists. */
#ifndef LANYARD_LANYARD_NAMES_H_
#define LANYARD_LANYARD_NAMES_H_

#include <mpi.h> /* first, so that the macros do not change its declarations */

#define MPIX_Host_stream Lanyard_Host_stream
#define MPIX_Host_stream_create Lanyard_Host_stream_create
#define MPIX_Host_stream_launch Lanyard_Host_stream_launch
#define MPIX_Host_stream_synchronize Lanyard_Host_stream_synchronize
#define MPIX_Host_stream_free Lanyard_Host_stream_free
#define MPIX_Queue Lanyard_Queue
#define MPIX_Queue_type Lanyard_Queue_type
#define MPIX_Queue_init Lanyard_Queue_init
#define MPIX_Queue_free Lanyard_Queue_free
#define MPIX_Queue_wait Lanyard_Queue_wait
#define MPIX_Queue_get_info Lanyard_Queue_get_info
#define MPIX_Request_set_info Lanyard_Request_set_info
#define MPIX_Request_get_info Lanyard_Request_get_info
#define MPIX_Barrier_init Lanyard_Barrier_init
#define MPIX_Bcast_init Lanyard_Bcast_init
#define MPIX_Allreduce_init Lanyard_Allreduce_init
#define MPIX_Allgather_init Lanyard_Allgather_init
#define MPIX_Allgatherv_init Lanyard_Allgatherv_init
#define MPIX_Neighbor_alltoall_init Lanyard_Neighbor_alltoall_init
#define MPIX_Neighbor_alltoallv_init Lanyard_Neighbor_alltoallv_init
#define MPIX_Neighbor_alltoallw_init Lanyard_Neighbor_alltoallw_init
#define MPIX_Match Lanyard_Match
#define MPIX_Matchall Lanyard_Matchall
#define MPIX_Imatch Lanyard_Imatch
#define MPIX_Imatchall Lanyard_Imatchall
#define MPIX_Is_matched Lanyard_Is_matched
#define MPIX_Enqueue_start Lanyard_Enqueue_start
#define MPIX_Enqueue_startall Lanyard_Enqueue_startall
#define MPIX_Enqueue_wait Lanyard_Enqueue_wait
#define MPIX_Enqueue_waitall Lanyard_Enqueue_waitall
#define MPIX_Device_requests_create Lanyard_Device_requests_create
#define MPIX_Device_requests_free Lanyard_Device_requests_free
#define MPIX_Error_kind Lanyard_Error_kind
#define MPIX_Error_class_of Lanyard_Error_class_of

/* Constants of the MPI with these names are macros. */
#undef MPIX_HOST_STREAM_NULL
#undef MPIX_QUEUE_NULL
#undef MPIX_QUEUE_HOST
#undef MPIX_QUEUE_CUDA
#undef MPIX_QUEUE_HIP
#undef MPIX_ERROR_QUEUE
#undef MPIX_ERROR_BUSY
#undef MPIX_ERROR_NO_ENTRIES
#undef MPIX_ERROR_FAILED
#undef MPIX_ERROR_STALLED
#undef MPIX_ERROR_NIC
#undef MPIX_ERR_QUEUE
#undef MPIX_ERR_BUSY
#undef MPIX_ERR_NO_ENTRIES
#undef MPIX_ERR_FAILED
#undef MPIX_ERR_STALLED
#undef MPIX_ERR_NIC

#define MPIX_HOST_STREAM_NULL LANYARD_HOST_STREAM_NULL
#define MPIX_QUEUE_NULL LANYARD_QUEUE_NULL
#define MPIX_QUEUE_HOST LANYARD_QUEUE_HOST
#define MPIX_QUEUE_CUDA LANYARD_QUEUE_CUDA
#define MPIX_QUEUE_HIP LANYARD_QUEUE_HIP
#define MPIX_ERROR_QUEUE LANYARD_ERROR_QUEUE
#define MPIX_ERROR_BUSY LANYARD_ERROR_BUSY
#define MPIX_ERROR_NO_ENTRIES LANYARD_ERROR_NO_ENTRIES
#define MPIX_ERROR_FAILED LANYARD_ERROR_FAILED
#define MPIX_ERROR_STALLED LANYARD_ERROR_STALLED
#define MPIX_ERROR_NIC LANYARD_ERROR_NIC
#define MPIX_ERR_QUEUE LANYARD_ERR_QUEUE
#define MPIX_ERR_BUSY LANYARD_ERR_BUSY
#define MPIX_ERR_NO_ENTRIES LANYARD_ERR_NO_ENTRIES
#define MPIX_ERR_FAILED LANYARD_ERR_FAILED
#define MPIX_ERR_STALLED LANYARD_ERR_STALLED
#define MPIX_ERR_NIC LANYARD_ERR_NIC

#endif /* LANYARD_LANYARD_NAMES_H_ */
