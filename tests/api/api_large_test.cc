// Messages of more than 2 GiB, which take 8 GiB of memory: 2^31 + 8 bytes from rank 0 to rank 1, where they have gaps.
#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

constexpr uint64_t kNumbers = (uint64_t{1} << 28) + 1;  // of 8 bytes
constexpr uint64_t kBlock = uint64_t{1} << 17;          // numbers, then a gap of kGap
constexpr uint64_t kGap = 8;
constexpr int kBlocks = static_cast<int>(kNumbers / kBlock) + 1;

struct Large : ::testing::Test {
  Stream stream;
  Queue queue{stream};
  MPI_Datatype block = MPI_DATATYPE_NULL;
  std::vector<uint64_t> numbers;

  void SetUp() override {
    if (ranks() < 2)
      GTEST_SKIP() << "it takes two";
    MPI_Datatype run = MPI_DATATYPE_NULL;
    MPI_Type_contiguous(static_cast<int>(kBlock), MPI_UINT64_T, &run);
    MPI_Type_create_resized(run, 0, static_cast<MPI_Aint>((kBlock + kGap) * sizeof(uint64_t)), &block);
    MPI_Type_commit(&block);
    MPI_Type_free(&run);
    if (rank() == 0) {
      numbers.resize(kNumbers);
      for (uint64_t i = 0; i < kNumbers; ++i)
        numbers[i] = i * 0x9e3779b97f4a7c15u;
    }
    if (rank() == 1)
      numbers.resize(static_cast<uint64_t>(kBlocks) * (kBlock + kGap));
  }
  void TearDown() override {
    if (block != MPI_DATATYPE_NULL)
      MPI_Type_free(&block);
  }
  void transfer(MPI_Request request) {
    MPI_Status status;
    ASSERT_TRUE(ok(MPIX_Match(&request, &status)));
    if (rank() == 1) {
      MPI_Count elements = 0;
      MPI_Get_elements_x(&status, block, &elements);
      EXPECT_EQ(static_cast<uint64_t>(elements), kNumbers);
    }
    EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, &request)));
    EXPECT_TRUE(ok(MPIX_Enqueue_wait(queue, &request)));
    queue.wait();
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
    if (rank() != 1)
      return;
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < numbers.size(); ++i) {
      const uint64_t number = i / (kBlock + kGap) * kBlock + i % (kBlock + kGap);
      const bool is_there = i % (kBlock + kGap) < kBlock && number < kNumbers;
      wrong += numbers[i] != (is_there ? number * 0x9e3779b97f4a7c15u : 0);
    }
    EXPECT_EQ(wrong, 0u);
  }
};

TEST_F(Large, MessagesArriveWhole) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0)
    MPI_Send_init(numbers.data(), static_cast<int>(kNumbers), MPI_UINT64_T, 1, 3, MPI_COMM_WORLD, &request);
  if (rank() == 1)
    MPI_Recv_init(numbers.data(), kBlocks, block, 0, 3, MPI_COMM_WORLD, &request);
  if (rank() < 2)
    transfer(request);
}

#if MPI_VERSION >= 4
TEST_F(Large, CountsTheyAreMadeWith) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank() == 0)
    MPI_Send_init_c(numbers.data(), static_cast<MPI_Count>(kNumbers * sizeof(uint64_t)), MPI_BYTE, 1, 3, MPI_COMM_WORLD,
                    &request);
  if (rank() == 1)
    MPI_Recv_init_c(numbers.data(), kBlocks, block, 0, 3, MPI_COMM_WORLD, &request);
  if (rank() < 2)
    transfer(request);
}
#endif

}  // namespace
}  // namespace lanyard::api_test
