// Cases that need a process's whole life, from MPI_Init to MPI_Finalize: one case per run.
// MPI 4.0, sections 11.2, 11.3, 11.6, 11.8, 15.3.4.
//
//   lives CASE | lives --list
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <lanyard/lanyard.h>

namespace lanyard::lives {
namespace {

int mistakes = 0;

#define CHECK(condition)                                                                                \
  do {                                                                                                  \
    if (!(condition)) {                                                                                 \
      ++mistakes;                                                                                       \
      std::fprintf(stderr, "%s:%d: rank %d: check failed: %s\n", __FILE__, __LINE__, rank, #condition); \
    }                                                                                                   \
  } while (false)
#define CHECK_OK(call) CHECK((call) == MPI_SUCCESS)

using Cases = std::map<std::string, std::function<void()>>;
Cases& cases() {
  static Cases all;
  return all;
}
struct Registered {
  Registered(const char* name, void (*run)()) { cases()[name] = run; }
};
#define CASE(suite, name)                                                         \
  void suite##_##name();                                                          \
  const Registered registered_##suite##_##name(#suite "." #name, suite##_##name); \
  void suite##_##name()

int rank = 0, ranks = 1;
char** program = nullptr;

void learn_ranks() {
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}
void init() {
  MPI_Init(nullptr, nullptr);
  learn_ranks();
}
void finalize() { CHECK_OK(MPI_Finalize()); }

// A matched pair of requests around a ring of ranks, with their queue.
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
    CHECK_OK(MPIX_Matchall(2, pair, MPI_STATUSES_IGNORE));
  }
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
Ring ring, ring_two;  // outlive main()

// Registers a function that MPI_Finalize calls before it frees anything. The last
// registered runs first.
void at_finalize(void (*what)()) {
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
int callbacks = 0;

bool refused(int code, int expected_class, const char* words) {
  int error_class = MPI_SUCCESS, length = 0;
  char text[MPI_MAX_ERROR_STRING] = "";
  MPI_Error_class(code, &error_class);
  MPI_Error_string(code, text, &length);
  if (error_class == expected_class && std::strstr(text, words) != nullptr)
    return true;
  std::fprintf(stderr, "class %d, '%s'\n", error_class, text);
  return false;
}

// ---- The two intercepted calls that a process makes once

// Expects that `init` leaves the program's words as they are.
void verify_init(int (*init)(int*, char***)) {
  static char name[] = "program", option[] = "--option";
  char* words[] = {name, option, nullptr};
  char** argv = words;
  int argc = 2, initialised = 0, finalised = 1;
  CHECK_OK(init(&argc, &argv));
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  CHECK(initialised && !finalised);
  CHECK(argc == 2 && argv == words);
  learn_ranks();
  CHECK(ranks >= 1);
  finalize();
}

CASE(PassThrough, MPI_Init) { verify_init(MPI_Init); }

CASE(PassThrough, MPI_Init_thread) {
  verify_init([](int* argc, char*** argv) {
    int provided = -1;
    const int code = MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    CHECK(provided >= MPI_THREAD_FUNNELED && provided <= MPI_THREAD_MULTIPLE);
    return code;
  });
}

// ---- Spawned processes

void expect_refused_over(MPI_Comm communicator, const char* words) {
  int value = 0;
  MPI_Request request = MPI_REQUEST_NULL, match = MPI_REQUEST_NULL;
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  CHECK_OK(MPI_Send_init(&value, 1, MPI_INT, 0, 1, communicator, &request));
  CHECK(refused(MPIX_Match(&request, MPI_STATUS_IGNORE), MPI_ERR_UNSUPPORTED_OPERATION, words));
  CHECK(refused(MPIX_Imatch(&request, &match), MPI_ERR_UNSUPPORTED_OPERATION, words));
  CHECK(match == MPI_REQUEST_NULL);
  CHECK_OK(MPI_Request_free(&request));
}

// Runs in the parents and in the children.
void meet_relatives(MPI_Comm relatives) {
  expect_refused_over(relatives, "inter-communicator");
  MPI_Comm all = MPI_COMM_NULL;
  CHECK_OK(MPI_Intercomm_merge(relatives, 0, &all));
  expect_refused_over(all, "MPI_Comm_spawn");
  // Parents and children can still match among themselves.
  ring.make();
  ring.verify();
  ring.free_requests();
  ring.free_queue();
  int wrong = mistakes, sum = -1;
  CHECK_OK(MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, all));
  CHECK(sum == 0);
  CHECK_OK(MPI_Comm_free(&all));
  CHECK_OK(MPI_Comm_disconnect(&relatives));
}

CASE(Spawned, ProcessesAreRefusedByNameAndMatchAmongThemselves) {
  init();
  MPI_Comm parents = MPI_COMM_NULL;
  MPI_Comm_get_parent(&parents);
  if (parents == MPI_COMM_NULL) {
    char name[] = "Spawned.ProcessesAreRefusedByNameAndMatchAmongThemselves";
    char* arguments[] = {name, nullptr};
    CHECK_OK(MPI_Comm_spawn(program[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &parents, MPI_ERRCODES_IGNORE));
  }
  meet_relatives(parents);
  finalize();
}

// ---- Sessions

#if MPI_VERSION >= 4
// Returns what `call` writes to stderr.
std::string said_by(const std::function<void()>& call) {
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

MPI_Comm communicator_of(MPI_Session session) {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  CHECK_OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
  CHECK_OK(MPI_Comm_create_from_group(group, "lanyard", MPI_INFO_NULL, MPI_ERRORS_RETURN, &communicator));
  MPI_Group_free(&group);
  return communicator;
}

CASE(Sessions, BesideTheWorldAreRefusedByName) {
  init();
  MPI_Session session = MPI_SESSION_NULL;
  CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  MPI_Comm communicator = communicator_of(session);
  expect_refused_over(communicator, "session");
  CHECK_OK(MPI_Comm_free(&communicator));
  CHECK_OK(MPI_Session_finalize(&session));
  ring.make();
  ring.verify();
  finalize();
}

// Without MPI_Init nothing can be matched, but MPI's own calls work.
CASE(Sessions, AloneAreRefusedByName) {
  MPI_Session session = MPI_SESSION_NULL;
  CHECK_OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
  MPI_Comm communicator = communicator_of(session);
  MPI_Comm_rank(communicator, &rank);
  int out = 5, in = -1;
  MPI_Request pair[2];
  CHECK_OK(MPI_Recv_init(&in, 1, MPI_INT, rank, 1, communicator, &pair[0]));
  CHECK_OK(MPI_Send_init(&out, 1, MPI_INT, rank, 1, communicator, &pair[1]));
  const std::string text = said_by([&] { CHECK(MPIX_Matchall(2, pair, MPI_STATUSES_IGNORE) == MPI_ERR_OTHER); });
  CHECK(text.find("MPI_Session_init") != std::string::npos);
  CHECK_OK(MPI_Startall(2, pair));
  CHECK_OK(MPI_Waitall(2, pair, MPI_STATUSES_IGNORE));
  CHECK(in == 5);
  for (MPI_Request& request : pair)
    CHECK_OK(MPI_Request_free(&request));
  CHECK_OK(MPI_Comm_free(&communicator));
  CHECK_OK(MPI_Session_finalize(&session));
}
#endif

// ---- MPI_Finalize and the resources that a program may leave to it

CASE(Finalize, CommunicatorsMayBeLeft) {
  init();
  MPI_Comm copy = MPI_COMM_NULL, grandchild = MPI_COMM_NULL;
  CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  CHECK_OK(MPI_Comm_split(copy, 0, rank, &grandchild));
  ring.make(grandchild);
  ring.verify();
  finalize();
}

// No wait for the queue.
CASE(Finalize, FinishesWhatIsEnqueued) {
  constexpr int kSteps = 50;
  static int sum = 0;
  init();
  ring.make();
  for (int step = 0; step < kSteps; ++step) {
    ring.enqueue();
    CHECK_OK(MPIX_Host_stream_launch(
        ring.stream, [](void* in) { sum += *static_cast<int*>(in); }, &ring.in));
  }
  finalize();
  CHECK(sum == kSteps * ring.expected);
}

// The other ranks wait in MPI_Finalize, for longer than the deadline, for a healthy rank.
CASE(Finalize, WaitsForARankThatIsLate) {
  setenv("LANYARD_DEADLINE_S", "1", 1);
  init();
  ring.make();
  ring.enqueue();
  MPIX_Queue_wait(ring.queue);
  if (rank == ranks - 1)
    std::this_thread::sleep_for(std::chrono::seconds(3));
  finalize();
  CHECK(ring.in == ring.expected);
}

CASE(Finalize, CallbacksOfSelfComeInAnyOrder) {
  init();
  ring.make();
  ring_two.make(MPI_COMM_WORLD, 2);
  ring.enqueue();
  ring_two.enqueue();
  at_finalize([] {
    ring_two.free_queue();
    ++callbacks;
  });
  at_finalize([] {
    CHECK_OK(MPIX_Queue_wait(ring_two.queue));
    ring_two.free_requests();
    ring.free_requests();
    ++callbacks;
  });
  at_finalize([] {
    ring.free_queue();  // before its requests
    ++callbacks;
  });
  finalize();
  CHECK(callbacks == 3);
  CHECK(ring.in == ring.expected);
  CHECK(ring_two.in == ring_two.expected);
}

// MPI works until the last callback: matching and messages still succeed.
CASE(Finalize, CallbacksOfSelfMayMatchAndExchange) {
  init();
  at_finalize([] {
    ring.make();
    ring.verify();
    ring.free_requests();
    ring.free_queue();
    ++callbacks;
  });
  finalize();
  CHECK(callbacks == 1);
}

}  // namespace

int run(int argc, char** argv) {
  program = argv;
  if (argc == 2 && std::strcmp(argv[1], "--list") == 0) {
    for (const auto& each : cases())
      std::printf("%s\n", each.first.c_str());
    return 0;
  }
  const auto found = argc == 2 ? cases().find(argv[1]) : cases().end();
  if (found == cases().end()) {
    std::fprintf(stderr, "usage: lives CASE | lives --list\n");
    return 2;
  }
  found->second();
  return mistakes == 0 ? 0 : 1;
}

}  // namespace lanyard::lives

int main(int argc, char** argv) { return lanyard::lives::run(argc, argv); }
