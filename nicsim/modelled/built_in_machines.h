// The machine files that the command brings along (machines/*.txt), in the program itself: it is installed alone.
#ifndef LANYARD_NICSIM_MODELLED_BUILT_IN_MACHINES_H_
#define LANYARD_NICSIM_MODELLED_BUILT_IN_MACHINES_H_

#include <array>
#include <string_view>

namespace lanyard::modelled {

struct BuiltInMachine {
  std::string_view name;
  std::string_view text;
};

inline constexpr std::array kBuiltInMachines = {
#include "nicsim/modelled/machine_texts.inc"
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_BUILT_IN_MACHINES_H_
