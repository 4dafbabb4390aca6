// Datatypes with gaps: steps of a stencil, and when requests, datatypes and buffers may go.
#include <atomic>
#include <thread>

#include "tests/api/api_datatypes.h"

namespace lanyard::api_test {
namespace {

// ---- A halo

// A block of a periodic field with a frame of ghost cells around it. Columns are vectors with gaps, rows are runs.
class Field : public Gaps {
 protected:
  static constexpr int kRows = 12, kColumns = 7, kWide = kColumns + 2;

  Field() {
    MPI_Dims_create(ranks(), 2, dims_.data());
    place_ = {rank() / dims_[1], rank() % dims_[1]};
    MPI_Type_vector(kRows, 1, kWide, MPI_DOUBLE, &column_);
    MPI_Type_commit(&column_);
    MPI_Type_contiguous(kColumns, MPI_DOUBLE, &row_);
    MPI_Type_commit(&row_);
  }
  ~Field() override {
    for (MPI_Datatype* type : {&column_, &row_})
      if (*type != MPI_DATATYPE_NULL)
        MPI_Type_free(type);
  }

  int neighbour(int down, int right) const {
    return (place_[0] + down + dims_[0]) % dims_[0] * dims_[1] + (place_[1] + right + dims_[1]) % dims_[1];
  }
  double& at(int row, int column) { return cells_[static_cast<size_t>(row * kWide + column)]; }
  static double value(int rank, int step, int row, int column) { return rank * 1e6 + step * 1e4 + row * 100 + column; }
  void connect() {
    const auto pair = [&](int tag, MPI_Datatype type, double& from, double& to, int forth, int back) {
      requests.send(&from, 1, forth, tag, MPI_COMM_WORLD, Mode::kSend, type);
      requests.receive(&to, 1, back, tag, MPI_COMM_WORLD, type);
    };
    pair(1, column_, at(1, 1), at(1, kColumns + 1), neighbour(0, -1), neighbour(0, 1));
    pair(2, column_, at(1, kColumns), at(1, 0), neighbour(0, 1), neighbour(0, -1));
    pair(3, row_, at(1, 1), at(kRows + 1, 1), neighbour(-1, 0), neighbour(1, 0));
    pair(4, row_, at(kRows, 1), at(0, 1), neighbour(1, 0), neighbour(-1, 0));
  }
  void fill(int step) {
    for (int row = 1; row <= kRows; ++row)
      for (int column = 1; column <= kColumns; ++column)
        at(row, column) = value(rank(), step, row, column);
  }
  size_t mistakes(int step) {
    size_t wrong = 0;
    const auto expect = [&](int row, int column, double expected) { wrong += at(row, column) != expected; };
    for (int row = 1; row <= kRows; ++row) {
      for (int column = 1; column <= kColumns; ++column)
        expect(row, column, value(rank(), step, row, column));
      expect(row, 0, value(neighbour(0, -1), step, row, kColumns));
      expect(row, kColumns + 1, value(neighbour(0, 1), step, row, 1));
    }
    for (int column = 1; column <= kColumns; ++column) {
      expect(0, column, value(neighbour(-1, 0), step, kRows, column));
      expect(kRows + 1, column, value(neighbour(1, 0), step, 1, column));
    }
    for (const int row : {0, kRows + 1})
      for (const int column : {0, kColumns + 1})
        expect(row, column, -1);  // nobody's
    return wrong;
  }

  std::array<int, 2> dims_{}, place_{};
  MPI_Datatype column_ = MPI_DATATYPE_NULL, row_ = MPI_DATATYPE_NULL;
  std::vector<double> cells_ = std::vector<double>(static_cast<size_t>((kRows + 2) * kWide), -1);
};

// All steps are enqueued ahead: each start comes right behind the kernel that follows the last wait.
TEST_F(Field, StepsFollowOneAnother) {
  connect();
  requests.match();
  size_t wrong = 0;
  for (int step = 0; step < 50; ++step) {
    stream.launch([this, step] { fill(step); });
    requests.start(queue);
    requests.wait(queue);
    stream.launch([&, step] { wrong += mistakes(step); });
  }
  queue.wait();
  EXPECT_EQ(wrong, 0u);
}

TEST_F(Field, DatatypesMayBeFreedBeforeTheMatch) {
  connect();
  MPI_Type_free(&column_);
  MPI_Type_free(&row_);
  requests.match();
  fill(0);
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(mistakes(0), 0u);
}

// ---- Lives

struct DatatypeLives : Gaps {
  std::atomic<bool> go{false};

  void hold() {
    stream.launch([this] {
      while (!go.load())
        std::this_thread::yield();
    });
  }
};

// The message has come, and the stream has not: it would unpack it into memory that is the program's again.
TEST_F(DatatypeLives, AReceiveIsNotFreedBeforeItIsUnpacked) {
  requests.send(out.data(), 10, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  requests.receive(in.data(), 1, rank(), kTag, MPI_COMM_WORLD, thirds);
  requests.match();
  requests.start(queue);
  hold();
  requests.wait(queue);
  EXPECT_TRUE(comes_to_say([&] { return MPI_Request_free(requests.at(1)); }, "unpacks"));
  Stream another_stream;
  Queue another(another_stream);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(another, requests.at(1)), MPI_ERR_REQUEST, {"another queue"}));
  EXPECT_EQ(in[0], -1);
  go.store(true);
  queue.wait();
  EXPECT_EQ(in[27], 109);
  // Now it may be started there.
  requests.start(another);
  requests.wait(another);
  another.wait();
}

// What is packed is what the buffer holds when the stream comes to the start, not when it is enqueued or matched.
TEST_F(DatatypeLives, IsPackedWhenTheStreamComesToIt) {
  requests.send(out.data(), 1, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 10, rank(), kTag, MPI_COMM_WORLD, MPI_INT);
  requests.match();
  hold();
  requests.start(queue);
  requests.wait(queue);
  stream.launch([&] { out[0] = 7; });
  requests.start(queue);
  requests.wait(queue);
  out[0] = 5;
  out[27] = 6;
  go.store(true);
  queue.wait();
  EXPECT_EQ(in[0], 7);
  EXPECT_EQ(in[9], 6);
}

// A refused call packs nothing: the packed memory is still being sent.
TEST_F(DatatypeLives, ARefusedStartPacksNothing) {
  requests.send(out.data(), 1, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 10, rank(), kTag, MPI_COMM_WORLD, MPI_INT);
  requests.match();
  EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
  stream.synchronize();
  out[0] = 5;
  const Enqueued before(queue);
  EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue, 2, requests.data()), MPI_ERR_REQUEST, {"previous start"}));
  EXPECT_EQ(Enqueued(queue), before);
  stream.synchronize();
  EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(1))));
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(in[0], 100);
}

TEST_F(DatatypeLives, PackingIsNoTrigger) {
  Thirds other;
  requests.send(out.data(), 1, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 1, rank(), kTag, MPI_COMM_WORLD, other);
  requests.match();
  const uint64_t before = queue.figure("triggers");
  requests.start(queue);
  EXPECT_EQ(queue.figure("triggers"), before + 2);
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(queue.figure("triggers"), before + 2);
}

// Its receive is freed after the match: the send fails, and all that it holds goes.
TEST_F(DatatypeLives, AFailedSendIsToldAndFreed) {
  if (ranks() == 1)
    GTEST_SKIP() << "it takes two";
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0)
    MPI_Rsend_init(out.data(), 1, thirds, 1, kTag, MPI_COMM_WORLD, &request);
  if (rank() == 1)
    MPI_Recv_init(in.data(), 1, thirds, 0, kTag, MPI_COMM_WORLD, &request);
  if (rank() < 2) {
    EXPECT_TRUE(ok(MPIX_Match(&request, MPI_STATUS_IGNORE)));
  }
  if (rank() == 1) {
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank() == 0) {
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
    EXPECT_TRUE(fails(MPIX_Queue_wait(queue), MPIX_ERR_FAILED, {"rsend, peer 1, tag 11, 40 B"}));
    queue.wait();
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (const int each : in)
    EXPECT_EQ(each, -1);
  verify_exchange(queue, stream);
}

// ---- Refusals

TEST_F(DatatypeLives, KernelsCannotStartThem) {
  requests.send(out.data(), 1, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 10, rank(), kTag, MPI_COMM_WORLD, MPI_INT);
  requests.match();
  MPIX_Device_requests* set = nullptr;
  EXPECT_TRUE(fails(MPIX_Device_requests_create(queue, 2, requests.data(), &set), MPI_ERR_UNSUPPORTED_OPERATION,
                    {"gaps", "kernel of your own"}));
  EXPECT_EQ(set, nullptr);
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(in[9], 127);
}

TEST_F(DatatypeLives, UncommittedDatatypesAreTheMpisToRefuse) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, 2, MPI_INT, &type);
  MPI_Request request = MPI_REQUEST_NULL;
  EXPECT_TRUE(fails(MPI_Send_init(out.data(), 1, type, rank(), kTag, MPI_COMM_WORLD, &request), MPI_ERR_TYPE));
  EXPECT_TRUE(fails(MPI_Recv_init(in.data(), 1, type, rank(), kTag, MPI_COMM_WORLD, &request), MPI_ERR_TYPE));
  MPI_Type_free(&type);
}

}  // namespace
}  // namespace lanyard::api_test
