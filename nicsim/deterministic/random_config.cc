#include "nicsim/deterministic/random_config.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "nicsim/deterministic/card_mail.h"
#include "nicsim/deterministic/schedulers.h"

namespace lanyard::nicsim {

namespace {

constexpr uint32_t kMostMessages = 6, kMostQueues = 3, kMostEpochs = 4;
// Of ready pairs that may be started by graphs and kernels, where a program has such: percent.
constexpr uint32_t kStandingReady = 50;

// Iterations after which a trigger counter of a provider with narrow ones is as far as those go.
constexpr uint64_t kFar = uint64_t{1} << 29;

// One side of a message, as far as its rank's program has come with it.
struct Plan {
  RequestName request;
  MessageName message;
  bool ready = false;
  bool checked = false;  // packed before each start, or unpacked after each wait
  bool gaps = false;     // in its buffer
  bool soon = false;     // of a ready pair either of which may be started by graphs or kernels
  bool may_stand = false;
  uint32_t queue = 0;
  bool under_way = false;  // started and not waited for
  bool matching = false;   // and not known to be matched
  bool started = false;    // since it was matched
  bool gone = false;       // freed
  bool standing = false;   // started by graphs or kernels
};

// What starts the requests of a queue without its host: what was captured there last, or a set of kernels'.
struct Standing {
  bool in_kernels = false;
  std::vector<RequestName> requests;  // none: nothing yet
};

// A request that nobody matches, from one epoch to a later one.
struct Unmatched {
  RequestName request;
  uint32_t rank = 0;
  uint32_t first = 0, last = 0;  // epochs
};

// An epoch is the same on all ranks: which messages go. All starts of an epoch precede whatever its rank blocks on in
// it, and every rank goes through the epochs in order; so what an epoch waits for needs nothing of a later one.
class Generator {
 public:
  explicit Generator(uint64_t seed) : random_(seed) {}

  Config draw() {
    Config config;
    draw_world(config.world);
    Exchange exchange(draw_ranks());
    graphs_ = percent(25);
    draw_messages(exchange, config.world);
    const uint32_t epochs = 1 + below(kMostEpochs);
    begin(exchange, epochs);
    draw_unmatched(exchange, epochs);
    for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
      if (faulty_)
        bear_and_bury(exchange, epoch);
      else if (epoch > 0)
        renew(exchange);
      draw_going(epoch);
      for (uint32_t rank = 0; rank < exchange.ranks(); ++rank) {
        come_and_go(exchange.rank(rank), rank, epoch);
        write_epoch(exchange.rank(rank), rank);
      }
    }
    const bool frees = percent(faulty_ ? 70 : 40);
    for (uint32_t rank = 0; rank < exchange.ranks(); ++rank)
      finish(exchange.rank(rank), rank, frees);
    config.program = std::make_shared<const Exchange>(std::move(exchange));
    if (!graphs_ && config.world.strategy != core::Strategy::kWriteBack && config.world.bells == Bells::kCalls &&
        config.world.in_flight == 0 && percent(50))
      draw_provider(config.world);
    config.world.mail_by_card = !config.world.has_driver() && !config.world.scarce &&
                                config.world.max_message_bytes >= CardMail::kLeastMessageBytes && percent(60);
    return config;
  }

 private:
  bool percent(uint32_t chance) { return random_.below(100) < chance; }
  uint32_t below(uint32_t n) { return random_.below(n); }
  template <typename T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<uint32_t>(choices.size()))];
  }
  template <typename T>
  void shuffle(std::vector<T>& things) {
    for (size_t i = things.size(); i > 1; --i)
      std::swap(things[i - 1], things[below(static_cast<uint32_t>(i))]);
  }

  uint32_t draw_ranks() { return one_of({1u, 2u, 2u, 2u, 2u, 2u, 3u, 3u, 4u}); }

  void draw_world(WorldOptions& world) {
    world.strategy = one_of({core::Strategy::kTargetCounter, core::Strategy::kTargetCounter,
                             core::Strategy::kSenderFlag, core::Strategy::kWriteBack});
    world.early_acks = percent(50);
    world.in_order = percent(25);
    if (percent(50))
      world.max_message_bytes = one_of({uint64_t{8}, uint64_t{16}, uint64_t{24}, uint64_t{40}});
    if (percent(60))
      world.depth = 1 + below(10);
    else
      world.overflow = !percent(25);
    if (percent(15))
      world.in_flight = 1 + below(4);
    world.no_room = percent(15);
    world.scarce = percent(10);
    world.stale_reads = percent(15);
    world.frozen_reads = !world.stale_reads && percent(10);  // both together never end
    world.stolen_entries = percent(10);
    world.failures = percent(15);
    world.kills = !world.failures && percent(12);
    faulty_ = world.failures || world.kills;
    world.bells =
        one_of({Bells::kCalls, Bells::kCalls, Bells::kCalls, Bells::kRegisters, Bells::kWords, Bells::kTotals});
    world.timed = percent(5);
    world.slow = world.timed && percent(50);
    if (percent(5))
      world.age = random_.next() % (uint64_t{1} << 40);
  }

  void draw_provider(WorldOptions& world) {
    world.provider = percent(60) ? Provider::kCxi : Provider::kSockets;
    // What finds no room runs at once, and then fails.
    world.no_room = world.no_room || (world.failures && percent(50));
    if (world.provider == Provider::kCxi)
      return;
    world.stolen_entries = world.stale_reads = world.frozen_reads = false;
    if (world.failures || world.kills)
      world.age = 0;
    else if (percent(10))
      world.age = kFar - 1 + below(2);
  }

  // Lengths at which something changes: nothing, words, whole pieces, and one off.
  uint32_t draw_bytes(const WorldOptions& world) {
    const auto piece = static_cast<uint32_t>(std::min<uint64_t>(world.max_message_bytes, 16));
    return one_of({0u, 1u, 7u, 8u, 16u, piece - 1, piece, piece + 1, 2 * piece - 1, 2 * piece, 2 * piece + 1});
  }

  void draw_messages(Exchange& exchange, const WorldOptions& world) {
    const uint32_t count = 1 + below(kMostMessages);
    std::vector<std::pair<uint32_t, uint32_t>> ends;
    std::vector<MessageOptions> all;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t from = below(exchange.ranks());
      const uint32_t to =
          percent(10) ? from : (from + 1 + below(std::max(exchange.ranks(), 2u) - 1)) % exchange.ranks();
      ends.emplace_back(from, to);
      all.push_back({.bytes = draw_bytes(world),
                     .tag = percent(25) ? 0 : static_cast<int>(i) + 1,
                     .ready = percent(30),
                     .room = percent(25) ? 1 + below(20) : 0,
                     .send_gaps = percent(20),
                     .receive_gaps = percent(20)});
    }
    // A wildcard where nothing else can be meant.
    for (uint32_t i = 0; i < count; ++i) {
      bool only_tag = true, only_source = true, others_wild = false;
      for (uint32_t k = 0; k < count; ++k) {
        if (k == i || ends[k].second != ends[i].second)
          continue;
        only_tag = only_tag && all[k].tag != all[i].tag;
        only_source = only_source && ends[k].first != ends[i].first;
        others_wild = others_wild || all[k].any_source || all[k].any_tag;
      }
      all[i].any_source = only_tag && !others_wild && percent(25);
      all[i].any_tag = !all[i].any_source && only_source && !others_wild && percent(25);
    }
    queues_.clear();
    for (uint32_t rank = 0; rank < exchange.ranks(); ++rank)
      queues_.push_back(1 + below(kMostQueues));
    standing_.clear();
    for (const uint32_t queues : queues_)
      standing_.emplace_back(queues);
    plans_.resize(exchange.ranks());
    for (uint32_t i = 0; i < count; ++i) {
      const MessageName name = exchange.message(ends[i].first, ends[i].second, all[i]);
      const bool checked = percent(85);
      const bool soon = graphs_ && all[i].ready && ends[i].first < ends[i].second && percent(kStandingReady);
      for (const RequestName request : {name.send, name.receive}) {
        const uint32_t rank = exchange.rank_of(request);
        const bool gaps = request.receive() ? all[i].receive_gaps : all[i].send_gaps;
        plans_[rank].push_back({.request = request,
                                .message = name,
                                .ready = all[i].ready,
                                .checked = checked,
                                .gaps = gaps,
                                .soon = soon,
                                .may_stand = !gaps && (!all[i].ready || soon),
                                .queue = below(queues_[rank])});
      }
    }
    going_.assign(count, false);
  }

  // With tags of their own, where no wildcard takes them.
  void draw_unmatched(Exchange& exchange, uint32_t epochs) {
    constexpr int kTag = 100;
    unmatched_.clear();
    const auto& messages = exchange.messages();
    if (epochs < 2 || !percent(20) || std::any_of(messages.begin(), messages.end(), [](const Exchange::Message& each) {
          return each.options.any_source || each.options.any_tag;
        }))
      return;
    const uint32_t twins = draw_twins(exchange, epochs, kTag);
    const uint32_t count = 1 + below(3);
    for (uint32_t i = twins; i < twins + count; ++i) {
      const uint32_t from = below(exchange.ranks()), to = below(exchange.ranks());
      const MessageName name = exchange.message(from, to, {.bytes = 8, .tag = kTag + static_cast<int>(i)});
      const RequestName request = percent(70) ? name.send : name.receive;
      const uint32_t first = below(epochs - 1);
      unmatched_.push_back({.request = request,
                            .rank = exchange.rank_of(request),
                            .first = first,
                            .last = first + 1 + below(epochs - 1 - first)});
    }
  }
  // Two processes offer to a third, or to one of the two, sends that have the same number, and withdraw them one after
  // the other. The one that has had fewer requests first has receives that nobody matches. Returns how many tags from
  // `tag` on that takes.
  uint32_t draw_twins(Exchange& exchange, uint32_t epochs, int tag) {
    if (faulty_ || exchange.ranks() < 2 || percent(50))
      return 0;
    const uint32_t one = below(exchange.ranks()), other = (one + 1 + below(exchange.ranks() - 1)) % exchange.ranks();
    const uint32_t to = below(exchange.ranks());
    uint32_t tags = 0;
    const auto add = [&](uint32_t from, uint32_t target, bool send) {
      const MessageName name = exchange.message(from, target, {.bytes = 8, .tag = tag + static_cast<int>(tags++)});
      const uint32_t last = 1 + below(epochs - 1);
      unmatched_.push_back({send ? name.send : name.receive, send ? from : target, 0, last});
    };
    while (plans_[one].size() + count_unmatched(one) < plans_[other].size() + count_unmatched(other))
      add(other, one, false);
    while (plans_[other].size() + count_unmatched(other) < plans_[one].size() + count_unmatched(one))
      add(one, other, false);
    add(one, to, true);
    add(other, to, true);
    return tags;
  }
  size_t count_unmatched(uint32_t rank) const {
    return static_cast<size_t>(std::count_if(unmatched_.begin(), unmatched_.end(),
                                             [rank](const Unmatched& each) { return each.rank == rank; }));
  }
  void come_and_go(HostProgram& host, uint32_t rank, uint32_t epoch) const {
    for (const Unmatched& each : unmatched_) {
      if (each.rank == rank && each.first == epoch)
        host.match({each.request});
      if (each.rank == rank && each.last == epoch)
        host.withdraw({each.request});
    }
  }

  void draw_going(uint32_t epoch) {
    for (size_t i = 0; i < going_.size(); ++i)
      going_[i] = lives(i, epoch) && (graphs_ || percent(80));
    const uint32_t one = below(static_cast<uint32_t>(going_.size()));
    going_[one] = lives(one, epoch);
  }

  // Some messages are matched by the programs, the others before. Where something may fail, some are matched only when
  // others have gone and been freed, and may get what those had; none is matched twice, as nobody knows how far the
  // other side of what failed has come.
  void begin(Exchange& exchange, uint32_t epochs) {
    const std::vector<bool> own = choose(40);
    lives_.assign(going_.size(), {0, epochs});
    if (!faulty_)
      return match(exchange, own);
    for (size_t i = 0; i < own.size(); ++i) {
      if (own[i])
        lives_[i].first = below(epochs);
      if (percent(40))
        lives_[i].second = lives_[i].first + 1 + below(epochs);
    }
    own_ = own;
  }
  bool lives(size_t message, uint32_t epoch) const {
    return epoch >= lives_[message].first && epoch < lives_[message].second;
  }
  void bear_and_bury(Exchange& exchange, uint32_t epoch) {
    std::vector<bool> born(going_.size()), dead(going_.size());
    for (size_t i = 0; i < going_.size(); ++i) {
      born[i] = own_[i] && lives_[i].first == epoch;
      dead[i] = lives_[i].second == epoch;
    }
    free_all(exchange, dead);
    match(exchange, born);
  }

  std::vector<bool> choose(uint32_t chance) {
    std::vector<bool> chosen(going_.size());
    for (size_t i = 0; i < chosen.size(); ++i)
      chosen[i] = percent(chance);
    return chosen;
  }

  // In the order of the messages on both sides, as those with equal tags are matched in that order.
  void match(Exchange& exchange, const std::vector<bool>& chosen) {
    for (uint32_t rank = 0; rank < exchange.ranks(); ++rank) {
      std::vector<RequestName> requests;
      for (Plan& plan : plans_[rank]) {
        if (!chosen[plan.message.index])
          continue;
        requests.push_back(plan.request);
        plan.matching = true;
        plan.started = plan.gone = false;
      }
      if (requests.empty())
        continue;
      exchange.rank(rank).match(requests);
      if (percent(50))
        know_matched(exchange.rank(rank), rank, [](const Plan&) { return true; });
    }
  }

  template <typename Which>
  void know_matched(HostProgram& host, uint32_t rank, Which which) {
    std::vector<RequestName> requests;
    for (Plan& plan : plans_[rank])
      if (which(plan) && std::exchange(plan.matching, false))
        requests.push_back(plan.request);
    if (!requests.empty())
      host.matched(requests);
  }

  // Messages that have gone are freed on both sides and matched anew.
  void renew(Exchange& exchange) {
    if (!percent(35))
      return;
    std::vector<bool> chosen = choose(50);
    for (const std::vector<Plan>& plans : plans_)
      for (const Plan& plan : plans)
        if (!plan.started)
          chosen[plan.message.index] = false;
    free_all(exchange, chosen);
    match(exchange, chosen);
  }

  void free_all(Exchange& exchange, const std::vector<bool>& chosen) {
    for (uint32_t rank = 0; rank < exchange.ranks(); ++rank) {
      HostProgram& host = exchange.rank(rank);
      std::vector<RequestName> requests;
      know_matched(host, rank, [&](const Plan& plan) { return chosen[plan.message.index]; });
      for (Plan& plan : plans_[rank]) {
        if (!chosen[plan.message.index])
          continue;
        wait_for(host, plan);
        // Else the wait for what has failed does not pass, and what a graph has started has not completed.
        if (faulty_ || plan.standing)
          host.on(plan.queue).sync();
        if (std::exchange(plan.standing, false))
          end_standing(host, rank, plan.queue);
        plan.gone = true;
        requests.push_back(plan.request);
      }
      if (!requests.empty())
        host.free(requests);
    }
  }

  void wait_for(HostProgram& host, Plan& plan) {
    if (!std::exchange(plan.under_way, false))
      return;
    host.on(plan.queue).wait({plan.request});
    if (plan.checked && plan.request.receive())
      host.unpack(plan.message);
  }

  // Before its next start: perhaps on another queue.
  void roam(HostProgram& host, uint32_t rank, Plan& plan, bool* repeated) {
    const bool may = queues_[rank] > 1 && !faulty_ && !plan.standing && (!plan.checked || !plan.request.receive());
    if (!may || !percent(25))
      return;
    const uint32_t next = (plan.queue + 1 + below(queues_[rank] - 1)) % queues_[rank];
    if (plan.started && (plan.checked || percent(50)))
      host.complete({plan.request});
    else if (plan.started)
      *repeated = true;
    plan.queue = next;
  }

  void write_epoch(HostProgram& host, uint32_t rank) {
    // Ready sends come when their receives have been started; soon: before anything that stands is waited for.
    std::vector<Plan*> first, soon, later;
    bool repeated = false;
    know_matched(host, rank, [&](const Plan& plan) { return going_[plan.message.index]; });
    for (Plan& plan : plans_[rank]) {
      if (!going_[plan.message.index])
        continue;
      wait_for(host, plan);
      roam(host, rank, plan, &repeated);
      (!is_ready_send(plan) ? first : plan.soon ? soon : later).push_back(&plan);
    }
    shuffle(first);
    shuffle(soon);
    shuffle(later);
    const std::vector<std::vector<Plan*>> graphed = take_graphed(host, rank, first, soon);
    for (const Plan* plan : first)
      pack(host, *plan);
    start(host, rank, first, repeated);
    for (const Plan* plan : first)
      promise(host, *plan);
    start_ready(host, rank, soon, repeated);
    for (uint32_t queue = 0; queue < queues_[rank]; ++queue) {
      if (graphed[queue].empty())
        continue;
      for (const Plan* plan : graphed[queue])
        if (is_ready_send(*plan))
          host.on(queue).await(plan->message);
      launch(host.on(queue), standing_[rank][queue], graphed[queue]);
    }
    start_ready(host, rank, later, repeated);
    for (const std::vector<Plan*>* ready : {&soon, &later})
      first.insert(first.end(), ready->begin(), ready->end());
    wait(host, rank, first);
    if (percent(20))
      host.on(below(queues_[rank])).sync();
  }

  static bool is_ready_send(const Plan& plan) { return plan.ready && !plan.request.receive(); }
  static void promise(HostProgram& host, const Plan& plan) {
    if (plan.ready && plan.request.receive())
      host.on(plan.queue).promise(plan.message);
  }
  void start_ready(HostProgram& host, uint32_t rank, const std::vector<Plan*>& sends, bool repeated) {
    for (const Plan* plan : sends) {
      host.on(plan->queue).await(plan->message);
      pack(host, *plan);
    }
    start(host, rank, sends, repeated);
  }

  // Before some of it is freed, or goes by its host again. Its stream has run all. Graphs are not launched again; of
  // those that are not freed the next graph starts those that it has.
  void end_standing(HostProgram& host, uint32_t rank, uint32_t queue) {
    Standing& standing = standing_[rank][queue];
    if (standing.in_kernels && !standing.requests.empty())
      host.on(queue).dismiss(standing.requests);
    for (Plan& plan : plans_[rank])
      if (standing.in_kernels && plan.queue == queue)
        plan.standing = false;
    standing.requests.clear();
  }

  // Those that go by a graph or a kernel, by queue: who went by a graph does for ever. What a stream waits for there
  // must not wait for anything behind it in its stream: its ready sends are awaited before it, and its receives of such
  // are promised before it waits. Then who waits for a promise of what stands has a lower rank than who makes it, so
  // that these waits are no circle. Buffers with gaps are refused there. What is to stand must have completed.
  std::vector<std::vector<Plan*>> take_graphed(HostProgram& host, uint32_t rank, std::vector<Plan*>& first,
                                               std::vector<Plan*>& soon) {
    std::vector<std::vector<Plan*>> graphed(queues_[rank]);
    std::vector<bool> begins(queues_[rank]);
    for (uint32_t queue = 0; queue < queues_[rank]; ++queue) {
      Standing& standing = standing_[rank][queue];
      if (standing.in_kernels && !standing.requests.empty() && percent(25)) {
        if (!faulty_ && percent(50))
          host.on(queue).dismiss(standing.requests).refused();
        host.on(queue).sync();
        end_standing(host, rank, queue);
      }
      begins[queue] = graphs_ && standing.requests.empty() && percent(60);
      if (begins[queue])
        standing.in_kernels = percent(40) && !stands_any(rank, queue);
    }
    const auto take = [&](Plan* plan) {
      const bool goes = plan->standing || (begins[plan->queue] && plan->may_stand && percent(75));
      if (goes)
        graphed[plan->queue].push_back(plan);
      return goes;
    };
    std::erase_if(first, take);
    std::erase_if(soon, take);
    for (uint32_t queue = 0; queue < queues_[rank]; ++queue) {
      Standing& standing = standing_[rank][queue];
      if (!standing.in_kernels && percent(15))
        standing.requests.clear();
      std::vector<RequestName> requests;
      for (const Plan* plan : graphed[queue])
        if (plan->started && !plan->standing)
          requests.push_back(plan->request);
      if (standing.requests.empty() && !requests.empty())
        host.complete(requests);
    }
    return graphed;
  }
  bool stands_any(uint32_t rank, uint32_t queue) const {
    return std::any_of(plans_[rank].begin(), plans_[rank].end(),
                       [queue](const Plan& plan) { return plan.queue == queue && plan.standing; });
  }

  void launch(HostProgram& host, Standing& standing, const std::vector<Plan*>& plans) {
    if (standing.requests.empty()) {
      for (const Plan* plan : plans)
        standing.requests.push_back(plan->request);
      if (standing.in_kernels)
        host.stand(standing.requests);
      else
        capture(host, plans);
      for (Plan* plan : plans)
        plan->standing = plan->started = true;
      if (percent(20))
        host.start({standing.requests.front()}).refused();
    }
    if (standing.in_kernels)
      launch_kernels(host, standing, plans);
    else
      host.launch();
    if (percent(10))
      host.wait({standing.requests.front()}).refused();
  }

  void launch_kernels(HostProgram& host, const Standing& standing, const std::vector<Plan*>& plans) {
    for (const Plan* plan : plans)
      pack(host, *plan);
    host.kernel_start(standing.requests);
    for (const Plan* plan : plans)
      promise(host, *plan);
    host.kernel_wait(standing.requests);
    for (const Plan* plan : plans)
      if (plan->checked && plan->request.receive())
        host.unpack(plan->message);
  }

  void capture(HostProgram& host, std::vector<Plan*> plans) {
    std::vector<RequestName> requests;
    host.capture();
    for (const Plan* plan : plans) {
      pack(host, *plan);
      requests.push_back(plan->request);
    }
    if (percent(60))
      host.start(requests);
    else
      for (const RequestName request : requests)
        host.start({request});
    for (const Plan* plan : plans)
      promise(host, *plan);
    shuffle(plans);
    const bool together = percent(60);
    if (together)
      host.wait(requests);
    for (Plan* plan : plans) {
      plan->under_way = !together;
      wait_for(host, *plan);
      if (together && plan->checked && plan->request.receive())
        host.unpack(plan->message);
    }
    host.captured();
  }

  static void pack(HostProgram& host, const Plan& plan) {
    if (plan.checked && !plan.request.receive())
      host.on(plan.queue).pack(plan.message);
  }

  void start(HostProgram& host, uint32_t rank, const std::vector<Plan*>& plans, bool repeated) {
    const bool together = percent(60);
    const bool mistaken = !faulty_ && percent(15);
    for (uint32_t queue = 0; queue < queues_[rank]; ++queue) {
      std::vector<RequestName> requests;
      for (Plan* plan : plans) {
        if (plan->queue != queue)
          continue;
        plan->under_way = plan->started = true;
        requests.push_back(plan->request);
      }
      if (requests.empty())
        continue;
      host.on(queue);
      if (together) {
        host.start(requests);
        if (repeated)
          host.repeated();
      } else {
        for (const RequestName request : requests) {
          host.start({request});
          if (repeated)
            host.repeated();
        }
      }
      if (mistaken)
        host.start(requests).refused();
      if (mistaken && queues_[rank] > 1)
        host.on((queue + 1) % queues_[rank]).wait({requests.front()}).refused();
    }
  }

  // Of some now, of the others when they are needed again.
  void wait(HostProgram& host, uint32_t rank, const std::vector<Plan*>& plans) {
    const bool together = percent(60);
    for (uint32_t queue = 0; queue < queues_[rank]; ++queue) {
      std::vector<Plan*> now;
      for (Plan* plan : plans)
        if (plan->queue == queue && percent(75))
          now.push_back(plan);
      if (now.empty())
        continue;
      shuffle(now);
      if (!together) {
        for (Plan* plan : now)
          wait_for(host, *plan);
        continue;
      }
      std::vector<RequestName> requests;
      for (const Plan* plan : now)
        requests.push_back(plan->request);
      host.on(queue).wait(requests);
      for (Plan* plan : now) {
        plan->under_way = false;
        if (plan->checked && plan->request.receive())
          host.unpack(plan->message);
      }
      if (!faulty_ && percent(15))
        host.wait(requests).refused();
    }
  }

  void finish(HostProgram& host, uint32_t rank, bool frees) {
    know_matched(host, rank, [](const Plan&) { return true; });
    std::vector<RequestName> requests;
    for (Plan& plan : plans_[rank]) {
      wait_for(host, plan);
      if (!plan.gone)
        requests.push_back(plan.request);
    }
    if (frees && (faulty_ || graphs_))
      for (uint32_t queue = 0; queue < queues_[rank]; ++queue) {
        host.on(queue).sync();
        end_standing(host, rank, queue);
      }
    if (frees && !requests.empty())
      host.free(requests);
    for (uint32_t queue = 0; queue < queues_[rank]; ++queue)
      host.on(queue).sync();
  }

  Random random_;
  bool faulty_ = false;
  bool graphs_ = false;                   // and kernels: all messages go in every epoch, so that a graph may start any
  std::vector<uint32_t> queues_;          // by rank
  std::vector<std::vector<Plan>> plans_;  // by rank, in the order of messages
  std::vector<bool> going_;               // by message
  std::vector<Unmatched> unmatched_;
  std::vector<bool> own_;                             // by message: programs match it
  std::vector<std::vector<Standing>> standing_;       // by rank and queue
  std::vector<std::pair<uint32_t, uint32_t>> lives_;  // by message: the epochs in which it is there
};

}  // namespace

Config random_config(uint64_t seed) { return Generator(seed).draw(); }

}  // namespace lanyard::nicsim
