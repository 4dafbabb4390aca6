#include "api/reduction.h"

#include <algorithm>
#include <complex>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "api/type_map.h"

namespace lanyard::api {

namespace {

using Function = Reduction::Function;

template <typename T, typename Operation>
void reduce(void* out, std::span<const void* const> parts, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    T result = static_cast<const T*>(parts[0])[i];
    for (size_t part = 1; part < parts.size(); ++part)
      result = Operation()(result, static_cast<const T*>(parts[part])[i]);
    static_cast<T*>(out)[i] = result;
  }
}

struct Max {
  template <typename T>
  T operator()(T a, T b) const {
    return b > a ? b : a;
  }
};
struct Min {
  template <typename T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
// Signed integers that overflow wrap around, as they do in memory.
struct Sum {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
};
struct Product {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return a * b;
  }
};
struct LogicalAnd {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a && b);
  }
};
struct LogicalOr {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a || b);
  }
};
struct LogicalXor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(!a != !b);
  }
};
struct BitAnd {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct BitOr {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct BitXor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
template <typename Better>
struct Located {
  template <typename Pair>
  Pair operator()(const Pair& a, const Pair& b) const {
    if (a.value == b.value)
      return {a.value, std::min(a.index, b.index)};
    return Better()(a.value, b.value) == a.value ? a : b;
  }
};

// A value and where it is, as MPI's pair types lie in memory.
template <typename Value, typename Index = int>
struct Pair {
  Value value;
  Index index;
};

template <typename T>
Function extreme(MPI_Op op) {
  return op == MPI_MAX ? reduce<T, Max> : op == MPI_MIN ? reduce<T, Min> : nullptr;
}
template <typename T>
Function arithmetic(MPI_Op op) {
  return op == MPI_SUM ? reduce<T, Sum> : op == MPI_PROD ? reduce<T, Product> : nullptr;
}
template <typename T>
Function logical(MPI_Op op) {
  return op == MPI_LAND   ? reduce<T, LogicalAnd>
         : op == MPI_LOR  ? reduce<T, LogicalOr>
         : op == MPI_LXOR ? reduce<T, LogicalXor>
                          : nullptr;
}
template <typename T>
Function bitwise(MPI_Op op) {
  return op == MPI_BAND   ? reduce<T, BitAnd>
         : op == MPI_BOR  ? reduce<T, BitOr>
         : op == MPI_BXOR ? reduce<T, BitXor>
                          : nullptr;
}

Function first_of(std::initializer_list<Function> functions) {
  for (const Function function : functions)
    if (function != nullptr)
      return function;
  return nullptr;
}

struct Row {
  MPI_Datatype datatype;
  size_t size;
  Function run;
};

template <typename T>
Row integer(MPI_Datatype datatype, MPI_Op op) {
  return {datatype, sizeof(T), first_of({extreme<T>(op), arithmetic<T>(op), logical<T>(op), bitwise<T>(op)})};
}
// Addresses, offsets and counts, and Fortran's integers, are no logical values.
template <typename T>
Row multi_language(MPI_Datatype datatype, MPI_Op op) {
  return {datatype, sizeof(T), first_of({extreme<T>(op), arithmetic<T>(op), bitwise<T>(op)})};
}
template <typename T>
Row real(MPI_Datatype datatype, MPI_Op op) {
  return {datatype, sizeof(T), first_of({extreme<T>(op), arithmetic<T>(op)})};
}
template <typename T>
Row complex(MPI_Datatype datatype, MPI_Op op) {
  return {datatype, sizeof(std::complex<T>), arithmetic<std::complex<T>>(op)};
}
template <typename T>
Row truth(MPI_Datatype datatype, MPI_Op op) {
  return {datatype, sizeof(T), logical<T>(op)};
}
template <typename P>
Row pair(MPI_Datatype datatype, MPI_Op op) {
  return {datatype, sizeof(P),
          op == MPI_MAXLOC   ? reduce<P, Located<Max>>
          : op == MPI_MINLOC ? reduce<P, Located<Min>>
                             : nullptr};
}

// Null where the datatype is none of MPI's own for any operation; a row without a function where the operation is not
// defined for it.
std::pair<bool, Row> find(MPI_Op op, MPI_Datatype type) {
  const Row rows[] = {
      integer<int>(MPI_INT, op),
      real<double>(MPI_DOUBLE, op),
      real<float>(MPI_FLOAT, op),
      integer<long>(MPI_LONG, op),
      integer<short>(MPI_SHORT, op),
      integer<unsigned short>(MPI_UNSIGNED_SHORT, op),
      integer<unsigned>(MPI_UNSIGNED, op),
      integer<unsigned long>(MPI_UNSIGNED_LONG, op),
      integer<long long>(MPI_LONG_LONG, op),
      integer<unsigned long long>(MPI_UNSIGNED_LONG_LONG, op),
      integer<signed char>(MPI_SIGNED_CHAR, op),
      integer<unsigned char>(MPI_UNSIGNED_CHAR, op),
      integer<int8_t>(MPI_INT8_T, op),
      integer<int16_t>(MPI_INT16_T, op),
      integer<int32_t>(MPI_INT32_T, op),
      integer<int64_t>(MPI_INT64_T, op),
      integer<uint8_t>(MPI_UINT8_T, op),
      integer<uint16_t>(MPI_UINT16_T, op),
      integer<uint32_t>(MPI_UINT32_T, op),
      integer<uint64_t>(MPI_UINT64_T, op),
      multi_language<MPI_Aint>(MPI_AINT, op),
      multi_language<MPI_Offset>(MPI_OFFSET, op),
      multi_language<MPI_Count>(MPI_COUNT, op),
      real<long double>(MPI_LONG_DOUBLE, op),
      complex<float>(MPI_C_FLOAT_COMPLEX, op),
      complex<double>(MPI_C_DOUBLE_COMPLEX, op),
      complex<long double>(MPI_C_LONG_DOUBLE_COMPLEX, op),
      truth<bool>(MPI_C_BOOL, op),
      truth<bool>(MPI_CXX_BOOL, op),
      complex<float>(MPI_CXX_FLOAT_COMPLEX, op),
      complex<double>(MPI_CXX_DOUBLE_COMPLEX, op),
      complex<long double>(MPI_CXX_LONG_DOUBLE_COMPLEX, op),
      {MPI_BYTE, 1, bitwise<unsigned char>(op)},
      multi_language<int>(MPI_INTEGER, op),
      real<float>(MPI_REAL, op),
      real<double>(MPI_DOUBLE_PRECISION, op),
      complex<float>(MPI_COMPLEX, op),
      complex<double>(MPI_DOUBLE_COMPLEX, op),
      truth<int>(MPI_LOGICAL, op),
      multi_language<int8_t>(MPI_INTEGER1, op),
      multi_language<int16_t>(MPI_INTEGER2, op),
      multi_language<int32_t>(MPI_INTEGER4, op),
      multi_language<int64_t>(MPI_INTEGER8, op),
      real<float>(MPI_REAL4, op),
      real<double>(MPI_REAL8, op),
      complex<float>(MPI_COMPLEX8, op),
      complex<double>(MPI_COMPLEX16, op),
      pair<Pair<float>>(MPI_FLOAT_INT, op),
      pair<Pair<double>>(MPI_DOUBLE_INT, op),
      pair<Pair<long>>(MPI_LONG_INT, op),
      pair<Pair<int>>(MPI_2INT, op),
      pair<Pair<short>>(MPI_SHORT_INT, op),
      pair<Pair<long double>>(MPI_LONG_DOUBLE_INT, op),
      pair<Pair<int>>(MPI_2INTEGER, op),
      pair<Pair<float, float>>(MPI_2REAL, op),
      pair<Pair<double, double>>(MPI_2DOUBLE_PRECISION, op),
  };
  for (const Row& row : rows)
    if (row.datatype == type && type != MPI_DATATYPE_NULL)
      return {true, row};
  return {false, {}};
}

bool is_predefined(MPI_Op op) {
  for (const MPI_Op known : {MPI_MAX, MPI_MIN, MPI_SUM, MPI_PROD, MPI_LAND, MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR,
                             MPI_BXOR, MPI_MAXLOC, MPI_MINLOC})
    if (op == known)
      return true;
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
  if (!is_predefined(op)) {
    result.error_class = MPI_ERR_OP;
    result.error = "the operation is none of MPI's own: a stream does not call the program's";
    return result;
  }
  const auto [known, row] = find(op, datatype);
  result.run = row.run;
  result.size = row.size;
  if (!known) {
    result.error_class = MPI_ERR_TYPE;
    result.error = is_named(datatype) ? "the datatype " + name_of(datatype) + " is none that a stream reduces"
                                      : "the datatype is none of MPI's own";
  } else if (row.run == nullptr) {
    result.error_class = MPI_ERR_OP;
    result.error = "the operation is not defined for the datatype";
  }
  return result;
}

}  // namespace lanyard::api
