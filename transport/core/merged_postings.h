// MergedPostings: what an exchange posts at its every start, kept from one to the next: only thresholds grow.
#ifndef LANYARD_TRANSPORT_CORE_MERGED_POSTINGS_H_
#define LANYARD_TRANSPORT_CORE_MERGED_POSTINGS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/core/request.h"
#include "transport/nic/nic.h"

namespace lanyard::core {

class MergedPostings {
 public:
  // Those of the iteration, member by member. Valid until the next call. Allocates once. Requires that all members are
  // prepared, and the same members each time.
  std::span<const nic::Posting> of(std::span<Request* const> members, uint64_t iteration) {
    if (iteration != iteration_ + 1) [[unlikely]] {
      fill(members, iteration);
    } else {
      for (size_t i = 0; i < postings_.size(); ++i) {
        postings_[i].threshold += steps_[i];
        postings_[i].start = iteration;
      }
    }
    iteration_ = iteration;
    return postings_;
  }

 private:
  void fill(std::span<Request* const> members, uint64_t iteration);

  uint64_t iteration_ = UINT64_MAX;  // that they are of
  std::vector<nic::Posting> postings_;
  std::vector<uint64_t> steps_;  // of their thresholds, from one iteration to the next
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_MERGED_POSTINGS_H_
