#include "transport/core/merged_postings.h"

namespace lanyard::core {

void MergedPostings::fill(std::span<Request* const> members, uint64_t iteration) {
  postings_.clear();
  steps_.clear();
  for (const Request* member : members)
    for (const PreparedOp& op : member->prepared) {
      postings_.push_back({op.id, op.trigger, op.step * iteration + op.base, iteration});
      steps_.push_back(op.step);
    }
}

}  // namespace lanyard::core
