! The names of Open MPI's extension.
module own_collectives
  use mpi_f08_ext, only: own_Barrier_init => MPIX_Barrier_init, own_Bcast_init => MPIX_Bcast_init, &
                         own_Allreduce_init => MPIX_Allreduce_init, own_Allgather_init => MPIX_Allgather_init, &
                         own_Allgatherv_init => MPIX_Allgatherv_init, &
                         own_Neighbor_alltoall_init => MPIX_Neighbor_alltoall_init, &
                         own_Neighbor_alltoallv_init => MPIX_Neighbor_alltoallv_init, &
                         own_Neighbor_alltoallw_init => MPIX_Neighbor_alltoallw_init
  implicit none
  integer, parameter :: count_kind = kind(0), place_kind = kind(0)
end module own_collectives

