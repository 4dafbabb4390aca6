// The MPI's tool information interface, with a session for the time of a case. It is initialised and never finalised:
// without Lanyard too, MPICH 4.0 crashes where it is used once more afterwards, and Open MPI 4.1 where MPI_T_finalize
// comes after MPI_Finalize.
#ifndef LANYARD_TESTS_CONFORMANCE_TOOLS_H_
#define LANYARD_TESTS_CONFORMANCE_TOOLS_H_

#include <mpi.h>

#include <string>

namespace lanyard::conformance {

constexpr int kText = 512;

// All that is to be known of a performance variable, by the one function or the other.
struct Variable {
  int code = MPI_SUCCESS;
  std::string name, description;
  int name_length = kText, description_length = kText;
  int verbosity = -1, var_class = -1, binding = -1, read_only = -1, continuous = -1, atomic = -1;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
  MPI_T_enum enumeration = MPI_T_ENUM_NULL;

  explicit Variable(int index, decltype(&MPI_T_pvar_get_info) get_info = MPI_T_pvar_get_info) {
    char name_text[kText] = "", description_text[kText] = "";
    code = get_info(index, name_text, &name_length, &verbosity, &var_class, &datatype, &enumeration, description_text,
                    &description_length, &binding, &read_only, &continuous, &atomic);
    name = name_text;
    description = description_text;
  }
  // Whether it can be bound to `object`: to MPI_COMM_WORLD, or to nothing. Those of Open MPI's PSM2 component cannot
  // where that is not used, and crash.
  bool has_object(void** object) {
    static MPI_Comm world = MPI_COMM_WORLD;
    *object = binding == MPI_T_BIND_MPI_COMM ? &world : nullptr;
    return code == MPI_SUCCESS && (binding == MPI_T_BIND_MPI_COMM || binding == MPI_T_BIND_NO_OBJECT) &&
           name.rfind("mtl_psm2_", 0) != 0;
  }
  bool is_lanyards() const { return name.rfind("lanyard_", 0) == 0; }
};

struct Tools {
  MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;

  Tools() {
    int provided = 0;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session_create(&session);
  }
  ~Tools() {
    if (session != MPI_T_PVAR_SESSION_NULL)
      MPI_T_pvar_session_free(&session);
  }
  Tools(const Tools&) = delete;
  Tools& operator=(const Tools&) = delete;

  static int count() {
    int count = -1;
    MPI_T_pvar_get_num(&count);
    return count;
  }
};

}  // namespace lanyard::conformance

#endif  // LANYARD_TESTS_CONFORMANCE_TOOLS_H_
