// Transfers: datatypes without gaps move as bytes, whatever they are made of, and the status of a
// match counts in the receive's datatype.
#include <array>
#include <cstddef>
#include <cstring>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct TransferDatatypes : ::testing::Test {
  Stream stream;
  Queue queue{stream};

  // One exchange of `count` elements with oneself: what is sent arrives, and as much as that.
  void exchange(MPI_Datatype datatype, int count) {
    int bytes = 0;
    MPI_Type_size(datatype, &bytes);
    bytes *= count;
    Buffer out(static_cast<size_t>(bytes)), in(static_cast<size_t>(bytes));
    Requests requests;
    requests.receive(in.data(), count, partner(), 1, MPI_COMM_WORLD, datatype);
    requests.send(out.data(), count, partner(), 1, MPI_COMM_WORLD, Mode::kSend, datatype);
    std::array<MPI_Status, 2> statuses;
    ASSERT_TRUE(ok(MPIX_Matchall(2, requests.data(), statuses.data())));
    int received = -1;
    MPI_Get_count(&statuses[0], datatype, &received);
    EXPECT_EQ(received, count);
    EXPECT_EQ(statuses[0].MPI_SOURCE, partner());
    EXPECT_EQ(statuses[0].MPI_TAG, 1);
    out.fill(seed_of(rank(), partner(), 0));
    in.poison();
    requests.start(queue);
    requests.wait(queue);
    queue.wait();
    EXPECT_EQ(in.mistakes(seed_of(partner(), rank(), 0)), 0u);
  }
};

TEST_F(TransferDatatypes, OfTheMpi) {
  for (MPI_Datatype datatype : {MPI_BYTE, MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_C_DOUBLE_COMPLEX, MPI_2INT})
    exchange(datatype, 17);
}

TEST_F(TransferDatatypes, Contiguous) {
  MPI_Datatype row = MPI_DATATYPE_NULL, plane = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(13, MPI_DOUBLE, &row);
  MPI_Type_contiguous(3, row, &plane);
  MPI_Type_commit(&row);
  MPI_Type_commit(&plane);
  exchange(row, 5);
  exchange(plane, 2);
  MPI_Type_free(&row);
  MPI_Type_free(&plane);
}

TEST_F(TransferDatatypes, Duplicates) {
  MPI_Datatype row = MPI_DATATYPE_NULL, copy = MPI_DATATYPE_NULL, copy_of_int = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(13, MPI_DOUBLE, &row);
  MPI_Type_commit(&row);
  MPI_Type_dup(row, &copy);
  MPI_Type_dup(MPI_INT, &copy_of_int);
  MPI_Type_free(&row);
  exchange(copy, 4);
  exchange(copy_of_int, 4);
  MPI_Type_free(&copy);
  MPI_Type_free(&copy_of_int);
}

TEST_F(TransferDatatypes, DenseStructure) {
  struct Particle {
    double place[3];
    int kind;
    int charge;
  };
  static_assert(sizeof(Particle) == 32);
  const int lengths[] = {3, 1, 1};
  const MPI_Aint offsets[] = {offsetof(Particle, place), offsetof(Particle, kind), offsetof(Particle, charge)};
  const MPI_Datatype types[] = {MPI_DOUBLE, MPI_INT, MPI_INT};
  MPI_Datatype particle = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(3, lengths, offsets, types, &particle);
  MPI_Type_commit(&particle);
  exchange(particle, 9);
  MPI_Type_free(&particle);
}

TEST_F(TransferDatatypes, VectorWithoutGaps) {
  MPI_Datatype vector = MPI_DATATYPE_NULL;
  MPI_Type_vector(4, 3, 3, MPI_INT, &vector);
  MPI_Type_commit(&vector);
  exchange(vector, 6);
  MPI_Type_free(&vector);
}

// The two sides may see the same bytes as different types, and the message may be shorter than the
// receive.
TEST_F(TransferDatatypes, TheStatusCountsInTheReceivesType) {
  std::array<double, 10> out, in;
  out.fill(1.5);
  in.fill(-1);
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_DOUBLE, &pair);
  MPI_Type_commit(&pair);
  Requests requests;
  requests.receive(in.data(), 5, partner(), 1, MPI_COMM_WORLD, pair);
  requests.send(out.data(), 6, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_DOUBLE);
  std::array<MPI_Status, 2> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(2, requests.data(), statuses.data())));
  int pairs = -1, elements = -1, doubles = -1, sent = -1;
  MPI_Get_count(&statuses[0], pair, &pairs);
  MPI_Get_elements(&statuses[0], pair, &elements);
  MPI_Get_count(&statuses[0], MPI_DOUBLE, &doubles);
  MPI_Get_count(&statuses[1], MPI_DOUBLE, &sent);
  EXPECT_EQ(pairs, 3);
  EXPECT_EQ(elements, 6);
  EXPECT_EQ(doubles, 6);
  EXPECT_EQ(sent, 0) << "the status of a send is empty";
  int cancelled = -1;
  MPI_Test_cancelled(&statuses[0], &cancelled);
  EXPECT_EQ(cancelled, 0);
  for (int i = 0; i < 3; ++i) {
    requests.start(queue);
    requests.wait(queue);
  }
  queue.wait();
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], i < 6 ? 1.5 : -1) << i;
  MPI_Type_free(&pair);
}

// A message of 5 ints is two and a half pairs.
TEST_F(TransferDatatypes, AMessageThatEndsInsideAnElementCountsAsUndefined) {
  std::array<int, 8> out{}, in{};
  MPI_Datatype pair = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &pair);
  MPI_Type_commit(&pair);
  Requests requests;
  requests.receive(in.data(), 4, partner(), 1, MPI_COMM_WORLD, pair);
  requests.send(out.data(), 5, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  std::array<MPI_Status, 2> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(2, requests.data(), statuses.data())));
  int pairs = -1;
  MPI_Get_count(&statuses[0], pair, &pairs);
  EXPECT_EQ(pairs, MPI_UNDEFINED);
  MPI_Type_free(&pair);
}

TEST_F(TransferDatatypes, MayBeFreedBetweenCreationAndMatching) {
  MPI_Datatype row = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(100, MPI_INT, &row);
  MPI_Type_commit(&row);
  Buffer out(400), in(400);
  in.poison();
  Requests requests;
  requests.receive(in.data(), 1, partner(), 1, MPI_COMM_WORLD, row);
  requests.send(out.data(), 1, partner(), 1, MPI_COMM_WORLD, Mode::kSend, row);
  MPI_Type_free(&row);
  requests.match();
  out.fill(seed_of(rank(), partner(), 0));
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(in.mistakes(seed_of(partner(), rank(), 0)), 0u);
}

struct Gaps {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  Gaps() {
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
  }
  ~Gaps() { MPI_Type_free(&type); }
};

TEST_F(TransferDatatypes, ZeroElementsHaveNoGaps) {
  const Gaps gaps;
  Buffer out(16), in(16);
  Requests requests;
  requests.receive(in.data(), 0, partner(), 1, MPI_COMM_WORLD, gaps.type);
  requests.send(out.data(), 0, partner(), 1, MPI_COMM_WORLD, Mode::kSend, gaps.type);
  in.poison();
  requests.match();
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  EXPECT_TRUE(in.untouched());
}

// Nothing moves to or from MPI_PROC_NULL, so its datatype and its communicator may be any.
TEST_F(TransferDatatypes, GapsMeetNobody) {
  const Gaps gaps;
  Buffer out(16), in(16);
  Requests requests;
  requests.receive(in.data(), 1, MPI_PROC_NULL, 1, MPI_COMM_WORLD, gaps.type);
  requests.send(out.data(), 1, MPI_PROC_NULL, 1, MPI_COMM_WORLD, Mode::kSend, gaps.type);
  in.poison();
  requests.match();
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  EXPECT_TRUE(in.untouched());
}

TEST_F(TransferDatatypes, ZeroElementsAtNoAddress) {
  Requests requests;
  requests.receive(nullptr, 0, partner(), 1, MPI_COMM_WORLD, MPI_DOUBLE);
  requests.send(nullptr, 0, partner(), 1, MPI_COMM_WORLD, Mode::kSend, MPI_DOUBLE);
  requests.match();
  for (int i = 0; i < 5; ++i) {
    requests.start(queue);
    requests.wait(queue);
  }
  queue.wait();
}

}  // namespace
}  // namespace lanyard::api_test
