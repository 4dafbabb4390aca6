// Shared by the tests of exchanges: an exchange of rank 0 and the other sides of its pairs.
#ifndef LANYARD_TESTS_CORE_EXCHANGE_TEST_H_
#define LANYARD_TESTS_CORE_EXCHANGE_TEST_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/core/core_manual_job.h"
#include "transport/core/exchange.h"

namespace lanyard {

inline constexpr uint64_t kBytes = 64;

inline bool has(const Status& status, const std::string& text) {
  return status.message().find(text) != std::string::npos;
}

// Rank 0 has the exchange; the other sides are single requests of rank 1.
struct ExchangeTest : ::testing::Test {
  explicit ExchangeTest(const ManualJobOptions& options = {}) : job(2, options) {
    for (uint32_t rank : {0u, 1u})
      usage.push_back(job[rank].nic().usage().counters);
  }
  ManualJob::Rank& us() { return job[0]; }
  ManualJob::Rank& peer() { return job[1]; }
  Request* fresh(ManualJob::Rank& rank, core::Direction direction, int tag, bool ready = false, int to = -3) {
    core::Transfer made = rank.transfer(direction, to == -3 ? static_cast<int>(1 - rank.rank) : to, tag, kBytes);
    made.ready = ready;
    return rank.endpoint.new_request(made);
  }
  void begin(ManualJob::Rank& rank, const std::vector<Request*>& requests) {
    for (Request* request : requests)
      EXPECT_TRUE(works(rank.matcher.begin(*request)));
  }
  void make(const std::vector<Request*>& members) { EXPECT_TRUE(works(us().endpoint.make_exchange("halo", members))); }
  void add(size_t sends, size_t receives, bool ready) {
    for (size_t i = 0; i < sends; ++i) {
      ours.push_back(fresh(us(), core::Direction::kSend, static_cast<int>(i), ready));
      theirs.push_back(fresh(peer(), core::Direction::kReceive, static_cast<int>(i)));
    }
    for (size_t i = 0; i < receives; ++i) {
      ours.push_back(fresh(us(), core::Direction::kReceive, static_cast<int>(i)));
      theirs.push_back(fresh(peer(), core::Direction::kSend, static_cast<int>(i), ready));
    }
  }
  void build(size_t sends, size_t receives, bool ready = false) {
    add(sends, receives, ready);
    make(ours);
    match();
    for (const Request* request : ours)
      ASSERT_TRUE(request->matched());
    ASSERT_TRUE(exchange().bound);
  }
  void match() {
    begin(us(), ours);
    begin(peer(), theirs);
    job.match();
  }
  core::Exchange& exchange() { return *ours.front()->exchange; }
  void start_theirs() { EXPECT_TRUE(works(peer().queue->start(theirs))); }
  void wait_theirs() { EXPECT_TRUE(works(peer().queue->wait(theirs))); }
  void iteration() {
    EXPECT_TRUE(works(us().queue->start(ours)));
    start_theirs();
    EXPECT_TRUE(works(us().queue->wait(ours)));
    wait_theirs();
    expect_over();
  }
  // With sender flags each side first asks the other whether its sends succeeded.
  void expect_over() {
    job.run();
    for (int round = 0; round < 4 && !job.over(); ++round) {
      for (uint32_t rank : {0u, 1u})
        job[rank].matcher.progress();
      job.run();
    }
    EXPECT_TRUE(job.over());
  }
  // Keeps the rule of ready sends: each receive has started before its send starts.
  void run_ready_halo(uint64_t entries) {
    build(8, 8, true);
    const std::vector<Request*> receives(theirs.begin(), theirs.begin() + 8), sends(theirs.begin() + 8, theirs.end());
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(works(peer().queue->start(receives)));
      job.run();
      EXPECT_TRUE(works(us().queue->start(ours)));
      job.run();
      EXPECT_TRUE(works(peer().queue->start(sends)));
      EXPECT_TRUE(works(us().queue->wait(ours)));
      wait_theirs();
      expect_over();
    }
    EXPECT_EQ(us().endpoint.entries_posted(), 3 * entries);
    EXPECT_EQ(us().stream.enqueued.size(), 3 * 2u);
    free_all();
  }
  // Expects the refusal `why`, and that the call left nothing on the stream.
  void refused(const Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), Code::kInvalidState);
    EXPECT_TRUE(has(status, why)) << status.message();
    EXPECT_TRUE(us().stream.empty());
  }
  // Releases the rank's failed requests and returns them in order.
  std::vector<const Request*> release_failed(ManualJob::Rank& rank) {
    std::vector<const Request*> all;
    while (const Request* failed = rank.endpoint.take_failed(*rank.queue)) {
      all.push_back(failed);
      rank.endpoint.release(*rank.endpoint.find(failed->number));
    }
    EXPECT_EQ(rank.endpoint.take_unrecorded_failures(), 0u);
    return all;
  }
  void free(ManualJob::Rank& rank, Request* request) { EXPECT_TRUE(works(rank.matcher.free(*request))); }
  void free_all() { free_all_but(0); }
  // Expects that only the counters of `queues` additional queues are left.
  void free_all_but(uint32_t queues) {
    for (Request* request : ours)
      free(us(), request);
    for (Request* request : theirs)
      free(peer(), request);
    job.match();
    job.run();
    for (uint32_t rank : {0u, 1u})
      EXPECT_EQ(job[rank].nic().usage().counters, usage[rank] + (rank == 0 ? queues : 0));
  }

  ManualJob job;
  std::vector<uint32_t> usage;  // counters in use before the test
  std::vector<Request*> ours, theirs;
};

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_EXCHANGE_TEST_H_
