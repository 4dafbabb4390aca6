// Thread levels, spawned processes and sessions; and the program.
// MPI 4.0, sections 11.2.1, 11.3, 11.6, 11.8.
#include <atomic>
#include <thread>

#include "tests/conformance/lives.h"

namespace lanyard::lives {
namespace {

// ---- Thread levels

void exchange_at(int level) {
  int provided = -1, main_thread = 0, queried = -1;
  CHECK_OK(MPI_Init_thread(nullptr, nullptr, level, &provided));
  learn_ranks();
  MPI_Query_thread(&queried);
  MPI_Is_thread_main(&main_thread);
  CHECK(provided >= level);
  CHECK(queried == provided);
  CHECK(main_thread);
  ring.make();
  ring.match();
  ring.verify();
}

CASE(Threads, Single) {
  exchange_at(MPI_THREAD_SINGLE);
  finalize();
}

// Other threads may run; none of them calls MPI.
CASE(Threads, Funneled) {
  exchange_at(MPI_THREAD_FUNNELED);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop.load())
      std::this_thread::yield();
  });
  ring.verify();
  stop = true;
  other.join();
  finalize();
}

// One thread after the other calls.
CASE(Threads, Serialized) {
  exchange_at(MPI_THREAD_SERIALIZED);
  for (int i = 0; i < 3; ++i)
    std::thread([] { ring.verify(); }).join();
  finalize();
}

// Threads with communicators and queues of their own, and the MPI's messages beside.
CASE(Threads, Multiple) {
  exchange_at(MPI_THREAD_MULTIPLE);
  constexpr int kThreads = 3;
  MPI_Comm communicators[kThreads];
  Ring rings[kThreads];
  for (MPI_Comm& communicator : communicators)
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &communicator));
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      const MPI_Comm communicator = communicators[i];
      rings[i].make(communicator);
      rings[i].match();
      for (int round = 0; round < 5; ++round) {
        rings[i].verify();
        int value = 50 + i, got = -1;
        CHECK_OK(MPI_Sendrecv(&value, 1, MPI_INT, (rank + 1) % ranks, 1, &got, 1, MPI_INT, (rank + ranks - 1) % ranks,
                              1, communicator, MPI_STATUS_IGNORE));
        CHECK(got == 50 + i);
      }
      rings[i].free_requests();
      rings[i].free_queue();
    });
  for (std::thread& thread : threads)
    thread.join();
  for (MPI_Comm& communicator : communicators)
    CHECK_OK(MPI_Comm_free(&communicator));
  finalize();
}

// ---- The two calls of pass_through.cc that a process makes once

void verify_initialised(int argc, char** argv, int argc_before, char** argv_before) {
  int initialised = 0, finalised = 1;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  CHECK(initialised && !finalised);
  CHECK(argc == argc_before && argv == argv_before);
  learn_ranks();
  CHECK(ranks >= 1);
  finalize();
}

CASE(PassThrough, MPI_Init) {
  static char name[] = "program", option[] = "--option";
  char* words[] = {name, option, nullptr};
  char** argv = words;
  int argc = 2;
  CHECK_OK(MPI_Init(&argc, &argv));
  verify_initialised(argc, argv, 2, words);
}

CASE(PassThrough, MPI_Init_thread) {
  static char name[] = "program", option[] = "--option";
  char* words[] = {name, option, nullptr};
  char** argv = words;
  int argc = 2, provided = -1;
  CHECK_OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
  CHECK(provided >= MPI_THREAD_FUNNELED && provided <= MPI_THREAD_MULTIPLE);
  verify_initialised(argc, argv, 2, words);
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

// In the parents and in the children alike.
void meet_relatives(MPI_Comm relatives) {
  expect_refused_over(relatives, "inter-communicator");
  MPI_Comm all = MPI_COMM_NULL;
  CHECK_OK(MPI_Intercomm_merge(relatives, 0, &all));
  expect_refused_over(all, "MPI_Comm_spawn");
  // Both generations go on among themselves.
  ring.make();
  ring.match();
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
  ring.match();
  ring.verify();
  finalize();
}

// Without MPI_Init there is nothing to match; MPI's own calls work.
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
