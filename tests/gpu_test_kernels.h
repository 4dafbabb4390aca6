// A kernel of a program's that starts and waits by itself, for tests on GPUs: what it takes, and its compiled image.
#ifndef LANYARD_TESTS_GPU_TEST_KERNELS_H_
#define LANYARD_TESTS_GPU_TEST_KERNELS_H_

#include <lanyard/lanyard_device.h>

namespace lanyard::api_test {

// Of `exchange`: sends a message and receives one, again and again, and counts what is wrong with what comes.
struct ExchangeArguments {
  enum How : uint64_t {
    kByThread,  // one block, of which one thread calls
    kByBlocks,
    kStored,  // by blocks, which store the message at its receiver where they may
  };
  How how;
  const MPIX_Device_requests* send;
  const MPIX_Device_requests* receive;
  uint64_t* out;
  const uint64_t* in;
  uint64_t words;  // of a message
  uint64_t begin;  // iterations
  uint64_t end;
  uint64_t mine;  // of which the words are made
  uint64_t theirs;
  unsigned long long* wrong;   // how many words were
  unsigned long long* stored;  // how often a block has stored its part at the receiver
};

extern const unsigned char kTestKernels[];

}  // namespace lanyard::api_test

#endif  // LANYARD_TESTS_GPU_TEST_KERNELS_H_
