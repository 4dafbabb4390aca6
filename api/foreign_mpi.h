// ForeignMpi: an MPI whose handles mean nothing to this library, which is compiled for those of one MPI.
#ifndef LANYARD_API_FOREIGN_MPI_H_
#define LANYARD_API_FOREIGN_MPI_H_

namespace lanyard::api {

// Ends the process, naming the library to link in place of this one, where the program's MPI is such: of Open MPI and
// those that are made from MPICH. Takes no handle, and so comes before all that does.
void refuse_foreign_mpi();

}  // namespace lanyard::api

#endif  // LANYARD_API_FOREIGN_MPI_H_
