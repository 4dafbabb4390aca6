// MPI_Finalize, and what a program may leave to it.
// MPI 4.0, sections 11.2.1, 11.2.2, 11.2.4, 15.3.4.
#include <atomic>
#include <thread>

#include "tests/conformance/lives.h"

namespace lanyard::lives {
namespace {

CASE(Finalize, InactiveRequestsMayBeLeft) {
  init();
  ring.make();
  ring_two.make(MPI_COMM_WORLD, 2);
  ring.match();
  ring.verify();
  ring.free_queue();
  ring_two.free_queue();
  finalize();
}

CASE(Finalize, QueuesAndStreamsMayBeLeftEmpty) {
  init();
  ring.make();
  ring.match();
  ring.verify();
  ring.free_requests();
  finalize();
}

std::atomic<bool> has_begun{false};
int sum = 0;

// All of it: the stream is held up until MPI_Finalize has been called.
CASE(Finalize, FinishesWhatWasEnqueued) {
  constexpr int kRounds = 200;
  init();
  ring.make();
  ring.match();
  at_finalize([] { has_begun = true; });
  const auto wait = [](void*) {
    while (!has_begun.load())
      std::this_thread::yield();
  };
  CHECK_OK(MPIX_Host_stream_launch(ring.stream, wait, nullptr));
  for (int i = 0; i < kRounds; ++i) {
    ring.enqueue();
    CHECK_OK(MPIX_Host_stream_launch(
        ring.stream, [](void*) { sum += ring.in; }, nullptr));
  }
  CHECK(ring.in == -1);
  finalize();
  CHECK(sum == kRounds * ring.expected);
}

CASE(Finalize, CommunicatorsMayBeLeft) {
  init();
  MPI_Comm copy = MPI_COMM_NULL, grandchild = MPI_COMM_NULL;
  CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
  CHECK_OK(MPI_Comm_split(copy, 0, rank, &grandchild));
  ring.make(grandchild);
  ring.match();
  ring.verify();
  finalize();
}

CASE(Finalize, CallbacksOfSelfFreeRequests) {
  init();
  ring.make();
  ring.match();
  ring.verify();
  ring.free_queue();
  at_finalize([] {
    ring.free_requests();
    ++callbacks;
  });
  finalize();
  CHECK(callbacks == 1);
  CHECK(ring.pair[0] == MPI_REQUEST_NULL);
}

CASE(Finalize, CallbacksOfSelfFreeQueues) {
  init();
  ring.make();
  ring.match();
  ring.enqueue();
  at_finalize([] {
    ring.free_queue();
    CHECK(ring.in == ring.expected);
    ++callbacks;
  });
  finalize();
  CHECK(callbacks == 1);
  CHECK(ring.queue == MPIX_QUEUE_NULL);
}

CASE(Finalize, CallbacksOfSelfComeInAnyOrder) {
  init();
  ring.make();
  ring_two.make(MPI_COMM_WORLD, 2);
  ring.match();
  ring_two.match();
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

// MPI is whole until the last callback: matching and exchanging go on.
CASE(Finalize, CallbacksOfSelfMayMatchAndExchange) {
  init();
  at_finalize([] {
    ring.make();
    ring.match();
    ring.verify();
    ring.free_requests();
    ring.free_queue();
    ++callbacks;
  });
  finalize();
  CHECK(callbacks == 1);
}

CASE(Finalize, CallsAfterItAreErrors) {
  init();
  ring.make();
  ring.match();
  ring.verify();
  ring.free_requests();
  ring.free_queue();
  finalize();
  int finalized = 0;
  MPI_Finalized(&finalized);
  CHECK(finalized);
  MPI_Request none = MPI_REQUEST_NULL;
  const std::string text = said_by([&] {
    CHECK(MPIX_Match(&none, MPI_STATUS_IGNORE) == MPI_ERR_OTHER);
    CHECK(MPIX_Queue_wait(MPIX_QUEUE_NULL) == MPI_ERR_OTHER);
    CHECK(MPIX_ERR_QUEUE == MPI_ERR_OTHER);
  });
  CHECK(text.find("finalised") != std::string::npos);
}

CASE(Finalize, CallsBeforeInitAreErrors) {
  MPI_Request none = MPI_REQUEST_NULL;
  const std::string text = said_by([&] {
    CHECK(MPIX_Match(&none, MPI_STATUS_IGNORE) == MPI_ERR_OTHER);
    CHECK(MPIX_Queue_wait(MPIX_QUEUE_NULL) == MPI_ERR_OTHER);
  });
  CHECK(text.find("not initialised") != std::string::npos);
  init();
  ring.make();
  ring.match();
  ring.verify();
  finalize();
}

}  // namespace
}  // namespace lanyard::lives
