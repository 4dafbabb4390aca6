#include "api/datatype.h"

#include <utility>

#include "api/type_map.h"

namespace lanyard::api {

Result<Elements> elements_of(MPI_Datatype datatype, uint64_t count) {
  const Result<gpu::Shape> shape = shape_of(datatype, count);
  if (!shape.ok())
    return shape.status();
  if (shape.value().empty())
    return Elements();
  if (shape.value().is_run())
    return Elements{.bytes = shape.value().length, .offset = shape.value().offset};
  auto layout = std::make_shared<const gpu::Layout>(shape.value());
  const uint64_t bytes = layout->bytes();
  return Elements{.bytes = bytes, .layout = std::move(layout)};
}

Result<Elements> Datatypes::elements_of(MPI_Datatype datatype, uint64_t count) {
  for (const Known& known : known_)
    if (known.datatype == datatype)
      return Elements{.bytes = known.bytes * count};
  // Two elements are a run where one has no gap behind it.
  if (is_named(datatype))
    if (const Result<Elements> two = api::elements_of(datatype, 2);
        two.ok() && two.value().layout == nullptr && two.value().offset == 0)
      known_[next_++ % known_.size()] = {datatype, two.value().bytes / 2};
  return api::elements_of(datatype, count);
}

}  // namespace lanyard::api
