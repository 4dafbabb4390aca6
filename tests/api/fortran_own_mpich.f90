! MPI 4's own names, with large counts.
module own_collectives
  use mpi_f08, only: own_Barrier_init => MPI_Barrier_init, own_Bcast_init => MPI_Bcast_init, &
                     own_Allreduce_init => MPI_Allreduce_init, own_Allgather_init => MPI_Allgather_init, &
                     own_Allgatherv_init => MPI_Allgatherv_init, &
                     own_Neighbor_alltoall_init => MPI_Neighbor_alltoall_init, &
                     own_Neighbor_alltoallv_init => MPI_Neighbor_alltoallv_init, &
                     own_Neighbor_alltoallw_init => MPI_Neighbor_alltoallw_init, &
                     count_kind => MPI_COUNT_KIND, place_kind => MPI_ADDRESS_KIND
end module own_collectives

