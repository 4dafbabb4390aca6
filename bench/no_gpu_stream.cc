#include "bench/gpu_stream.h"

namespace lanyard::bench {

std::unique_ptr<Stream> open_gpu_stream(int /*local_rank*/, std::string& why) {
  why = "this build has no GPU code: build with --config=cuda or --config=hip";
  return nullptr;
}

}  // namespace lanyard::bench
