// Cases that need a process's whole life with MPI, from its MPI_Init to its MPI_Finalize: one case a run.
//
//   lives CASE | lives --list
#ifndef LANYARD_TESTS_CONFORMANCE_LIVES_H_
#define LANYARD_TESTS_CONFORMANCE_LIVES_H_

#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <lanyard/lanyard.h>

namespace lanyard::lives {

inline int mistakes = 0;

#define CHECK(condition)                                                                          \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      ++mistakes;                                                                                 \
      std::fprintf(stderr, "%s:%d: rank %d: not so: %s\n", __FILE__, __LINE__, rank, #condition); \
    }                                                                                             \
  } while (false)
#define CHECK_OK(call) CHECK((call) == MPI_SUCCESS)

using Cases = std::map<std::string, std::function<void()>>;
inline Cases& cases() {
  static Cases all;
  return all;
}
struct Registered {
  Registered(const char* name, void (*run)()) { cases()[name] = run; }
};
// In an unnamed namespace.
#define CASE(suite, name)                                                         \
  void suite##_##name();                                                          \
  const Registered registered_##suite##_##name(#suite "." #name, suite##_##name); \
  void suite##_##name()

inline int rank = 0, ranks = 1;
inline char** program = nullptr;

inline void learn_ranks() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}
inline void init() {
  MPI_Init(nullptr, nullptr);
  learn_ranks();
}
inline void finalize() { CHECK_OK(MPI_Finalize()); }

// A pair of requests around a ring, and a queue for them.
struct Ring {
  MPIX_Host_stream stream = MPIX_HOST_STREAM_NULL;
  MPIX_Queue queue = MPIX_QUEUE_NULL;
  MPI_Request pair[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  int out = 0, in = -1, expected = 0;

  void make(MPI_Comm communicator = MPI_COMM_WORLD, int tag = 1) {
    int here = 0, size = 1;
    MPI_Comm_rank(communicator, &here);
    MPI_Comm_size(communicator, &size);
    const int left = (here + size - 1) % size;
    out = 1000 + here;
    expected = 1000 + left;
    CHECK_OK(MPIX_Host_stream_create(&stream));
    CHECK_OK(MPIX_Queue_init(&queue, MPIX_QUEUE_HOST, &stream));
    CHECK_OK(MPI_Recv_init(&in, 1, MPI_INT, left, tag, communicator, &pair[0]));
    CHECK_OK(MPI_Send_init(&out, 1, MPI_INT, (here + 1) % size, tag, communicator, &pair[1]));
  }
  void match() { CHECK_OK(MPIX_Matchall(2, pair, MPI_STATUSES_IGNORE)); }
  void enqueue() {
    CHECK_OK(MPIX_Enqueue_startall(queue, 2, pair));
    CHECK_OK(MPIX_Enqueue_waitall(queue, 2, pair));
  }
  void verify() {
    for (int i = 0; i < 3; ++i) {
      in = -1;
      enqueue();
      CHECK_OK(MPIX_Queue_wait(queue));
      CHECK(in == expected);
    }
  }
  void free_requests() {
    for (MPI_Request& request : pair)
      CHECK_OK(MPI_Request_free(&request));
  }
  void free_queue() {
    CHECK_OK(MPIX_Queue_free(&queue));
    CHECK_OK(MPIX_Host_stream_free(&stream));
  }
};
inline Ring ring, ring_two;  // longer than main()

// Runs in MPI_Finalize, before anything of MPI's has gone; the last that was set runs first.
inline void at_finalize(void (*what)()) {
  static std::vector<void (*)()> all;
  all.push_back(what);
  int keyval = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(
      MPI_COMM_NULL_COPY_FN,
      [](MPI_Comm, int, void* value, void*) {
        reinterpret_cast<void (*)()>(value)();
        return MPI_SUCCESS;
      },
      &keyval, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, keyval, reinterpret_cast<void*>(what));
  MPI_Comm_free_keyval(&keyval);
}
inline int callbacks = 0;

// What `call` writes to stderr.
inline std::string said_by(const std::function<void()>& call) {
  std::fflush(stderr);
  const int before = dup(2);
  FILE* file = std::tmpfile();
  dup2(fileno(file), 2);
  call();
  std::fflush(stderr);
  dup2(before, 2);
  close(before);
  std::string text(static_cast<size_t>(lseek(fileno(file), 0, SEEK_CUR)), '\0');
  const ssize_t bytes = pread(fileno(file), text.data(), text.size(), 0);
  std::fclose(file);
  text.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  return text;
}
inline bool refused(int code, int expected_class, const char* words) {
  int error_class = MPI_SUCCESS, length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_class(code, &error_class);
  MPI_Error_string(code, text, &length);
  if (error_class == expected_class && std::strstr(text, words) != nullptr)
    return true;
  std::fprintf(stderr, "class %d, '%s'\n", error_class, text);
  return false;
}

}  // namespace lanyard::lives

#endif  // LANYARD_TESTS_CONFORMANCE_LIVES_H_
