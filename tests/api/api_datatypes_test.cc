// Datatypes with gaps, by hand: on one side and on both, of all shapes, in messages of other lengths.
#include <cstddef>

#include "tests/api/api_datatypes.h"

namespace lanyard::api_test {
namespace {

// ---- Sides and shapes

TEST_F(Gaps, OnTheSendersSide) {
  requests.send(out.data(), 1, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 10, partner(), kTag, MPI_COMM_WORLD, MPI_INT);
  exchange();
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], i < 10 ? 100 + 3 * static_cast<int>(i) : -1) << i;
}

TEST_F(Gaps, OnTheReceiversSideStayAsTheyWere) {
  requests.send(out.data(), 10, partner(), kTag, MPI_COMM_WORLD, Mode::kSsend, MPI_INT);
  requests.receive(in.data(), 1, partner(), kTag, MPI_COMM_WORLD, thirds);
  exchange();
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], i % 3 == 0 && i < 30 ? 100 + static_cast<int>(i) / 3 : -1) << i;
}

TEST_F(Gaps, OfTwoKinds) {
  const std::array<int, 3> lengths{2, 5, 3}, places{20, 0, 10};
  const Type blocks([&](MPI_Datatype* type) { MPI_Type_indexed(3, lengths.data(), places.data(), MPI_INT, type); });
  requests.send(out.data(), 1, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 1, partner(), kTag, MPI_COMM_WORLD, blocks);
  exchange();
  std::array<int, 32> expected;
  expected.fill(-1);
  int value = 100;
  for (size_t block = 0; block < 3; ++block)
    for (int i = 0; i < lengths[block]; ++i, value += 3)
      expected[static_cast<size_t>(places[block] + i)] = value;
  EXPECT_EQ(in, expected);
}

// The extent of a column is one element, so three of them begin side by side.
TEST_F(Gaps, SeveralColumnsArriveOneAfterAnother) {
  constexpr int kRows = 4, kRowLength = 8, kColumns = 3;
  const Type strided([](MPI_Datatype* type) { MPI_Type_vector(kRows, 1, kRowLength, MPI_INT, type); });
  const Type column([&](MPI_Datatype* type) { MPI_Type_create_resized(strided, 0, sizeof(int), type); });
  requests.send(out.data(), kColumns, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, column);
  requests.receive(in.data(), kRows * kColumns, partner(), kTag, MPI_COMM_WORLD, MPI_INT);
  exchange();
  for (int i = 0; i < kRows * kColumns; ++i)
    EXPECT_EQ(in[static_cast<size_t>(i)], 100 + i % kRows * kRowLength + i / kRows) << i;
}

TEST_F(Gaps, StructuresWithPadding) {
  struct Particle {
    char kind;
    double place[2];
    int charge;
  };
  const std::array<int, 3> lengths{1, 2, 1};
  const std::array<MPI_Aint, 3> places{offsetof(Particle, kind), offsetof(Particle, place), offsetof(Particle, charge)};
  const std::array<MPI_Datatype, 3> types{MPI_CHAR, MPI_DOUBLE, MPI_INT};
  const Type members(
      [&](MPI_Datatype* type) { MPI_Type_create_struct(3, lengths.data(), places.data(), types.data(), type); });
  const Type particle([&](MPI_Datatype* type) { MPI_Type_create_resized(members, 0, sizeof(Particle), type); });
  std::vector<Particle> sent(1000), received(1000);
  for (int i = 0; i < 1000; ++i)
    sent[static_cast<size_t>(i)] = {static_cast<char>(i % 100), {0.5 * i, -i + 0.25}, 7 * i};
  requests.send(sent.data(), 1000, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, particle);
  requests.receive(received.data(), 1000, partner(), kTag, MPI_COMM_WORLD, particle);
  exchange();
  for (size_t i = 0; i < sent.size(); ++i)
    EXPECT_TRUE(received[i].kind == sent[i].kind && received[i].place[0] == sent[i].place[0] &&
                received[i].place[1] == sent[i].place[1] && received[i].charge == sent[i].charge)
        << i;
}

// Rows of an array are one run of memory, wherever they begin: nothing is packed for them, and with kernels too.
TEST_F(Gaps, RowsHaveNone) {
  const std::array<int, 2> sizes{4, 8}, parts{2, 8}, starts{1, 0};
  const Type rows([&](MPI_Datatype* type) {
    MPI_Type_create_subarray(2, sizes.data(), parts.data(), starts.data(), MPI_ORDER_C, MPI_INT, type);
  });
  requests.send(out.data(), 1, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, rows);
  requests.receive(in.data(), 1, partner(), kTag, MPI_COMM_WORLD, rows);
  requests.match();
  MPIX_Device_requests* set = nullptr;
  EXPECT_TRUE(ok(MPIX_Device_requests_create(queue, 2, requests.data(), &set)));
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
  requests.start(queue);
  requests.wait(queue);
  queue.wait();
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], i >= 8 && i < 24 ? 100 + static_cast<int>(i) : -1) << i;
}

TEST_F(Gaps, FromMpiBottom) {
  std::array<MPI_Aint, 2> sent, received;
  MPI_Get_address(&out[3], &sent[0]);
  MPI_Get_address(&out[20], &sent[1]);
  MPI_Get_address(&in[30], &received[0]);
  MPI_Get_address(&in[5], &received[1]);
  const Type from([&](MPI_Datatype* type) { MPI_Type_create_hindexed_block(2, 2, sent.data(), MPI_INT, type); });
  const Type to([&](MPI_Datatype* type) { MPI_Type_create_hindexed_block(2, 2, received.data(), MPI_INT, type); });
  const Type run([&](MPI_Datatype* type) { MPI_Type_create_hindexed_block(1, 2, &sent[0], MPI_INT, type); });
  requests.send(MPI_BOTTOM, 1, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, from);
  requests.receive(MPI_BOTTOM, 1, partner(), kTag, MPI_COMM_WORLD, to);
  requests.send(MPI_BOTTOM, 1, partner(), kTag + 1, MPI_COMM_WORLD, Mode::kSend, run);
  requests.receive(&in[10], 2, partner(), kTag + 1, MPI_COMM_WORLD, MPI_INT);
  exchange();
  std::array<int, 32> expected;
  expected.fill(-1);
  expected[30] = expected[10] = 103;
  expected[31] = expected[11] = 104;
  expected[5] = 120;
  expected[6] = 121;
  EXPECT_EQ(in, expected);
}

TEST_F(Gaps, ABufferInTheMiddleOfItsElements) {
  const std::array<int, 2> places{-5, 4};
  const Type around([&](MPI_Datatype* type) { MPI_Type_create_indexed_block(2, 1, places.data(), MPI_INT, type); });
  requests.send(&out[16], 1, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, around);
  requests.receive(&in[16], 1, partner(), kTag, MPI_COMM_WORLD, around);
  exchange();
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], i == 11 || i == 20 ? 100 + static_cast<int>(i) : -1) << i;
}

// Five ints come for a receive of ten, in the receive's own counts.
TEST_F(Gaps, ShorterMessagesEndWhereTheyEnd) {
  const Type pair([](MPI_Datatype* type) { MPI_Type_vector(2, 1, 2, MPI_INT, type); });
  requests.receive(in.data(), 5, partner(), kTag, MPI_COMM_WORLD, pair);
  requests.send(out.data(), 5, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  std::array<MPI_Status, 2> statuses;
  ASSERT_TRUE(ok(MPIX_Matchall(2, requests.data(), statuses.data())));
  int pairs = -1, elements = -1;
  MPI_Get_count(&statuses[0], pair, &pairs);
  MPI_Get_elements(&statuses[0], pair, &elements);
  EXPECT_EQ(pairs, MPI_UNDEFINED);
  EXPECT_EQ(elements, 5);
  for (int i = 0; i < 3; ++i) {
    requests.start(queue);
    requests.wait(queue);
  }
  queue.wait();
  std::array<int, 32> expected;
  expected.fill(-1);
  const std::array<size_t, 5> places{0, 2, 3, 5, 6};
  for (size_t i = 0; i < places.size(); ++i)
    expected[places[i]] = 100 + static_cast<int>(i);
  EXPECT_EQ(in, expected);
}

TEST_F(Gaps, LongerMessagesAreTruncatedAndChangeNothing) {
  requests.receive(in.data(), 9, partner(), kTag, MPI_COMM_WORLD, MPI_INT);
  requests.send(out.data(), 1, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  std::array<MPI_Status, 2> statuses;
  EXPECT_TRUE(fails(MPIX_Matchall(2, requests.data(), statuses.data()), MPI_ERR_IN_STATUS, {}));
  EXPECT_TRUE(fails(statuses[1].MPI_ERROR, MPI_ERR_TRUNCATE, {"40 bytes"}));
  Requests longer;
  longer.receive(in.data(), 10, partner(), kTag, MPI_COMM_WORLD, MPI_INT);
  std::array<MPI_Request, 2> pair{longer[0], requests[1]};
  EXPECT_TRUE(ok(MPIX_Matchall(2, pair.data(), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, 2, pair.data())));
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, 2, pair.data())));
  queue.wait();
  EXPECT_EQ(in[9], 127);
  EXPECT_EQ(in[10], -1);
}

#if MPI_VERSION >= 4
// Requests and datatypes that were made with large counts.
TEST_F(Gaps, ByLargeCounts) {
  const std::array<MPI_Count, 2> lengths{1, 2}, bytes{64, 8}, sizes{4, 8}, parts{4, 2}, starts{0, 3};
  const std::array<MPI_Datatype, 2> ints{MPI_INT, MPI_INT};
  const Type structure(
      [&](MPI_Datatype* type) { MPI_Type_create_struct_c(2, lengths.data(), bytes.data(), ints.data(), type); });
  const Type columns([&](MPI_Datatype* type) {
    MPI_Type_create_subarray_c(2, sizes.data(), parts.data(), starts.data(), MPI_ORDER_C, MPI_INT, type);
  });
  const Type vector([](MPI_Datatype* type) { MPI_Type_create_hvector_c(3, 1, 12, MPI_INT, type); });
  std::array<MPI_Request, 6> pairs;
  std::array<std::array<int, 32>, 3> received;
  for (std::array<int, 32>& each : received)
    each.fill(-1);
  const std::array<MPI_Datatype, 3> types{structure, columns, vector};
  for (size_t i = 0; i < 3; ++i) {
    const int tag = kTag + static_cast<int>(i);
    EXPECT_TRUE(ok(MPI_Send_init_c(out.data(), 1, types[i], rank(), tag, MPI_COMM_WORLD, &pairs[2 * i])));
    EXPECT_TRUE(ok(MPI_Recv_init_c(received[i].data(), 32, MPI_INT, rank(), tag, MPI_COMM_WORLD, &pairs[2 * i + 1])));
  }
  EXPECT_TRUE(ok(MPIX_Matchall(6, pairs.data(), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, 6, pairs.data())));
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, 6, pairs.data())));
  queue.wait();
  EXPECT_EQ((std::vector<int>(received[0].begin(), received[0].begin() + 4)), (std::vector<int>{116, 102, 103, -1}));
  EXPECT_EQ((std::vector<int>(received[1].begin(), received[1].begin() + 9)),
            (std::vector<int>{103, 104, 111, 112, 119, 120, 127, 128, -1}));
  EXPECT_EQ((std::vector<int>(received[2].begin(), received[2].begin() + 4)), (std::vector<int>{100, 103, 106, -1}));
  for (MPI_Request& request : pairs)
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
}
#endif

}  // namespace
}  // namespace lanyard::api_test
