// Without overflow (LANYARD_OVERFLOW=off) everything runs through the card's entries: what can
// never fit is refused with the figures, what fits goes on for ever.
#include <cstdlib>

#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

struct NoOverflow : Misuse {
  static constexpr int kPairs = 2;  // with 2 entries a request: 8 entries, all there are
  std::vector<std::unique_ptr<Buffer>> buffers;

  void add(Requests& requests, int pairs, int peer) {
    for (int tag = 0; tag < pairs; ++tag) {
      for (int i = 0; i < 2; ++i)
        buffers.push_back(std::make_unique<Buffer>(100));
      requests.receive(buffers[buffers.size() - 2]->data(), 100, peer, tag);
      requests.send(buffers.back()->data(), 100, peer, tag);
    }
  }
  void TearDown() override {
    EXPECT_EQ(queue.figure("entries_overflowed"), 0u);
    Misuse::TearDown();
  }
};

TEST_F(NoOverflow, HasTheDepthThatWasAskedFor) { EXPECT_EQ(queue.figure("entries_depth"), 8u); }

TEST_F(NoOverflow, AnEpochThatCanNeverFitIsRefused) {
  Requests requests;
  add(requests, 3, rank());
  requests.match();
  refused([&] { return MPIX_Enqueue_startall(queue, 6, requests.data()); }, MPIX_ERR_NO_ENTRIES, {"12", "8"});
  // Nor one start after the other without a wait: the epoch is what counts.
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 4, requests.data())));
  refused([&] { return MPIX_Enqueue_startall(queue, 2, requests.at(4)); }, MPIX_ERR_NO_ENTRIES, {"12", "8"});
  refused([&] { return MPIX_Enqueue_start(queue, requests.at(4)); }, MPIX_ERR_NO_ENTRIES, {"10", "8"});
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 4, requests.data())));
  // A new epoch has room, though the first may still be under way.
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 2, requests.at(4))));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, requests.at(4))));
  queue.wait();
}

// Its requests are as they were: another queue, or this one, takes them. And no entry is kept for it.
TEST_F(NoOverflow, ARefusedStartChangesNothing) {
  Stream other_stream;
  Queue other(other_stream);
  Requests requests;
  add(requests, 4, rank());
  requests.match();
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(other, 2, requests.data())));
  refused([&] { return MPIX_Enqueue_startall(queue, 4, requests.at(4)); }, MPIX_ERR_NO_ENTRIES, {"12", "8"});
  refused([&] { return MPIX_Enqueue_waitall(queue, 4, requests.at(4)); }, MPI_ERR_REQUEST, {"no start to wait for"});
  // The other queue has what is left of the card, with requests of the refused start.
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(other, 2, requests.at(4))));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(other, 2, requests.at(4))));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(other, 2, requests.data())));
  other.wait();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 4, requests.at(4))));
    ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 4, requests.at(4))));
    queue.wait();
  }
}

// MPI_PROC_NULL at the edge of a grid: nothing goes through the card, and the next start asks what is under way.
TEST_F(NoOverflow, RequestsOfNobodyTakeNoEntries) {
  Stream other_stream;
  Queue other(other_stream);
  Requests requests;
  add(requests, 2, MPI_PROC_NULL);
  add(requests, 2, rank());
  requests.match();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(ok(MPIX_Enqueue_startall(queue, 8, requests.data())));
    ASSERT_TRUE(ok(MPIX_Enqueue_waitall(queue, 8, requests.data())));
  }
  ASSERT_TRUE(ok(MPIX_Enqueue_startall(other, 4, requests.data())));
  ASSERT_TRUE(ok(MPIX_Enqueue_waitall(other, 4, requests.data())));
  queue.wait();
  other.wait();
}

// Enqueuing far ahead of the stream waits for entries instead of failing.
TEST_F(NoOverflow, EpochsThatFitGoOnForEver) {
  Requests requests;
  add(requests, kPairs, partner());
  requests.match();
  size_t wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    stream.launch([&, i] {
      for (int tag = 0; tag < kPairs; ++tag)
        buffers[static_cast<size_t>(2 * tag + 1)]->fill(seed_of(rank(), partner(), i, tag));
    });
    requests.start(queue);
    requests.wait(queue);
    stream.launch([&, i] {
      for (int tag = 0; tag < kPairs; ++tag) {
        Buffer& in = *buffers[static_cast<size_t>(2 * tag)];
        wrong += in.mistakes(seed_of(partner(), rank(), i, tag));
        in.poison();
      }
    });
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(queue.figure("entries_in_use"), 0u);
}

}  // namespace
}  // namespace lanyard::api_test
