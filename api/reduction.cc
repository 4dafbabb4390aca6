// The reductions that a stream can run (collective.h).
#include <concepts>
#include <cstdint>
#include <optional>

#include "api/collective.h"
#include "api/datatype.h"

namespace lanyard::api {

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

bool is_logical(Operation operation) {
  return operation == Operation::kLogicalAnd || operation == Operation::kLogicalOr ||
         operation == Operation::kLogicalXor;
}
bool is_bitwise(Operation operation) {
  return operation == Operation::kBitAnd || operation == Operation::kBitOr || operation == Operation::kBitXor;
}

bool allows(Meaning meaning, Operation operation) {
  switch (meaning) {
    case Meaning::kElement: return true;
    case Meaning::kNumber: return !is_logical(operation);
    case Meaning::kTruth: return is_logical(operation);
    case Meaning::kBits: return is_bitwise(operation);
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

}  // namespace lanyard::api
