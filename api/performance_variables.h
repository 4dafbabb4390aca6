// PerformanceVariables: Lanyard's figures among the performance variables of the MPI's tool information interface
// (MPI 4.0 section 15.3.7). No MPI has a call by which a library adds variables of its own, but its calls come by the
// profiling interface like all others (tool_calls.cc): those on Lanyard's variables end here, all others go on.
//
// Tools may ask before MPI_Init and after MPI_Finalize: so this is not a part of the Context, and the variables then
// hold 0, or what they held at the end.
//
// Indices: Lanyard's variables stand behind those that the MPI had when somebody first asked. The MPI may get more of
// them later, from components that it loads: these stand behind Lanyard's. So no index changes its meaning.
#ifndef LANYARD_API_PERFORMANCE_VARIABLES_H_
#define LANYARD_API_PERFORMANCE_VARIABLES_H_

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/figures.h"

namespace lanyard::api {

// Threads: any. Waits for the context's lock.
class PerformanceVariables {
 public:
  // Of the process.
  static PerformanceVariables& get();

  // The context, which has a network card, from which the figures come until detach(). Without its lock.
  void attach(Context& context);
  void detach();

  int size() const { return static_cast<int>(variables_.size()); }
  // Where an index leads: to one of these variables, or to one of the MPI's by the MPI's own index. The error code of
  // the MPI where that does not say how many it has.
  struct Place {
    std::optional<size_t> own;
    int mpis = 0;
  };
  int find(int index, Place* place);
  // The index of the MPI's variable, or of this one. As above.
  int index_of_mpis(int mpis, int* index);
  int index_of_own(size_t own, int* index);
  // How many there are, where the MPI has so many.
  int all(int mpis);
  // The variable of that name; none where there is none of that name and class.
  std::optional<size_t> find(const std::string& name, int var_class) const;

  const Figure& figure(size_t own) const { return *variables_[own].figure; }
  const std::string& name(size_t own) const { return variables_[own].name; }
  static int class_of(const Figure& figure);

  MPI_T_pvar_handle open(MPI_T_pvar_session session, size_t own);
  // Whether it is a handle that open() has given out.
  bool owns(MPI_T_pvar_handle handle);
  // None where it is no handle of that session's.
  std::optional<uint64_t> read(MPI_T_pvar_session session, MPI_T_pvar_handle handle);
  // False as above.
  bool close(MPI_T_pvar_session session, MPI_T_pvar_handle handle);
  // And all handles of it.
  void close(MPI_T_pvar_session session);

 private:
  struct Variable {
    const Figure* figure;
    std::string name;
    uint64_t last = 0;  // what it held when the context went
  };
  struct Handle {
    MPI_T_pvar_session session;
    size_t own;
  };

  PerformanceVariables();
  int learn_first();
  std::vector<std::unique_ptr<Handle>>::iterator find(MPI_T_pvar_handle handle);

  std::mutex mutex_;  // guards what follows, `last` among it; taken before the context's lock
  std::vector<Variable> variables_;
  std::vector<std::unique_ptr<Handle>> handles_;
  std::optional<int> first_;  // the index of the first of these
  Context* context_ = nullptr;
};

}  // namespace lanyard::api

#endif  // LANYARD_API_PERFORMANCE_VARIABLES_H_
