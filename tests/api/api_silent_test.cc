// A send that fails is told by the very MPIX_Queue_wait that sees its end, whatever the card and the strategy: never
// "all went well" first. LANYARD_TEST_SENDS says how many are tried.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/api/api_misuse.h"

namespace lanyard::api_test {
namespace {

int sends() {
  const char* const number = std::getenv("LANYARD_TEST_SENDS");
  return number == nullptr ? 100 : std::max(1, std::atoi(number));
}

// On rank 0, a ready send to rank 1 whose receive was freed: its write finds no region. Others look on.
MPI_Request doomed_send(Buffer& buffer) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0)
    MPI_Rsend_init(buffer.data(), buffer.count(), MPI_BYTE, 1, 5, MPI_COMM_WORLD, &request);
  if (rank() == 1)
    MPI_Recv_init(buffer.data(), buffer.count(), MPI_BYTE, 0, 5, MPI_COMM_WORLD, &request);
  if (rank() < 2) {
    EXPECT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
  }
  if (rank() == 1) {
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  return request;
}

// Of ranks 0 and 1.
void meet() {
  MPI_Sendrecv(nullptr, 0, MPI_BYTE, 1 - rank(), 9, nullptr, 0, MPI_BYTE, 1 - rank(), 9, MPI_COMM_WORLD,
               MPI_STATUS_IGNORE);
}

::testing::AssertionResult tells(MPIX_Queue queue) {
  return fails(MPIX_Queue_wait(queue), MPIX_ERR_FAILED, {"rsend, peer 1, tag 5, 40 B"});
}

// Whether its wait was enqueued before or after. It can be freed, and so can its queue and its stream.
TEST(Silent, AFailedSendIsNeverReportedAsSuccess) {
  Buffer buffer(40);
  int silent = 0;
  for (int i = 0; i < sends(); ++i) {
    MPI_Request request = doomed_send(buffer);
    if (rank() == 0) {
      Stream stream;
      Queue queue(stream);
      EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
      if (i % 2 == 0) {
        EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      }
      silent += !tells(queue);
      while (silent > 0 && MPIX_Queue_wait(queue) != MPI_SUCCESS) {
      }
      if (i % 2 == 1) {
        EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      }
      EXPECT_TRUE(ok(MPIX_Queue_wait(queue))) << "told once";
      EXPECT_TRUE(fails(MPIX_Enqueue_start(queue, &request), MPIX_ERR_FAILED));
      step("freeing what has failed");
      EXPECT_TRUE(ok(MPI_Request_free(&request)));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_EQ(silent, 0) << "of " << sends();
  Stream stream;
  Queue queue(stream);
  verify_exchange(queue, stream);
}

// Who receives is told at once, too, whoever raises the flag that its data has come: of a buffer that cannot be
// read any more, the sender's card can tell only.
TEST(Silent, AReceiveWithoutItsDataIsNeverReportedAsSuccess) {
  constexpr size_t kBytes = size_t{1} << 16;
  Stream stream;
  Queue queue(stream);
  int silent = 0, told = 0;
  for (int i = 0; i < sends() / 2 && rank() < 2; ++i) {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    std::memset(memory, rank() + 1, kBytes);
    MPI_Request request = MPI_REQUEST_NULL;
    if (rank() == 0)
      MPI_Recv_init(memory, kBytes, MPI_BYTE, 1, 6, MPI_COMM_WORLD, &request);
    else
      MPI_Send_init(memory, kBytes, MPI_BYTE, 0, 6, MPI_COMM_WORLD, &request);
    EXPECT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
    meet();
    // Not unmapped: another thread's memory, or a sanitizer's, would be mapped there, and be sent.
    if (rank() == 1) {
      EXPECT_EQ(mprotect(memory, kBytes, PROT_NONE), 0);
    }
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
    const int code = MPIX_Queue_wait(queue);
    if (rank() == 0)
      silent += code == MPI_SUCCESS && static_cast<char*>(memory)[kBytes - 1] != 2;
    told += code != MPI_SUCCESS ? 1 : 0;
    while (MPIX_Queue_wait(queue) != MPI_SUCCESS) {
    }
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
    munmap(memory, kBytes);
    meet();
  }
  EXPECT_EQ(silent, 0) << "of " << sends() / 2;
  EXPECT_EQ(told, rank() < 2 ? sends() / 2 : 0) << "the card reads what it should not";
  MPI_Barrier(MPI_COMM_WORLD);
  verify_exchange(queue, stream);
}

// A stream that has passed the wait combines what it finds, so who waits for the queue is told. The contribution that
// does not come is not readable while it is sent, and again when its own process combines.
TEST(Silent, ASumWithoutAContributionIsNeverReportedAsSuccess) {
  constexpr int kCount = 1 << 14;
  constexpr size_t kBytes = kCount * sizeof(int);
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() < 2 ? 0 : MPI_UNDEFINED, rank(), &pair);
  Stream stream;
  Queue queue(stream);
  for (int i = 0; i < 10 && rank() < 2; ++i) {
    MPI_Comm_set_errhandler(pair, MPI_ERRORS_RETURN);
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    int* const own = static_cast<int*>(memory);
    std::vector<int> sum(kCount, -1);
    const auto contribute = [&](int round) { std::fill_n(own, kCount, 100 * round + rank()); };
    MPI_Request request = MPI_REQUEST_NULL;
    ASSERT_TRUE(ok(MPIX_Allreduce_init(own, sum.data(), kCount, MPI_INT, MPI_SUM, pair, MPI_INFO_NULL, &request)));
    ASSERT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
    contribute(1);
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Queue_wait(queue)));
    EXPECT_EQ(sum, std::vector<int>(kCount, 201));
    contribute(2);
    meet();
    if (rank() == 1) {
      EXPECT_EQ(mprotect(own, kBytes, PROT_NONE), 0);
    }
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    if (rank() == 1) {
      const Gate gate(stream);
      EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      meet();
      EXPECT_EQ(mprotect(own, kBytes, PROT_READ | PROT_WRITE), 0);
    } else {
      EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
      EXPECT_TRUE(fails(MPIX_Queue_wait(queue), MPIX_ERR_FAILED));
      meet();
    }
    while (MPIX_Queue_wait(queue) != MPI_SUCCESS) {
    }
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
    munmap(own, kBytes);
    meet();
  }
  if (pair != MPI_COMM_NULL)
    MPI_Comm_free(&pair);
  MPI_Barrier(MPI_COMM_WORLD);
  verify_exchange(queue, stream);
}

}  // namespace
}  // namespace lanyard::api_test
