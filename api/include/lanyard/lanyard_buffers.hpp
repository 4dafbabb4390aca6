// Buffers and their MPI datatypes in C++ (part of lanyard.hpp).
#ifndef LANYARD_LANYARD_BUFFERS_HPP_
#define LANYARD_LANYARD_BUFFERS_HPP_

#include <mpi.h>

#include <climits>
#include <complex>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace lanyard {

// MPI's datatype for T: arithmetic types, std::complex, std::byte. For another type specialise it
// with a contiguous datatype:
//     template <> inline MPI_Datatype lanyard::datatype_of<Vector>() { return my_vector; }
template <typename T>
MPI_Datatype datatype_of() {
  // clang-format off
  if constexpr (std::is_same_v<T, std::byte>) return MPI_BYTE;
  else if constexpr (std::is_same_v<T, bool>) return MPI_CXX_BOOL;
  else if constexpr (std::is_same_v<T, char>) return MPI_CHAR;
  else if constexpr (std::is_same_v<T, signed char>) return MPI_SIGNED_CHAR;
  else if constexpr (std::is_same_v<T, unsigned char>) return MPI_UNSIGNED_CHAR;
  else if constexpr (std::is_same_v<T, wchar_t>) return MPI_WCHAR;
  else if constexpr (std::is_same_v<T, short>) return MPI_SHORT;
  else if constexpr (std::is_same_v<T, unsigned short>) return MPI_UNSIGNED_SHORT;
  else if constexpr (std::is_same_v<T, int>) return MPI_INT;
  else if constexpr (std::is_same_v<T, unsigned>) return MPI_UNSIGNED;
  else if constexpr (std::is_same_v<T, long>) return MPI_LONG;
  else if constexpr (std::is_same_v<T, unsigned long>) return MPI_UNSIGNED_LONG;
  else if constexpr (std::is_same_v<T, long long>) return MPI_LONG_LONG;
  else if constexpr (std::is_same_v<T, unsigned long long>) return MPI_UNSIGNED_LONG_LONG;
  else if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  else if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
  else if constexpr (std::is_same_v<T, long double>) return MPI_LONG_DOUBLE;
  else if constexpr (std::is_same_v<T, std::complex<float>>) return MPI_CXX_FLOAT_COMPLEX;
  else if constexpr (std::is_same_v<T, std::complex<double>>) return MPI_CXX_DOUBLE_COMPLEX;
  else if constexpr (std::is_same_v<T, std::complex<long double>>) return MPI_CXX_LONG_DOUBLE_COMPLEX;
  else static_assert(!std::is_same_v<T, T>, "no MPI datatype is known: give one, or specialise datatype_of<T>()");
  // clang-format on
}

// The buffer of a request, which the caller keeps: a vector, array, span or the like;
// {pointer, count} with the datatype of T; or {pointer, count, datatype}. A pointer may be to GPU
// memory. A count is a number of elements, up to INT_MAX.
template <typename Void>
class BasicBuffer {
 public:
  template <typename Range, typename Pointer = decltype(std::data(std::declval<Range&>()))>
  BasicBuffer(Range&& range) : BasicBuffer(std::data(range), std::size(range)) {
    // A const owner, unlike a const view, has const elements. So this rejects temporary owners.
    static_assert(
        std::is_lvalue_reference_v<Range> || std::is_same_v<Pointer, decltype(std::data(std::declval<const Range&>()))>,
        "the buffer would be gone before the transfer: it must outlive the request");
  }
  template <typename T, typename Count>
  BasicBuffer(T* address, Count count) : BasicBuffer(address, count, datatype_of<std::remove_cv_t<T>>()) {}
  template <typename Count>
  BasicBuffer(Void* address, Count count, MPI_Datatype datatype) : address_(address), datatype_(datatype) {
    static_assert(std::is_integral_v<Count>, "the number of elements");
    if (count >= 0 && static_cast<std::make_unsigned_t<Count>>(count) <= static_cast<unsigned>(INT_MAX))
      count_ = static_cast<int>(count);
  }
  Void* address() const noexcept { return address_; }
  int count() const noexcept { return count_; }  // -1: negative, or more than INT_MAX
  MPI_Datatype datatype() const noexcept { return datatype_; }

 private:
  Void* address_;
  int count_ = -1;
  MPI_Datatype datatype_;
};
using Buffer = BasicBuffer<void>;
using ConstBuffer = BasicBuffer<const void>;

}  // namespace lanyard

#endif  // LANYARD_LANYARD_BUFFERS_HPP_
