// The arithmetic of reductions, one source for hosts and devices. Both produce the same bits
// because neither contracts a product and a sum into one operation. Compile it with
// -ffp-contract=off on hosts (gpu/BUILD.bazel); kernels.cu is compiled likewise.
#ifndef LANYARD_GPU_COMBINE_H_
#define LANYARD_GPU_COMBINE_H_

#include <math.h>
#include <stdint.h>

#include "gpu/host_and_device.h"

namespace lanyard::gpu {

enum class Operation : uint32_t {
  kMax,
  kMin,
  kSum,
  kProduct,
  kLogicalAnd,
  kLogicalOr,
  kLogicalXor,
  kBitAnd,
  kBitOr,
  kBitXor,
  kMaxLocation,  // of equal values, the lower index
  kMinLocation,
};

// X(element, its operations by MPI 4.0 sections 6.9.2 and 6.9.4, its C++ type).
#define LANYARD_ELEMENTS(X)                     \
  X(kInt8, Integers, int8_t)                    \
  X(kInt16, Integers, int16_t)                  \
  X(kInt32, Integers, int32_t)                  \
  X(kInt64, Integers, int64_t)                  \
  X(kUint8, Integers, uint8_t)                  \
  X(kUint16, Integers, uint16_t)                \
  X(kUint32, Integers, uint32_t)                \
  X(kUint64, Integers, uint64_t)                \
  X(kFloat, Reals, float)                       \
  X(kDouble, Reals, double)                     \
  X(kFloatComplex, Complexes, Complex<float>)   \
  X(kDoubleComplex, Complexes, Complex<double>) \
  X(kBool, Logicals, bool)                      \
  X(kFloatInt32, Pairs, Pair<float, int32_t>)   \
  X(kDoubleInt32, Pairs, Pair<double, int32_t>) \
  X(kInt16Int32, Pairs, Pair<int16_t, int32_t>) \
  X(kInt32Int32, Pairs, Pair<int32_t, int32_t>) \
  X(kInt64Int32, Pairs, Pair<int64_t, int32_t>) \
  X(kFloatFloat, Pairs, Pair<float, float>)     \
  X(kDoubleDouble, Pairs, Pair<double, double>)
// Elements that devices do not support.
#define LANYARD_HOST_ELEMENTS(X)                         \
  X(kLongDouble, Reals, long double)                     \
  X(kLongDoubleComplex, Complexes, Complex<long double>) \
  X(kLongDoubleInt32, Pairs, Pair<long double, int32_t>)

enum class Element : uint32_t {
#define LANYARD_ELEMENT(element, ...) element,
  LANYARD_ELEMENTS(LANYARD_ELEMENT) LANYARD_HOST_ELEMENTS(LANYARD_ELEMENT)
#undef LANYARD_ELEMENT
};

// out[i] = ((parts[0][i] op parts[1][i]) op parts[2][i]) ..., always in this order. `out` may be
// one of the parts. Addresses are integers: kernels take this struct as it is.
struct CombineArguments {
  uint64_t out;
  uint64_t parts;       // the address of an array of part_count addresses
  uint64_t part_count;  // at least 1
  uint64_t count;       // elements in each part
  Element element;
  Operation operation;
};

namespace combining {

template <typename T>
struct Complex {
  T real, imaginary;
};
// A value and its index, for kMaxLocation and kMinLocation.
template <typename V, typename I>
struct Pair {
  V value;
  I index;
};

template <typename T>
LANYARD_HOST_AND_DEVICE inline bool is_infinite(T x) {
  return x == x && x - x != 0;
}

template <typename T>
LANYARD_HOST_AND_DEVICE inline bool is_infinite(Complex<T> z) {
  return is_infinite(z.real) || is_infinite(z.imaginary);
}

// 1 if x is infinite, else 0; with the sign of x.
template <typename T>
LANYARD_HOST_AND_DEVICE inline T boxed(T x) {
  return copysign(is_infinite(x) ? T(1) : T(0), x);
}

template <typename T>
LANYARD_HOST_AND_DEVICE inline T number_or_zero(T x) {
  return x == x ? x : copysign(T(0), x);
}

template <typename T>
LANYARD_HOST_AND_DEVICE inline Complex<T> plain_product(Complex<T> a, Complex<T> b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

// A complex product by C11 annex G.5.1. If both parts come out as NaN, the product may still be
// infinite: because of an infinite factor, or because a partial product overflows. Compute it
// again then.
template <typename T>
LANYARD_HOST_AND_DEVICE inline Complex<T> product_of(Complex<T> a, Complex<T> b) {
  const Complex<T> product = plain_product(a, b);
  if (product.real == product.real || product.imaginary == product.imaginary)
    return product;
  const bool overflows = is_infinite(a.real * b.real) || is_infinite(a.imaginary * b.imaginary) ||
                         is_infinite(a.real * b.imaginary) || is_infinite(a.imaginary * b.real);
  const bool infinite_a = is_infinite(a), infinite_b = is_infinite(b);
  if (!infinite_a && !infinite_b && !overflows)
    return product;
  const auto with_numbers = [](Complex<T> z) {
    return Complex<T>{number_or_zero(z.real), number_or_zero(z.imaginary)};
  };
  const auto in_box = [](Complex<T> z) { return Complex<T>{boxed(z.real), boxed(z.imaginary)}; };
  const Complex<T> left = infinite_a ? in_box(a) : with_numbers(a);
  const Complex<T> right = infinite_b ? in_box(b) : with_numbers(b);
  const Complex<T> direction = plain_product(left, right);
  const T infinity = static_cast<T>(HUGE_VAL);
  return {infinity * direction.real, infinity * direction.imaginary};
}

// For integers and real numbers. Integers wrap around on overflow.
template <Operation operation, typename T>
LANYARD_HOST_AND_DEVICE inline T combined(T a, T b) {
  constexpr bool is_real = T(1) / 2 != 0;
  if constexpr (operation == Operation::kMax)
    return b > a ? b : a;
  else if constexpr (operation == Operation::kMin)
    return b < a ? b : a;
  else if constexpr (operation == Operation::kSum && is_real)
    return a + b;
  else if constexpr (operation == Operation::kProduct && is_real)
    return a * b;
  else if constexpr (operation == Operation::kSum)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else if constexpr (operation == Operation::kProduct)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else if constexpr (operation == Operation::kLogicalAnd)
    return static_cast<T>(a && b);
  else if constexpr (operation == Operation::kLogicalOr)
    return static_cast<T>(a || b);
  else if constexpr (operation == Operation::kLogicalXor)
    return static_cast<T>(!a != !b);
  else if constexpr (operation == Operation::kBitAnd)
    return static_cast<T>(a & b);
  else if constexpr (operation == Operation::kBitOr)
    return static_cast<T>(a | b);
  else
    return static_cast<T>(a ^ b);
}

template <Operation operation, typename T>
LANYARD_HOST_AND_DEVICE inline Complex<T> combined(Complex<T> a, Complex<T> b) {
  if constexpr (operation == Operation::kSum)
    return {a.real + b.real, a.imaginary + b.imaginary};
  else
    return product_of(a, b);
}

template <Operation operation, typename V, typename I>
LANYARD_HOST_AND_DEVICE inline Pair<V, I> combined(Pair<V, I> a, Pair<V, I> b) {
  constexpr Operation kBetter = operation == Operation::kMaxLocation ? Operation::kMax : Operation::kMin;
  if (a.value == b.value)
    return {a.value, b.index < a.index ? b.index : a.index};
  return combined<kBetter>(a.value, b.value) == a.value ? a : b;
}

template <typename T, Operation operation>
LANYARD_HOST_AND_DEVICE inline bool run(const CombineArguments& arguments, uint64_t first, uint64_t stride) {
  const uint64_t* const parts = reinterpret_cast<const uint64_t*>(arguments.parts);
  T* const out = reinterpret_cast<T*>(arguments.out);
  for (uint64_t i = first; i < arguments.count; i += stride) {
    T result = reinterpret_cast<const T*>(parts[0])[i];
    for (uint64_t part = 1; part < arguments.part_count; ++part)
      result = combined<operation>(result, reinterpret_cast<const T*>(parts[part])[i]);
    out[i] = result;
  }
  return true;
}

template <Operation... operations>
struct Defined {
  // Runs a.operation. Returns false if it is not one of `operations`.
  template <typename T>
  LANYARD_HOST_AND_DEVICE static bool run(const CombineArguments& a, uint64_t first, uint64_t stride) {
    return ((a.operation == operations && combining::run<T, operations>(a, first, stride)) || ...);
  }
};
using Integers =
    Defined<Operation::kMax, Operation::kMin, Operation::kSum, Operation::kProduct, Operation::kLogicalAnd,
            Operation::kLogicalOr, Operation::kLogicalXor, Operation::kBitAnd, Operation::kBitOr, Operation::kBitXor>;
using Reals = Defined<Operation::kMax, Operation::kMin, Operation::kSum, Operation::kProduct>;
using Complexes = Defined<Operation::kSum, Operation::kProduct>;
using Logicals = Defined<Operation::kLogicalAnd, Operation::kLogicalOr, Operation::kLogicalXor>;
using Pairs = Defined<Operation::kMaxLocation, Operation::kMinLocation>;

}  // namespace combining

// Combines the elements first, first + stride, ... Returns false and does nothing if the operation
// is not defined for the element, or if a device does not support the element.
LANYARD_HOST_AND_DEVICE inline bool combine(const CombineArguments& a, uint64_t first, uint64_t stride) {
  using namespace combining;
#define LANYARD_ELEMENT(element, defined, ...) \
  case Element::element: return defined::run<__VA_ARGS__>(a, first, stride);
  switch (a.element) {
    LANYARD_ELEMENTS(LANYARD_ELEMENT)
#if !LANYARD_FOR_DEVICES
    LANYARD_HOST_ELEMENTS(LANYARD_ELEMENT)
#endif
    default: return false;
  }
#undef LANYARD_ELEMENT
}

}  // namespace lanyard::gpu

#endif  // LANYARD_GPU_COMBINE_H_
