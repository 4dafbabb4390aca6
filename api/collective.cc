#include "api/collective.h"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>

#include "api/datatype.h"

namespace lanyard::api {

// ---- Reductions

namespace {

using gpu::Element;
using gpu::Operation;

// MPI defines fewer operations for some datatypes than their elements allow: integers of more than
// one language have no logical operations, logical values only those, and bytes only bitwise ones.
enum class Meaning { kElement, kNumber, kTruth, kBits };

struct Row {
  MPI_Datatype datatype;
  Element element;
  Meaning meaning = Meaning::kElement;
};

template <std::integral T>
constexpr Element integer() {
  constexpr Element kSigned[] = {Element::kInt8, Element::kInt16, Element::kInt32, Element::kInt64};
  constexpr Element kUnsigned[] = {Element::kUint8, Element::kUint16, Element::kUint32, Element::kUint64};
  constexpr size_t kWhich = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
  return std::signed_integral<T> ? kSigned[kWhich] : kUnsigned[kWhich];
}
constexpr Element kLongInt = sizeof(long) == 8 ? Element::kInt64Int32 : Element::kInt32Int32;

std::optional<Row> row_of(MPI_Datatype type) {
  const Row rows[] = {
      {MPI_INT, integer<int>()},
      {MPI_DOUBLE, Element::kDouble},
      {MPI_FLOAT, Element::kFloat},
      {MPI_LONG, integer<long>()},
      {MPI_SHORT, integer<short>()},
      {MPI_UNSIGNED_SHORT, integer<unsigned short>()},
      {MPI_UNSIGNED, integer<unsigned>()},
      {MPI_UNSIGNED_LONG, integer<unsigned long>()},
      {MPI_LONG_LONG, integer<long long>()},
      {MPI_UNSIGNED_LONG_LONG, integer<unsigned long long>()},
      {MPI_SIGNED_CHAR, integer<signed char>()},
      {MPI_UNSIGNED_CHAR, integer<unsigned char>()},
      {MPI_INT8_T, Element::kInt8},
      {MPI_INT16_T, Element::kInt16},
      {MPI_INT32_T, Element::kInt32},
      {MPI_INT64_T, Element::kInt64},
      {MPI_UINT8_T, Element::kUint8},
      {MPI_UINT16_T, Element::kUint16},
      {MPI_UINT32_T, Element::kUint32},
      {MPI_UINT64_T, Element::kUint64},
      {MPI_AINT, integer<MPI_Aint>(), Meaning::kNumber},
      {MPI_OFFSET, integer<MPI_Offset>(), Meaning::kNumber},
      {MPI_COUNT, integer<MPI_Count>(), Meaning::kNumber},
      {MPI_LONG_DOUBLE, Element::kLongDouble},
      {MPI_C_FLOAT_COMPLEX, Element::kFloatComplex},
      {MPI_C_DOUBLE_COMPLEX, Element::kDoubleComplex},
      {MPI_C_LONG_DOUBLE_COMPLEX, Element::kLongDoubleComplex},
      {MPI_C_BOOL, Element::kBool},
      {MPI_CXX_BOOL, Element::kBool},
      {MPI_CXX_FLOAT_COMPLEX, Element::kFloatComplex},
      {MPI_CXX_DOUBLE_COMPLEX, Element::kDoubleComplex},
      {MPI_CXX_LONG_DOUBLE_COMPLEX, Element::kLongDoubleComplex},
      {MPI_BYTE, Element::kUint8, Meaning::kBits},
      {MPI_INTEGER, Element::kInt32, Meaning::kNumber},
      {MPI_REAL, Element::kFloat},
      {MPI_DOUBLE_PRECISION, Element::kDouble},
      {MPI_COMPLEX, Element::kFloatComplex},
      {MPI_DOUBLE_COMPLEX, Element::kDoubleComplex},
      {MPI_LOGICAL, Element::kInt32, Meaning::kTruth},
      {MPI_INTEGER1, Element::kInt8, Meaning::kNumber},
      {MPI_INTEGER2, Element::kInt16, Meaning::kNumber},
      {MPI_INTEGER4, Element::kInt32, Meaning::kNumber},
      {MPI_INTEGER8, Element::kInt64, Meaning::kNumber},
      {MPI_REAL4, Element::kFloat},
      {MPI_REAL8, Element::kDouble},
      {MPI_COMPLEX8, Element::kFloatComplex},
      {MPI_COMPLEX16, Element::kDoubleComplex},
      {MPI_FLOAT_INT, Element::kFloatInt32},
      {MPI_DOUBLE_INT, Element::kDoubleInt32},
      {MPI_LONG_INT, kLongInt},
      {MPI_2INT, Element::kInt32Int32},
      {MPI_SHORT_INT, Element::kInt16Int32},
      {MPI_LONG_DOUBLE_INT, Element::kLongDoubleInt32},
      {MPI_2INTEGER, Element::kInt32Int32},
      {MPI_2REAL, Element::kFloatFloat},
      {MPI_2DOUBLE_PRECISION, Element::kDoubleDouble},
  };
  for (const Row& row : rows)
    if (row.datatype == type && type != MPI_DATATYPE_NULL)
      return row;
  return std::nullopt;
}

// The types of MPI_Type_create_f90_real and its like are predefined too. Each is equivalent to a
// named type of its size (MPI 4.0 section 19.1.5).
std::optional<Row> row_of_kind(MPI_Datatype type) {
  const struct {
    int combiner;
    Row row;
  } kinds[] = {
      {MPI_COMBINER_F90_REAL, {type, Element::kFloat}},
      {MPI_COMBINER_F90_REAL, {type, Element::kDouble}},
      {MPI_COMBINER_F90_REAL, {type, Element::kLongDouble}},
      {MPI_COMBINER_F90_COMPLEX, {type, Element::kFloatComplex}},
      {MPI_COMBINER_F90_COMPLEX, {type, Element::kDoubleComplex}},
      {MPI_COMBINER_F90_COMPLEX, {type, Element::kLongDoubleComplex}},
      {MPI_COMBINER_F90_INTEGER, {type, Element::kInt8, Meaning::kNumber}},
      {MPI_COMBINER_F90_INTEGER, {type, Element::kInt16, Meaning::kNumber}},
      {MPI_COMBINER_F90_INTEGER, {type, Element::kInt32, Meaning::kNumber}},
      {MPI_COMBINER_F90_INTEGER, {type, Element::kInt64, Meaning::kNumber}},
  };
  const int combiner = combiner_of(type);
  int size = 0;
  PMPI_Type_size(type, &size);
  for (const auto& kind : kinds)
    if (kind.combiner == combiner && gpu::size_of(kind.row.element) == static_cast<size_t>(size))
      return kind.row;
  return std::nullopt;
}

std::optional<Operation> operation_of(MPI_Op op) {
  const struct {
    MPI_Op mpi;
    Operation ours;
  } rows[] = {
      {MPI_MAX, Operation::kMax},
      {MPI_MIN, Operation::kMin},
      {MPI_SUM, Operation::kSum},
      {MPI_PROD, Operation::kProduct},
      {MPI_LAND, Operation::kLogicalAnd},
      {MPI_LOR, Operation::kLogicalOr},
      {MPI_LXOR, Operation::kLogicalXor},
      {MPI_BAND, Operation::kBitAnd},
      {MPI_BOR, Operation::kBitOr},
      {MPI_BXOR, Operation::kBitXor},
      {MPI_MAXLOC, Operation::kMaxLocation},
      {MPI_MINLOC, Operation::kMinLocation},
  };
  for (const auto& row : rows)
    if (row.mpi == op)
      return row.ours;
  return std::nullopt;
}

bool allows(Meaning meaning, Operation operation) {
  const bool logical = Operation::kLogicalAnd <= operation && operation <= Operation::kLogicalXor;
  const bool bitwise = Operation::kBitAnd <= operation && operation <= Operation::kBitXor;
  switch (meaning) {
    case Meaning::kElement: return true;
    case Meaning::kNumber: return !logical;
    case Meaning::kTruth: return logical;
    case Meaning::kBits: return bitwise;
  }
  return false;
}

std::string name_of(MPI_Datatype datatype) {
  char name[MPI_MAX_OBJECT_NAME] = "";
  int length = 0;
  PMPI_Type_get_name(datatype, name, &length);
  return {name, static_cast<size_t>(length)};
}

}  // namespace

Reduction reduction_of(MPI_Op op, MPI_Datatype datatype) {
  Reduction result;
  const std::optional<Operation> operation = operation_of(op);
  std::optional<Row> row = row_of(datatype);
  if (!row)
    row = row_of_kind(datatype);
  if (!operation) {
    result.error_class = MPI_ERR_OP;
    result.error = "the operation is not one of MPI's own: a stream cannot call an operation of the program";
  } else if (!row) {
    result.error_class = MPI_ERR_TYPE;
    result.error = is_named(datatype) ? "a stream cannot reduce the datatype " + name_of(datatype)
                                      : "the datatype is not one of MPI's own";
  } else if (!allows(row->meaning, *operation) || !gpu::is_defined(*operation, row->element)) {
    result.error_class = MPI_ERR_OP;
    result.error = "the operation is not defined for the datatype";
  } else {
    result.operation = *operation;
    result.element = row->element;
    result.size = gpu::size_of(row->element);
  }
  return result;
}

// ---- Topologies

namespace {

// Numbers the edges to each peer: both sides count edges between the same two processes alike.
std::vector<Edge> numbered(const std::vector<int>& peers) {
  std::map<int, int> seen;
  std::vector<Edge> edges;
  for (const int peer : peers)
    edges.push_back({peer, seen[peer]++});
  return edges;
}

// A message towards lower coordinates arrives from higher ones, even if both are the same process.
Neighbourhood neighbours_in_grid(MPI_Comm communicator) {
  Neighbourhood result;
  int dimensions = 0;
  PMPI_Cartdim_get(communicator, &dimensions);
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    int lower = MPI_PROC_NULL, higher = MPI_PROC_NULL;
    PMPI_Cart_shift(communicator, dimension, 1, &lower, &higher);
    const int downwards = 2 * dimension, upwards = 2 * dimension + 1;
    result.destinations.push_back({lower, downwards});
    result.destinations.push_back({higher, upwards});
    result.sources.push_back({lower, upwards});
    result.sources.push_back({higher, downwards});
  }
  return result;
}

}  // namespace

Neighbourhood neighbourhood_of(MPI_Comm communicator) {
  int topology = MPI_UNDEFINED;
  PMPI_Topo_test(communicator, &topology);
  if (topology == MPI_CART)
    return neighbours_in_grid(communicator);
  if (topology == MPI_GRAPH) {
    int rank = 0, count = 0;
    PMPI_Comm_rank(communicator, &rank);
    PMPI_Graph_neighbors_count(communicator, rank, &count);
    std::vector<int> peers(static_cast<size_t>(count));
    PMPI_Graph_neighbors(communicator, rank, count, peers.data());
    return {numbered(peers), numbered(peers)};
  }
  if (topology == MPI_DIST_GRAPH) {
    int sources = 0, destinations = 0, weighted = 0;
    PMPI_Dist_graph_neighbors_count(communicator, &sources, &destinations, &weighted);
    std::vector<int> from(static_cast<size_t>(sources)), to(static_cast<size_t>(destinations));
    std::vector<int> weights(std::max(from.size(), to.size()) + 1);
    std::vector<int> more_weights(weights.size());
    PMPI_Dist_graph_neighbors(communicator, sources, from.data(), weights.data(), destinations, to.data(),
                              more_weights.data());
    return {numbered(from), numbered(to)};
  }
  return {};
}

// ---- Parts

std::vector<RequestRecord*> parts_of(const std::vector<RequestRecord*>& records) {
  std::vector<RequestRecord*> parts;
  parts.reserve(records.size());
  for (RequestRecord* record : records)
    for_each_part(*record, [&](RequestRecord& part) { parts.push_back(&part); });
  return parts;
}

std::string describe(const RequestRecord& record) {
  if (record.collective != nullptr)
    return *record.collective->name;
  return record.core != nullptr ? record.core->describe() : record.transfer.describe();
}

Status match_error(const RequestRecord& record) {
  Status error;
  for_each_part(record, [&](const RequestRecord& part) {
    if (error.ok() && !part.matched())
      error = {part.core->match_error.code(), describe(record) + ": " + part.core->match_error.message()};
  });
  return error;
}

namespace {

constexpr uint64_t kLine = 64;  // bytes of a cache line

// The device of both buffers.
Result<int> place_of(Context& context, const Collective::Arithmetic& arithmetic) LANYARD_REQUIRES(context_locked) {
  if (context.gpus() == nullptr)
    return DeviceMemory::kHost;
  const DeviceMemory& memory = context.gpus()->memory();
  LANYARD_ASSIGN_OR_RETURN(const int own, memory.device_of(arithmetic.own, arithmetic.bytes));
  LANYARD_ASSIGN_OR_RETURN(const int into, memory.device_of(arithmetic.into, arithmetic.bytes));
  if (own != into)
    return Status(Code::kUnsupported,
                  "the send and receive buffers must both be in host memory, or in memory of the same GPU");
  return into;
}

// For the members of one set. The last member does the arithmetic.
Status give_arithmetic(Context& context, const Collective::Arithmetic& arithmetic, Collective::Members members)
    LANYARD_REQUIRES(context_locked) {
  RequestRecord& last = *members.back();
  if (last.transfer.packing != nullptr)
    return {};
  LANYARD_ASSIGN_OR_RETURN(const int device, place_of(context, arithmetic));
  // Each contribution gets its own cache lines. They need no initial value: messages fill them.
  const uint64_t stride = (std::max<uint64_t>(1, arithmetic.bytes) + kLine - 1) / kLine * kLine;
  // It runs after the waits for all messages, like unpacking: all contributions have then arrived,
  // and the card no longer reads the own one.
  LANYARD_ASSIGN_OR_RETURN(
      last.transfer.packing,
      device == DeviceMemory::kHost
          ? gpu::make_host_combining(arithmetic.combination, stride, arithmetic.into)
          : context.gpus()->make_combining(arithmetic.combination, stride, arithmetic.into, device));
  std::byte* place = last.transfer.packing->packed.get();
  for (const auto& member : members)
    if (member->transfer.direction == core::Direction::kReceive) {
      member->transfer.buffer = place;
      place += stride;
    }
  return {};
}

}  // namespace

Status give_arithmetic(Context& context, RequestRecord& record) {
  if (record.collective == nullptr || !record.collective->arithmetic)
    return {};
  for (size_t set = 0; set < record.collective->sets(); ++set)
    LANYARD_RETURN_IF_ERROR(
        give_arithmetic(context, *record.collective->arithmetic, record.collective->members_of(set)));
  return {};
}

bool RequestRecord::is_each_member(bool (RequestRecord::*is)() const) const {
  return std::ranges::all_of(collective->members, [is](const auto& member) { return (member.get()->*is)(); });
}

bool RequestRecord::is_any_member(bool (RequestRecord::*is)() const) const {
  return std::ranges::any_of(collective->members, [is](const auto& member) { return (member.get()->*is)(); });
}

}  // namespace lanyard::api
