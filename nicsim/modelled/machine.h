// Machine: the figures of a machine that the model needs, each with its unit and
// origin. Its file is text:
//
//   # comment
//   nic.byte        44.7 ps/B      fitted: ping-pong of 32 B to 1 GiB, 44.6 to 44.8
//
// A line has name, value, unit, and the origin up to its end. The value `?` says that
// nobody has measured the figure. The units are in the table of machine.cc. A figure in
// us may also be given in ns.
#ifndef LANYARD_NICSIM_MODELLED_MACHINE_H_
#define LANYARD_NICSIM_MODELLED_MACHINE_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "nicsim/modelled/job.h"
#include "transport/base/status.h"

namespace lanyard::modelled {

// The memory of messages, in AMD's terms. Coarse-grained: caches are flushed when a kernel ends.
// Fine-grained: not cached.
enum class Memory : uint8_t { kCoarse, kFine };

struct Figure {
  double value = 0;
  std::string origin;
};

class Machine {
 public:
  // Opens a built-in machine, or else a file. kNotFound; kInvalidArgument with the line and the
  // reason, or with the figures that have no value.
  static Result<Machine> open(const std::string& name);
  static Result<Machine> parse(std::string_view text, const std::string& name);

  const std::string& name() const { return name_; }
  // Requires a figure of that name.
  double operator[](const std::string& figure) const;
  void set(const std::string& figure, double value, std::string origin);
  const Figure& figure(const std::string& figure) const;
  std::string to_text() const;

  // The costs with this many ranks on a node. Costs of kernels are not included:
  // ask with time() and each().
  Costs costs(Memory memory, uint32_t ranks_per_node) const;
  Placement placement(uint32_t ranks_per_node) const;
  Picoseconds time(const std::string& figure) const;   // of a figure in us
  Femtoseconds each(const std::string& figure) const;  // of a figure in ps

 private:
  std::string name_;
  std::map<std::string, Figure, std::less<>> figures_;
};

}  // namespace lanyard::modelled

#endif  // LANYARD_NICSIM_MODELLED_MACHINE_H_
