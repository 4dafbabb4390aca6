#include "api/performance_variables.h"

#include <algorithm>
#include <type_traits>

#include "api/context.h"

namespace lanyard::api {

static_assert(std::is_pointer_v<MPI_T_pvar_handle>, "a handle has room for an address");

PerformanceVariables& PerformanceVariables::get() {
  static auto* const variables = new PerformanceVariables;  // destructors of the program may still ask
  return *variables;
}

PerformanceVariables::PerformanceVariables() {
  for (const std::span<const Figure> figures : {card_figures(), queue_figures()})
    for (const Figure& figure : figures)
      variables_.push_back({.figure = &figure, .name = std::string("lanyard_") + figure.name});
}

void PerformanceVariables::attach(Context& context) {
  const std::lock_guard guard(mutex_);
  context_ = &context;
}

void PerformanceVariables::detach() {
  const std::lock_guard guard(mutex_);
  if (context_ == nullptr)
    return;
  const ContextLock lock(*context_);
  for (Variable& variable : variables_)
    variable.last = variable.figure->read(*context_);
  context_ = nullptr;
}

// ---- Indices and names

int PerformanceVariables::learn_first() {
  if (first_)
    return MPI_SUCCESS;
  int mpis = 0;
  const int code = PMPI_T_pvar_get_num(&mpis);
  if (code == MPI_SUCCESS)
    first_ = mpis;
  return code;
}

int PerformanceVariables::all(int mpis) {
  const std::lock_guard guard(mutex_);
  // An MPI whose interface has been finalised and initialised again may have fewer than before.
  first_ = std::min(first_.value_or(mpis), mpis);
  return mpis + size();
}

int PerformanceVariables::find(int index, Place* place) {
  const std::lock_guard guard(mutex_);
  const int code = learn_first();
  if (code != MPI_SUCCESS)
    return code;
  *place = {};
  if (index < *first_)
    place->mpis = index;
  else if (index - *first_ < size())
    place->own = static_cast<size_t>(index - *first_);
  else
    place->mpis = index - size();
  return MPI_SUCCESS;
}

int PerformanceVariables::index_of_mpis(int mpis, int* index) {
  const std::lock_guard guard(mutex_);
  const int code = learn_first();
  if (code == MPI_SUCCESS)
    *index = mpis < *first_ ? mpis : mpis + size();
  return code;
}

int PerformanceVariables::index_of_own(size_t own, int* index) {
  const std::lock_guard guard(mutex_);
  const int code = learn_first();
  if (code == MPI_SUCCESS)
    *index = *first_ + static_cast<int>(own);
  return code;
}

std::optional<size_t> PerformanceVariables::find(const std::string& name, int var_class) const {
  for (size_t own = 0; own < variables_.size(); ++own)
    if (variables_[own].name == name && class_of(*variables_[own].figure) == var_class)
      return own;
  return std::nullopt;
}

int PerformanceVariables::class_of(const Figure& figure) {
  switch (figure.kind) {
    case Figure::Kind::kLevel: return MPI_T_PVAR_CLASS_LEVEL;
    case Figure::Kind::kSize: return MPI_T_PVAR_CLASS_SIZE;
    case Figure::Kind::kCount: return MPI_T_PVAR_CLASS_COUNTER;
    case Figure::Kind::kSum: return MPI_T_PVAR_CLASS_AGGREGATE;
  }
  return MPI_T_PVAR_CLASS_GENERIC;
}

// ---- Handles

std::vector<std::unique_ptr<PerformanceVariables::Handle>>::iterator PerformanceVariables::find(
    MPI_T_pvar_handle handle) {
  return std::find_if(handles_.begin(), handles_.end(), [handle](const std::unique_ptr<Handle>& each) {
    return reinterpret_cast<MPI_T_pvar_handle>(each.get()) == handle;
  });
}

MPI_T_pvar_handle PerformanceVariables::open(MPI_T_pvar_session session, size_t own) {
  const std::lock_guard guard(mutex_);
  handles_.push_back(std::make_unique<Handle>(Handle{.session = session, .own = own}));
  return reinterpret_cast<MPI_T_pvar_handle>(handles_.back().get());
}

bool PerformanceVariables::owns(MPI_T_pvar_handle handle) {
  const std::lock_guard guard(mutex_);
  return find(handle) != handles_.end();
}

std::optional<uint64_t> PerformanceVariables::read(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  const std::lock_guard guard(mutex_);
  const auto found = find(handle);
  if (found == handles_.end() || (*found)->session != session)
    return std::nullopt;
  const Variable& variable = variables_[(*found)->own];
  if (context_ == nullptr)
    return variable.last;
  const ContextLock lock(*context_);
  return variable.figure->read(*context_);
}

bool PerformanceVariables::close(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
  const std::lock_guard guard(mutex_);
  const auto found = find(handle);
  if (found == handles_.end() || (*found)->session != session)
    return false;
  handles_.erase(found);
  return true;
}

void PerformanceVariables::close(MPI_T_pvar_session session) {
  const std::lock_guard guard(mutex_);
  std::erase_if(handles_, [session](const std::unique_ptr<Handle>& each) { return each->session == session; });
}

}  // namespace lanyard::api
