// The calls of the MPI's tool information interface that concern performance variables: see performance_variables.h.
// Lanyard's variables are continuous, can only be read, belong to no object, and are numbers of MPI_UNSIGNED_LONG_LONG.

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "api/performance_variables.h"

namespace {

using lanyard::api::Figure;
using lanyard::api::PerformanceVariables;

PerformanceVariables& variables() { return PerformanceVariables::get(); }

// As MPI 4.0 section 15.3.3 has it: `length` is the room, and afterwards what the whole text takes.
void give(std::string_view text, char* buffer, int* length) {
  if (length == nullptr)
    return;
  if (buffer != nullptr && *length > 0) {
    const size_t most = std::min(text.size(), static_cast<size_t>(*length) - 1);
    text.copy(buffer, most);
    buffer[most] = '\0';
  }
  *length = static_cast<int>(text.size()) + 1;
}

// An argument may be null where nobody wants to know.
template <typename Value>
void give(Value value, Value* out) {
  if (out != nullptr)
    *out = value;
}

// Of what a variable of Lanyard's cannot do; else what the MPI says.
template <typename MpisCall>
int refuse_own(MPI_T_pvar_handle handle, int code, MpisCall mpis_call) {
  return variables().owns(handle) ? code : mpis_call();
}

}  // namespace

extern "C" {

int MPI_T_pvar_get_num(int* count) {
  const int code = PMPI_T_pvar_get_num(count);
  if (code == MPI_SUCCESS)
    *count = variables().all(*count);
  return code;
}

int MPI_T_pvar_get_info(int index, char* name, int* name_length, int* verbosity, int* var_class, MPI_Datatype* datatype,
                        MPI_T_enum* enumeration, char* description, int* description_length, int* binding,
                        int* read_only, int* continuous, int* atomic) {
  PerformanceVariables::Place place;
  if (const int code = variables().find(index, &place); code != MPI_SUCCESS)
    return code;
  if (!place.own)
    return PMPI_T_pvar_get_info(place.mpis, name, name_length, verbosity, var_class, datatype, enumeration, description,
                                description_length, binding, read_only, continuous, atomic);
  const Figure& figure = variables().figure(*place.own);
  give(variables().name(*place.own), name, name_length);
  give(figure.description, description, description_length);
  give<int>(MPI_T_VERBOSITY_USER_BASIC, verbosity);
  give<int>(PerformanceVariables::class_of(figure), var_class);
  give<MPI_Datatype>(MPI_UNSIGNED_LONG_LONG, datatype);
  give<MPI_T_enum>(MPI_T_ENUM_NULL, enumeration);
  give<int>(MPI_T_BIND_NO_OBJECT, binding);
  give(1, read_only);
  give(1, continuous);
  give(0, atomic);
  return MPI_SUCCESS;
}

int MPI_T_pvar_get_index(const char* name, int var_class, int* index) {
  if (name != nullptr && index != nullptr)
    if (const std::optional<size_t> own = variables().find(name, var_class))
      return variables().index_of_own(*own, index);
  const int code = PMPI_T_pvar_get_index(name, var_class, index);
  return code == MPI_SUCCESS ? variables().index_of_mpis(*index, index) : code;
}

int MPI_T_pvar_session_free(MPI_T_pvar_session* session) {
  if (session != nullptr)
    variables().close(*session);
  return PMPI_T_pvar_session_free(session);
}

int MPI_T_pvar_handle_alloc(MPI_T_pvar_session session, int index, void* object, MPI_T_pvar_handle* handle,
                            int* count) {
  PerformanceVariables::Place place;
  if (const int code = variables().find(index, &place); code != MPI_SUCCESS)
    return code;
  if (!place.own)
    return PMPI_T_pvar_handle_alloc(session, place.mpis, object, handle, count);
  *handle = variables().open(session, *place.own);
  *count = 1;
  return MPI_SUCCESS;
}

int MPI_T_pvar_handle_free(MPI_T_pvar_session session, MPI_T_pvar_handle* handle) {
  if (handle == nullptr || !variables().owns(*handle))
    return PMPI_T_pvar_handle_free(session, handle);
  if (!variables().close(session, *handle))
    return MPI_T_ERR_INVALID_HANDLE;
  *handle = MPI_T_PVAR_HANDLE_NULL;
  return MPI_SUCCESS;
}

int MPI_T_pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buffer) {
  if (!variables().owns(handle))
    return PMPI_T_pvar_read(session, handle, buffer);
  const std::optional<uint64_t> value = variables().read(session, handle);
  if (!value)
    return MPI_T_ERR_INVALID_HANDLE;
  const unsigned long long number = *value;
  std::memcpy(buffer, &number, sizeof number);
  return MPI_SUCCESS;
}

int MPI_T_pvar_start(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return refuse_own(handle, MPI_T_ERR_PVAR_NO_STARTSTOP, [&] { return PMPI_T_pvar_start(session, handle); });
}

int MPI_T_pvar_stop(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return refuse_own(handle, MPI_T_ERR_PVAR_NO_STARTSTOP, [&] { return PMPI_T_pvar_stop(session, handle); });
}

int MPI_T_pvar_write(MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void* buffer) {
  return refuse_own(handle, MPI_T_ERR_PVAR_NO_WRITE, [&] { return PMPI_T_pvar_write(session, handle, buffer); });
}

int MPI_T_pvar_reset(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  return refuse_own(handle, MPI_T_ERR_PVAR_NO_WRITE, [&] { return PMPI_T_pvar_reset(session, handle); });
}

int MPI_T_pvar_readreset(MPI_T_pvar_session session, MPI_T_pvar_handle handle, void* buffer) {
  return refuse_own(handle, MPI_T_ERR_PVAR_NO_ATOMIC, [&] { return PMPI_T_pvar_readreset(session, handle, buffer); });
}

// Lanyard's variables are in no category; those of the MPI have other indices than it knows.
int MPI_T_category_get_pvars(int category, int room, int indices[]) {
  int code = PMPI_T_category_get_pvars(category, room, indices);
  int count = 0;
  if (code == MPI_SUCCESS)
    code = PMPI_T_category_get_info(category, nullptr, nullptr, nullptr, nullptr, nullptr, &count, nullptr);
  for (int i = 0; code == MPI_SUCCESS && i < std::min(count, room); ++i)
    code = variables().index_of_mpis(indices[i], &indices[i]);
  return code;
}

}  // extern "C"
