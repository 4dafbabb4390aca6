#include "nicsim/deterministic/collectives.h"

#include <vector>

namespace lanyard::nicsim {

namespace {

// The messages of a collective's start, rank by rank: those of one of its sets, where it has two.
class Collective {
 public:
  // `number` is that of the exchange.
  Collective(Scenario& scenario, const CollectivesOptions& options, uint32_t number, uint32_t set = 0)
      : scenario_(scenario),
        options_(options),
        number_(number),
        set_(set),
        sent_(options.ranks),
        received_(options.ranks) {}

  void connect(uint32_t from, uint32_t to) {
    const MessageOptions message = {.bytes = options_.bytes,
                                    .tag = static_cast<int>(scenario_.messages().size()),
                                    .send_gaps = options_.gaps,
                                    .receive_gaps = options_.gaps,
                                    .send_merged = number_,
                                    .receive_merged = number_,
                                    .send_set = set_,
                                    .receive_set = set_};
    sent_[from].push_back(scenario_.message(from, to, message));
    received_[to].push_back(sent_[from].back());
  }
  void connect_all() {
    for (uint32_t from = 0; from < options_.ranks; ++from)
      for (uint32_t to = 0; to < options_.ranks; ++to)
        if (from != to)
          connect(from, to);
  }
  void run(uint32_t rank) {
    HostProgram& host = scenario_.rank(rank);
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
  Scenario& scenario_;
  const CollectivesOptions& options_;
  const uint32_t number_;
  const uint32_t set_;
  std::vector<std::vector<MessageName>> sent_, received_;
};

}  // namespace

Scenario make_collectives(const CollectivesOptions& options) {
  Scenario scenario(options.ranks);
  Collective first(scenario, options, 1, 1), second(scenario, options, 1, 2);
  first.connect_all();
  second.connect_all();
  const uint32_t last = options.ranks - 1;
  Collective from_first(scenario, options, 2), from_last(scenario, options, 3);
  for (uint32_t to = 1; to < options.ranks; ++to)
    from_first.connect(0, to);
  for (uint32_t to = 0; to < last; ++to)
    from_last.connect(last, to);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    HostProgram& host = scenario.rank(rank);
    for (uint32_t i = 0; i < options.iterations; ++i) {
      for (Collective* each : {i % 2 == 0 ? &first : &second, &from_first, &from_last})
        each->run(rank);
      if (options.sync)
        host.sync();
    }
    if (options.free)
      for (const Collective* each : {&first, &second, &from_first, &from_last})
        host.free(each->requests(rank));
    host.sync();
  }
  return scenario;
}

}  // namespace lanyard::nicsim
