#include "api/errors.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "api/context.h"

namespace lanyard::api {

namespace {

std::atomic<bool> has_been_initialised{false};

// The names of the installed libraries.
#ifdef OPEN_MPI
constexpr const char* kLibrary = "lanyard-openmpi";
constexpr const char* kFortranLibrary = "lanyard_f08-openmpi";
constexpr const char* kMpiLibrary = "mpi";
#else
constexpr const char* kLibrary = "lanyard-mpich";
constexpr const char* kFortranLibrary = "lanyard_f08-mpich";
constexpr const char* kMpiLibrary = "mpich";
#endif

// True if MPI is initialised, but its MPI_Init bypassed Lanyard.
bool is_bypassed() {
  int initialised = 0;
  int finalised = 0;
  PMPI_Initialized(&initialised);
  PMPI_Finalized(&finalised);
  return initialised && !finalised && !has_been_initialised.load();
}

int raise_without_context(int error_class, const std::string& text) {
  if (is_bypassed()) {
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    std::fprintf(
        stderr,
        "lanyard: rank %d: MPI_Init bypassed Lanyard, which therefore knows no request and no communicator: "
        "put Lanyard before the MPI library on the link line of the program itself (as -l%s -l%s, and in a Fortran "
        "program -l%s before both), not only on that of one of its shared libraries; or preload it (LD_PRELOAD)\n",
        rank, kLibrary, kMpiLibrary, kFortranLibrary);
    PMPI_Abort(MPI_COMM_WORLD, 1);
  }
  static std::atomic<bool> has_spoken{false};
  if (!has_spoken.exchange(true))
    std::fprintf(stderr, "lanyard: %s\n", text.c_str());
  return error_class;
}

}  // namespace

Errors::Errors() { has_been_initialised.store(true); }

void Errors::add_classes() {
  PMPI_Add_error_class(&base_class_);
  PMPI_Add_error_string(base_class_, "Lanyard error");
  static constexpr const char* kTexts[kKinds] = {
      "not a queue of Lanyard",
      "the object is in use",
      "too few deferred-work entries",
      "an enqueued operation failed",
      "an operation did not complete before the deadline",
      "the network card cannot be used",
  };
  for (size_t kind = 0; kind < kKinds; ++kind) {
    PMPI_Add_error_class(&kind_classes_[kind]);
    PMPI_Add_error_string(kind_classes_[kind], kTexts[kind]);
  }
  has_classes_.store(true);
}

int Errors::class_of(Lanyard_Error_kind kind) {
  std::call_once(classes_once_, [this] { add_classes(); });
  return kind_classes_[static_cast<size_t>(kind)];
}

bool Errors::is_class(int code) const {
  return has_classes_.load() && (code == base_class_ || std::ranges::find(kind_classes_, code) != kind_classes_.end());
}

int Errors::code(int error_class, const std::string& text) {
  std::call_once(classes_once_, [this] { add_classes(); });
  std::lock_guard lock(mutex_);
  const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.error_class == error_class && entry.text == text;
  });
  if (same != entries_.end()) {
    same->returned = ++returned_;
    return same->code;
  }
  Entry* entry = nullptr;
  if (entries_.size() < kCodes) {
    int code = MPI_ERR_OTHER;
    // In a class of Lanyard: some MPIs do not let programs add codes to predefined classes.
    if (PMPI_Add_error_code(base_class_, &code) != MPI_SUCCESS)
      return error_class;
    entry = &entries_.emplace_back(Entry{code, error_class, text, 0});
  } else {
    entry = &*std::ranges::min_element(entries_, {}, &Entry::returned);
    entry->error_class = error_class;
    entry->text = text;
  }
  entry->returned = ++returned_;
  PMPI_Add_error_string(entry->code, text.substr(0, MPI_MAX_ERROR_STRING - 1).c_str());
  return entry->code;
}

bool Errors::lookup(int code, int* error_class, std::string* text) {
  if (!has_classes_.load())
    return false;
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(entries_, code, &Entry::code);
  if (found == entries_.end())
    return false;
  if (error_class != nullptr)
    *error_class = found->error_class;
  if (text != nullptr)
    *text = found->text;
  return true;
}

int raise(const char* call, MPI_Comm communicator, int error_class, const std::string& what) {
  const std::string text = std::string(call) + ": " + what;
  Context* context = Context::get();
  if (context == nullptr)
    return raise_without_context(error_class, text);
  const int code = context->errors().code(error_class, text);
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (PMPI_Comm_get_errhandler(communicator, &handler) == MPI_SUCCESS) {
    // A fatal handler may print another text for the code, and MPI_Error_string cuts long texts.
    if (handler == MPI_ERRORS_ARE_FATAL || text.size() >= MPI_MAX_ERROR_STRING)
      std::fprintf(stderr, "lanyard: rank %u: %s\n", context->rank(), text.c_str());
    if (handler != MPI_ERRHANDLER_NULL)
      PMPI_Errhandler_free(&handler);
  }
  PMPI_Comm_call_errhandler(communicator, code);
  return code;
}

int raise_not_initialised(const char* call) {
  return raise(call, MPI_COMM_WORLD, MPI_ERR_OTHER,
               "MPI is not initialised, or is finalised (Lanyard needs MPI_Init; MPI_Session_init is not enough)");
}

Refusal check_array(int count, const MPI_Request requests[]) {
  if (count >= 0 && (count == 0 || requests != nullptr))
    return {};
  return {count < 0 ? MPI_ERR_COUNT : MPI_ERR_ARG,
          "the number of requests is negative, or their array is a null pointer"};
}

}  // namespace lanyard::api

using lanyard::api::Context;

extern "C" int Lanyard_Error_class_of(Lanyard_Error_kind kind) {
  Context* context = Context::get();
  if (context == nullptr || static_cast<int>(kind) < 0 || static_cast<int>(kind) >= lanyard::api::Errors::kKinds)
    return MPI_ERR_OTHER;
  return context->errors().class_of(kind);
}

extern "C" int MPI_Error_class(int code, int* error_class) {
  Context* context = Context::get();
  if (context != nullptr && error_class != nullptr && context->errors().lookup(code, error_class, nullptr))
    return MPI_SUCCESS;
  if (context != nullptr && error_class != nullptr && context->errors().is_class(code)) {
    *error_class = code;
    return MPI_SUCCESS;
  }
  return PMPI_Error_class(code, error_class);
}

extern "C" int MPI_Error_string(int code, char* text, int* length) {
  Context* context = Context::get();
  std::string found;
  if (context == nullptr || text == nullptr || length == nullptr || !context->errors().lookup(code, nullptr, &found))
    return PMPI_Error_string(code, text, length);
  found.resize(std::min<size_t>(found.size(), MPI_MAX_ERROR_STRING - 1));
  std::memcpy(text, found.c_str(), found.size() + 1);
  *length = static_cast<int>(found.size());
  return MPI_SUCCESS;
}
