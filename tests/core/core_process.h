// Process: one process's part of the protocol for tests, with its requests' buffers.
#ifndef LANYARD_TESTS_CORE_PROCESS_H_
#define LANYARD_TESTS_CORE_PROCESS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "tests/core/core_mail.h"
#include "transport/core/endpoint.h"
#include "transport/core/matcher.h"
#include "transport/core/queue.h"

namespace lanyard {

using core::Request;

inline ::testing::AssertionResult works(const Status& status) {
  if (status.ok())
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << status.to_string();
}

// Message content that differs by seed. No byte is zero.
inline uint8_t pattern(uint64_t seed, uint64_t at) {
  return static_cast<uint8_t>(((seed + 1) * 0x9e3779b97f4a7c15u + at * 0xd1342543de82ef95u) >> 40 | 1);
}

// A rank of communicator 1, which has all ranks of the job. The NIC and the mail must outlive it.
class Process {
 public:
  Process(nic::Nic& nic, uint32_t rank, Mail& mail, core::Endpoint::Options options)
      : rank(rank), endpoint(nic, rank, options), matcher(endpoint, mail.courier(rank)) {}

  core::Transfer transfer(core::Direction direction, int peer, int tag, uint64_t bytes) {
    core::Transfer made;
    made.direction = direction;
    buffers_.emplace_back(bytes);
    made.buffer = buffers_.back().data();
    made.bytes = bytes;
    made.communicator = 1;
    made.rank = static_cast<int>(rank);
    made.peer = peer;
    made.peer_nic = static_cast<uint32_t>(peer < 0 ? 0 : peer);
    made.tag = tag;
    return made;
  }
  // A new request; its match has begun.
  Request& begin(const core::Transfer& transfer) {
    Request* request = endpoint.new_request(transfer);
    EXPECT_TRUE(works(matcher.begin(*request)));
    return *request;
  }
  Request& send(int peer, int tag, uint64_t bytes, bool ready = false) {
    core::Transfer made = transfer(core::Direction::kSend, peer, tag, bytes);
    made.ready = ready;
    return begin(made);
  }
  Request& receive(int peer, int tag, uint64_t bytes) {
    return begin(transfer(core::Direction::kReceive, peer, tag, bytes));
  }

  const uint32_t rank;
  core::Endpoint endpoint;
  core::Matcher matcher;

 private:
  std::deque<std::vector<uint8_t>> buffers_;
};

// ---- Contents of a request's buffer

inline uint8_t* bytes_of(Request& request) { return static_cast<uint8_t*>(request.transfer.buffer); }
inline void fill(Request& request, uint64_t seed) {
  for (uint64_t i = 0; i < request.transfer.bytes; ++i)
    bytes_of(request)[i] = pattern(seed, i);
}
inline void clear(Request& request) {
  for (uint64_t i = 0; i < request.transfer.bytes; ++i)
    bytes_of(request)[i] = 0;
}
// Whether the buffer holds the message of that seed and zeros after it.
inline bool holds(Request& request, uint64_t seed) {
  for (uint64_t i = 0; i < request.transfer.bytes; ++i)
    if (bytes_of(request)[i] != (i < request.matched_bytes ? pattern(seed, i) : 0))
      return false;
  return true;
}
inline bool is_clear(Request& request) {
  for (uint64_t i = 0; i < request.transfer.bytes; ++i)
    if (bytes_of(request)[i] != 0)
      return false;
  return true;
}

}  // namespace lanyard

#endif  // LANYARD_TESTS_CORE_PROCESS_H_
