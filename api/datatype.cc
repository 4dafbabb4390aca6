#include "api/datatype.h"

#include <cstring>
#include <random>
#include <vector>

namespace lanyard::api {

namespace {

constexpr MPI_Count kLargestProbe = 16 << 20;

// Whether one element, packed by the MPI, gives its own memory back: tells the order of the bytes, which sizes cannot.
bool packs_to_itself(MPI_Datatype datatype, int bytes) {
  std::vector<unsigned char> memory(static_cast<size_t>(bytes));
  std::minstd_rand random(1);
  for (unsigned char& byte : memory)
    byte = static_cast<unsigned char>(random() >> 8);
  int room = 0;
  if (PMPI_Pack_size(1, datatype, MPI_COMM_SELF, &room) != MPI_SUCCESS)
    return false;
  std::vector<unsigned char> packed(static_cast<size_t>(room));
  int position = 0;
  return PMPI_Pack(memory.data(), 1, datatype, packed.data(), room, &position, MPI_COMM_SELF) == MPI_SUCCESS &&
         position == bytes && std::memcmp(packed.data(), memory.data(), memory.size()) == 0;
}

Status not_dense(const char* why) {
  return {Code::kUnsupported,
          std::string("the datatype is not contiguous: ") + why +
              " (use a contiguous buffer of bytes, filled by MPI_Pack or by a kernel on the stream)"};
}

Status check_dense(MPI_Datatype datatype) {
  MPI_Count size = 0;
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  MPI_Count true_lower = 0;
  MPI_Count true_extent = 0;
  PMPI_Type_size_x(datatype, &size);
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  PMPI_Type_get_true_extent_x(datatype, &true_lower, &true_extent);
  if (size == 0)
    return {};
  if (lower != 0 || true_lower != 0 || size != extent || size != true_extent)
    return not_dense("its elements have gaps");
  int integers = 0;
  int addresses = 0;
  int datatypes = 0;
  int combiner = 0;
  PMPI_Type_get_envelope(datatype, &integers, &addresses, &datatypes, &combiner);
  if (combiner == MPI_COMBINER_NAMED)
    return {};
  if (combiner == MPI_COMBINER_DUP || combiner == MPI_COMBINER_CONTIGUOUS) {
    std::vector<int> integer(static_cast<size_t>(integers) + 1);
    std::vector<MPI_Aint> address(static_cast<size_t>(addresses) + 1);
    MPI_Datatype inner = MPI_DATATYPE_NULL;
    PMPI_Type_get_contents(datatype, integers, addresses, 1, integer.data(), address.data(), &inner);
    Status status = check_dense(inner);
    int inner_combiner = 0;
    PMPI_Type_get_envelope(inner, &integers, &addresses, &datatypes, &inner_combiner);
    if (inner_combiner != MPI_COMBINER_NAMED)
      PMPI_Type_free(&inner);
    return status;
  }
  if (size > kLargestProbe)
    return not_dense("an element this large cannot be probed");
  return packs_to_itself(datatype, static_cast<int>(size)) ? Status() : not_dense("its bytes are in another order");
}

}  // namespace

Result<uint64_t> dense_bytes(MPI_Datatype datatype, int count) {
  if (count == 0)
    return uint64_t{0};
  if (Status status = check_dense(datatype); !status.ok())
    return status;
  MPI_Count size = 0;
  PMPI_Type_size_x(datatype, &size);
  return static_cast<uint64_t>(size) * static_cast<uint64_t>(count);
}

Result<uint64_t> DatatypeSizes::dense_bytes(MPI_Datatype datatype, int count) {
  for (const Known& known : known_)
    if (known.datatype == datatype)
      return known.bytes * static_cast<uint64_t>(count);
  int integers = 0;
  int addresses = 0;
  int datatypes = 0;
  int combiner = 0;
  PMPI_Type_get_envelope(datatype, &integers, &addresses, &datatypes, &combiner);
  if (combiner == MPI_COMBINER_NAMED)
    if (const Result<uint64_t> one = api::dense_bytes(datatype, 1); one.ok())
      known_[next_++ % known_.size()] = {datatype, one.value()};
  return api::dense_bytes(datatype, count);
}

}  // namespace lanyard::api
