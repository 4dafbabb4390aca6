#include "nicsim/deterministic/collectives.h"

#include <vector>

namespace lanyard::nicsim {

namespace {

// One collective: its messages, rank by rank.
class Collective {
 public:
  Collective(Exchange& exchange, const CollectivesOptions& options)
      : exchange_(exchange), options_(options), sent_(options.ranks), received_(options.ranks) {}

  void connect(uint32_t from, uint32_t to) {
    const MessageOptions message = {.bytes = options_.bytes,
                                    .tag = static_cast<int>(exchange_.messages().size()),
                                    .send_gaps = options_.gaps,
                                    .receive_gaps = options_.gaps};
    sent_[from].push_back(exchange_.message(from, to, message));
    received_[to].push_back(sent_[from].back());
  }
  // `number` is the collective's.
  void merge(uint32_t number) {
    for (uint32_t rank = 0; rank < options_.ranks; ++rank)
      for (const RequestName request : requests(rank))
        exchange_.merge(request, number);
  }
  void run(uint32_t rank) {
    HostProgram& host = exchange_.rank(rank);
    for (const MessageName message : sent_[rank])
      host.pack(message);
    host.start(requests(rank)).wait(requests(rank));
    for (const MessageName message : received_[rank])
      host.unpack(message);
  }
  std::vector<RequestName> requests(uint32_t rank) const {
    std::vector<RequestName> all;
    for (const MessageName message : sent_[rank])
      all.push_back(message.send);
    for (const MessageName message : received_[rank])
      all.push_back(message.receive);
    return all;
  }

 private:
  Exchange& exchange_;
  const CollectivesOptions& options_;
  std::vector<std::vector<MessageName>> sent_, received_;
};

}  // namespace

Exchange make_collectives(const CollectivesOptions& options) {
  Exchange exchange(options.ranks);
  std::vector<Collective> all(3, Collective(exchange, options));
  for (uint32_t from = 0; from < options.ranks; ++from)
    for (uint32_t to = 0; to < options.ranks; ++to)
      if (from != to)
        all[0].connect(from, to);
  for (uint32_t to = 1; to < options.ranks; ++to)
    all[1].connect(0, to);
  const uint32_t last = options.ranks - 1;
  for (uint32_t to = 0; to < last; ++to)
    all[2].connect(last, to);
  for (uint32_t i = 0; i < all.size(); ++i)
    all[i].merge(i + 1);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    HostProgram& host = exchange.rank(rank);
    for (uint32_t i = 0; i < options.iterations; ++i) {
      for (Collective& each : all)
        each.run(rank);
      if (options.sync)
        host.sync();
    }
    if (options.free)
      for (const Collective& each : all)
        host.free(each.requests(rank));
    host.sync();
  }
  return exchange;
}

}  // namespace lanyard::nicsim
