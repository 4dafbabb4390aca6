#include "api/datatype.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lanyard::api {

namespace {

using gpu::Shape;

// The arguments of a datatype's constructor (MPI 4.0 section 5.1.13).
class Contents {
 public:
  // Requires that it is not a named datatype.
  explicit Contents(MPI_Datatype datatype) { fetch(datatype); }
  ~Contents() {
    for (MPI_Datatype& datatype : datatypes_)
      if (combiner_of(datatype) != MPI_COMBINER_NAMED)
        PMPI_Type_free(&datatype);
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  static int combiner_of(MPI_Datatype datatype) { return envelope_of(datatype).combiner; }
  int combiner() const { return combiner_; }
  MPI_Datatype datatype(size_t index = 0) const { return datatypes_[index]; }
  // The integers, addresses and counts of the constructor, in the order of its arguments.
  int64_t number(size_t index) const { return numbers_[index]; }
  uint64_t count(size_t index) const { return static_cast<uint64_t>(numbers_[index]); }

 private:
#if MPI_VERSION >= 4
  using Number = MPI_Count;
#else
  using Number = int;
#endif
  struct Envelope {
    Number integers = 0;
    Number addresses = 0;
    Number counts = 0;  // with large counts: all lengths and displacements
    Number datatypes = 0;
    int combiner = MPI_COMBINER_NAMED;
  };

  static Envelope envelope_of(MPI_Datatype datatype) {
    Envelope envelope;
#if MPI_VERSION >= 4
    PMPI_Type_get_envelope_c(datatype, &envelope.integers, &envelope.addresses, &envelope.counts, &envelope.datatypes,
                             &envelope.combiner);
#else
    PMPI_Type_get_envelope(datatype, &envelope.integers, &envelope.addresses, &envelope.datatypes, &envelope.combiner);
#endif
    return envelope;
  }

  void fetch(MPI_Datatype datatype) {
    const Envelope envelope = envelope_of(datatype);
    combiner_ = envelope.combiner;
    std::vector<int> integers(static_cast<size_t>(envelope.integers) + 1);
    std::vector<MPI_Aint> addresses(static_cast<size_t>(envelope.addresses) + 1);
    std::vector<MPI_Count> counts(static_cast<size_t>(envelope.counts) + 1);
    datatypes_.resize(static_cast<size_t>(envelope.datatypes), MPI_DATATYPE_NULL);
#if MPI_VERSION >= 4
    PMPI_Type_get_contents_c(datatype, envelope.integers, envelope.addresses, envelope.counts, envelope.datatypes,
                             integers.data(), addresses.data(), counts.data(), datatypes_.data());
#else
    PMPI_Type_get_contents(datatype, envelope.integers, envelope.addresses, envelope.datatypes, integers.data(),
                           addresses.data(), datatypes_.data());
#endif
    integers.pop_back();
    addresses.pop_back();
    counts.pop_back();
    // In all constructors lengths come before displacements. The last integer of a
    // subarray is its order.
    const bool order_last = !counts.empty() && combiner_ == MPI_COMBINER_SUBARRAY;
    numbers_.assign(integers.begin(), integers.end() - (order_last ? 1 : 0));
    numbers_.insert(numbers_.end(), counts.begin(), counts.end());
    numbers_.insert(numbers_.end(), addresses.begin(), addresses.end());
    if (order_last)
      numbers_.push_back(integers.back());
  }

  int combiner_ = MPI_COMBINER_NAMED;
  std::vector<int64_t> numbers_;
  std::vector<MPI_Datatype> datatypes_;
};

int64_t extent_of(MPI_Datatype datatype) {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  PMPI_Type_get_extent_x(datatype, &lower, &extent);
  return extent;
}

// A predefined datatype: a run of bytes. Those of MPI_MINLOC and MPI_MAXLOC are a value and an int,
// with the compiler's padding between.
Shape named(MPI_Datatype datatype) {
  MPI_Count size = 0;
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  PMPI_Type_size_x(datatype, &size);
  PMPI_Type_get_true_extent_x(datatype, &lower, &extent);
  Shape run;
  run.length = static_cast<uint64_t>(size);
  if (size == extent || size <= static_cast<MPI_Count>(sizeof(int)))
    return run;
  Shape index = run;
  index.length = sizeof(int);
  run.length -= index.length;
  std::vector<Shape> parts;
  append(parts, run, 0);
  append(parts, index, extent - static_cast<MPI_Count>(sizeof(int)));
  return sequence(std::move(parts));
}

size_t loops_in(const Shape& shape) {
  size_t loops = 1;
  for (const Shape& part : shape.parts)
    loops += loops_in(part);
  return loops;
}

class Flattening {
 public:
  // One element.
  Result<Shape> shape_of(MPI_Datatype datatype, int depth) {
    if (is_named(datatype))
      return named(datatype);
    if (depth == gpu::Layout::kDeepest)
      return too_much();
    const Contents made(datatype);
    switch (made.combiner()) {
      case MPI_COMBINER_F90_REAL:
      case MPI_COMBINER_F90_COMPLEX:
      case MPI_COMBINER_F90_INTEGER: return named(datatype);
      case MPI_COMBINER_STRUCT: return structure(made, depth);
      case MPI_COMBINER_DUP:
      case MPI_COMBINER_RESIZED:
      case MPI_COMBINER_CONTIGUOUS:
      case MPI_COMBINER_VECTOR:
      case MPI_COMBINER_HVECTOR:
      case MPI_COMBINER_INDEXED:
      case MPI_COMBINER_HINDEXED:
      case MPI_COMBINER_INDEXED_BLOCK:
      case MPI_COMBINER_HINDEXED_BLOCK:
      case MPI_COMBINER_SUBARRAY: break;
      default:
        return Status(Code::kUnsupported,
                      std::string("the datatype is made by ") +
                          (made.combiner() == MPI_COMBINER_DARRAY ? "MPI_Type_create_darray"
                                                                  : "a constructor that Lanyard does not know") +
                          ", and cannot be matched (use MPI_Type_create_subarray, or a contiguous "
                          "buffer of bytes, filled by MPI_Pack or by a kernel on the stream)");
    }
    LANYARD_ASSIGN_OR_RETURN(const Shape inner, shape_of(made.datatype(), depth + 1));
    return of_one(made, inner, extent_of(made.datatype()));
  }

 private:
  static Status too_much() {
    return {Code::kUnsupported,
            "the datatype has too many irregular blocks or is nested too deeply (at most " +
                std::to_string(gpu::Layout::kMostLoops) + " irregular blocks, " +
                std::to_string(gpu::Layout::kDeepest) +
                " levels): use a contiguous buffer of bytes, filled by MPI_Pack or by a kernel on the stream"};
  }

  // A constructor with one inner datatype.
  Result<Shape> of_one(const Contents& made, const Shape& inner, int64_t extent) {
    switch (made.combiner()) {
      case MPI_COMBINER_CONTIGUOUS: return repeat(inner, made.count(0), extent);
      case MPI_COMBINER_VECTOR:
        return repeat(repeat(inner, made.count(1), extent), made.count(0), made.number(2) * extent);
      case MPI_COMBINER_HVECTOR: return repeat(repeat(inner, made.count(1), extent), made.count(0), made.number(2));
      case MPI_COMBINER_INDEXED: return blocks(made, inner, extent, extent, false);
      case MPI_COMBINER_HINDEXED: return blocks(made, inner, extent, 1, false);
      case MPI_COMBINER_INDEXED_BLOCK: return blocks(made, inner, extent, extent, true);
      case MPI_COMBINER_HINDEXED_BLOCK: return blocks(made, inner, extent, 1, true);
      case MPI_COMBINER_SUBARRAY: return subarray(made, inner, extent);
      default: return inner;  // duplicate or resized: extent_of() asks the MPI for the extent
    }
  }

  Status add(std::vector<Shape>& parts, Shape shape, int64_t offset) {
    const size_t before = parts.size();
    const size_t loops = loops_in(shape);
    append(parts, std::move(shape), offset);
    if (parts.size() > before)
      loops_ += loops;
    return loops_ > gpu::Layout::kMostLoops ? too_much() : Status();
  }

  // Blocks of different lengths, or of equal ones. Displacements are in units of `unit` bytes.
  Result<Shape> blocks(const Contents& made, const Shape& inner, int64_t extent, int64_t unit, bool equal) {
    const size_t count = made.count(0);
    const size_t first_displacement = equal ? 2 : 1 + count;
    std::vector<Shape> parts;
    for (size_t i = 0; i < count; ++i)
      LANYARD_RETURN_IF_ERROR(
          add(parts, repeat(inner, made.count(equal ? 1 : 1 + i), extent), made.number(first_displacement + i) * unit));
    return sequence(std::move(parts));
  }

  Result<Shape> subarray(const Contents& made, Shape shape, int64_t extent) {
    const size_t dimensions = made.count(0);
    const bool fortran = made.number(1 + 3 * dimensions) == MPI_ORDER_FORTRAN;
    int64_t stride = extent;
    int64_t offset = 0;
    for (size_t i = 0; i < dimensions; ++i) {  // the fastest dimension first
      const size_t dimension = fortran ? i : dimensions - 1 - i;
      shape = repeat(std::move(shape), made.count(1 + dimensions + dimension), stride);
      offset += made.number(1 + 2 * dimensions + dimension) * stride;
      stride *= made.number(1 + dimension);
    }
    shape.offset += offset;
    return shape;
  }

  Result<Shape> structure(const Contents& made, int depth) {
    const size_t count = made.count(0);
    std::vector<Shape> parts;
    for (size_t i = 0; i < count; ++i) {
      if (made.count(1 + i) == 0)
        continue;
      LANYARD_ASSIGN_OR_RETURN(Shape inner, shape_of(made.datatype(i), depth + 1));
      LANYARD_RETURN_IF_ERROR(add(parts, repeat(std::move(inner), made.count(1 + i), extent_of(made.datatype(i))),
                                  made.number(1 + count + i)));
    }
    return sequence(std::move(parts));
  }

  size_t loops_ = 0;
};

}  // namespace

int combiner_of(MPI_Datatype datatype) { return Contents::combiner_of(datatype); }

Result<Elements> elements_of(MPI_Datatype datatype, uint64_t count) {
  if (count == 0)
    return Elements();
  LANYARD_ASSIGN_OR_RETURN(Shape one, Flattening().shape_of(datatype, 0));
  const Shape shape = repeat(std::move(one), count, extent_of(datatype));
  if (shape.empty())
    return Elements();
  if (shape.is_run())
    return Elements{.bytes = shape.length, .offset = shape.offset};
  auto layout = std::make_shared<const gpu::Layout>(shape);
  const uint64_t bytes = layout->bytes();
  return Elements{.bytes = bytes, .layout = std::move(layout)};
}

}  // namespace lanyard::api
