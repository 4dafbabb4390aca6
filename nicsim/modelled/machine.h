// Machine: the figures of a machine that the model needs, each with its unit and where it comes from, in a file that
// people read and write:
//
//   # comment
//   nic.byte        44.7 ps/B      fitted: ping-pong of 32 B to 1 GiB, 44.6 to 44.8
//
// name, value, unit, and the origin up to the end of the line. A `?` as the value says that nobody has measured it.
// Units are those of the table in machine.cc; us and ns stand for each other.
#ifndef LANYARD_NICSIM_MODELLED_MACHINE_H_
#define LANYARD_NICSIM_MODELLED_MACHINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "nicsim/modelled/job.h"
#include "transport/base/status.h"

namespace lanyard::modelled {

// The memory that messages are in: AMD's names for memory whose caches are flushed when a kernel ends, and for memory
// that is not cached.
enum class Memory : uint8_t { kCoarse, kFine };

struct Figure {
  double value = 0;
  std::string origin;
};

class Machine {
 public:
  // A built-in one, or else a file. kNotFound, kInvalidArgument: what is wrong and in which line; or which figures
  // nobody has measured yet.
  static Result<Machine> open(const std::string& name);
  static Result<Machine> parse(std::string_view text, const std::string& name);

  const std::string& name() const { return name_; }
  // Requires a figure of that name.
  double operator[](const std::string& figure) const;
  void set(const std::string& figure, double value, std::string origin);
  const Figure& figure(const std::string& figure) const;
  std::string to_text() const;

  // Where so many ranks share a node. Kernels' costs are the workload's to ask for.
  Costs costs(Memory memory, uint32_t ranks_per_node) const;
  Placement placement(uint32_t ranks_per_node) const;
  Picoseconds time(const std::string& figure) const;   // of one in us
  Femtoseconds each(const std::string& figure) const;  // of one in ps

 private:
  std::string name_;
  std::map<std::string, Figure, std::less<>> figures_;
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_MACHINE_H_
