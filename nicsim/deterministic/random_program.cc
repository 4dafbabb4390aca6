#include "nicsim/deterministic/random_program.h"

#include <algorithm>
#include <utility>

namespace lanyard::nicsim {

namespace {

using Plans = std::vector<RequestPlan*>;

std::vector<RequestName> names_of(const Plans& plans) {
  std::vector<RequestName> names;
  for (const RequestPlan* plan : plans)
    names.push_back(plan->request);
  return names;
}

// The standing requests of a random program: graphs, or kernels with a set of requests, start them.
class RandomStanding {
 public:
  RandomStanding(Random& random, RandomMessages& messages, uint32_t ranks, bool faulty)
      : random_(random), messages_(messages), faulty_(faulty) {
    for (uint32_t rank = 0; rank < ranks; ++rank)
      standing_.emplace_back(messages.queues[rank]);
  }

  // Ends a queue's graph or kernel set. Call it before a request of it is freed or started by the
  // host, when the stream is empty. The next graph must start the old graph's other requests.
  void end(HostProgram& host, uint32_t rank, uint32_t queue) {
    Standing& standing = standing_[rank][queue];
    if (standing.in_kernels)
      host.on(queue).dismiss(standing.requests);
    for (RequestPlan& plan : messages_.plans[rank])
      if (standing.in_kernels && plan.queue == queue)
        plan.standing = false;
    standing.requests.clear();
  }

  // Moves the requests that stand in this epoch out of `first` and `soon`. Returns them by queue. A
  // graph's requests stand until they are freed. New ones complete first. Kernels take no gaps.
  // No deadlock: ready sends are awaited before the graph or kernel. Receives are promised before
  // it waits. The sender of a standing ready pair has the lower rank, so the waits form no circle.
  std::vector<Plans> take(HostProgram& host, uint32_t rank, Plans& first, Plans& soon) {
    const std::vector<bool> begins = draw_beginnings(host, rank);
    std::vector<Plans> taken(begins.size());
    const auto take = [&](RequestPlan* plan) {
      const bool may_stand = plan->may_stand && !(plan->gaps && standing_[rank][plan->queue].in_kernels);
      const bool goes = plan->standing || (begins[plan->queue] && may_stand && random_.percent(75));
      if (goes)
        taken[plan->queue].push_back(plan);
      return goes;
    };
    std::erase_if(first, take);
    std::erase_if(soon, take);
    for (uint32_t queue = 0; queue < taken.size(); ++queue) {
      Standing& standing = standing_[rank][queue];
      if (!standing.in_kernels && random_.percent(15))
        standing.requests.clear();
      std::vector<RequestName> requests;
      for (const RequestPlan* plan : taken[queue])
        if (plan->started && !plan->standing)
          requests.push_back(plan->request);
      if (standing.requests.empty())
        host.complete(requests);
    }
    return taken;
  }

  // Appends the start of and the wait for the requests that take() returned for the queue.
  void launch(HostProgram& host, uint32_t rank, uint32_t queue, const Plans& plans) {
    Standing& standing = standing_[rank][queue];
    host.on(queue);
    if (standing.requests.empty()) {
      standing.requests = names_of(plans);
      if (standing.in_kernels)
        host.stand(standing.requests);
      else
        capture(host, plans);
      for (RequestPlan* plan : plans)
        plan->standing = plan->started = true;
      if (random_.percent(20))
        host.start({standing.requests.front()}).refused();
    }
    if (standing.in_kernels) {
      for (const RequestPlan* plan : plans)
        plan->pack(host);
      host.kernel_start(standing.requests);
      for (const RequestPlan* plan : plans)
        plan->promise(host);
      host.kernel_wait(standing.requests);
      for (const RequestPlan* plan : plans)
        plan->unpack(host);
    } else {
      host.launch();
    }
    if (random_.percent(10))
      host.wait({standing.requests.front()}).refused();
  }

 private:
  // The last graph of a queue, or its kernel set.
  struct Standing {
    bool in_kernels = false;
    std::vector<RequestName> requests;  // empty: there is none
  };

  // May end kernel sets. Returns the queues on which a new graph or kernel set may begin.
  std::vector<bool> draw_beginnings(HostProgram& host, uint32_t rank) {
    std::vector<bool> begins(standing_[rank].size());
    for (uint32_t queue = 0; queue < begins.size(); ++queue) {
      Standing& standing = standing_[rank][queue];
      if (standing.in_kernels && !standing.requests.empty() && random_.percent(25)) {
        if (!faulty_ && random_.percent(50))
          host.on(queue).dismiss(standing.requests).refused();
        host.on(queue).sync();
        end(host, rank, queue);
      }
      begins[queue] = messages_.stands && standing.requests.empty() && random_.percent(60);
      if (begins[queue])
        standing.in_kernels =
            random_.percent(40) && std::ranges::none_of(messages_.plans[rank], [queue](const RequestPlan& plan) {
              return plan.queue == queue && plan.standing;
            });
    }
    return begins;
  }

  void capture(HostProgram& host, Plans plans) {
    const std::vector<RequestName> requests = names_of(plans);
    host.capture();
    for (const RequestPlan* plan : plans)
      plan->pack(host);
    if (random_.percent(60))
      host.start(requests);
    else
      for (const RequestName request : requests)
        host.start({request});
    for (const RequestPlan* plan : plans)
      plan->promise(host);
    random_.shuffle(plans);
    const bool together = random_.percent(60);
    if (together)
      host.wait(requests);
    for (RequestPlan* plan : plans) {
      plan->under_way = !together;
      plan->wait_for(host);
      if (together)
        plan->unpack(host);
    }
    host.captured();
  }

  Random& random_;
  RandomMessages& messages_;
  const bool faulty_;
  std::vector<std::vector<Standing>> standing_;  // by rank and queue
};

// Draws the host programs, epoch by epoch.
//
// No deadlock: every rank goes through the epochs in order, and makes all starts of an epoch before
// it blocks on one. So no wait needs a later epoch.
class RandomProgram {
 public:
  RandomProgram(Random& random, RandomMessages& messages, Scenario& scenario, bool faulty, bool roams)
      : random_(random),
        messages_(messages),
        scenario_(scenario),
        faulty_(faulty),
        roams_(roams),
        standing_(random, messages, scenario.ranks(), faulty) {}

  void draw(uint32_t epochs) {
    // Without faults, programs match at the beginning; else in the first epoch of each message.
    if (!faulty_)
      match(messages_.own);
    messages_.draw_idle(scenario_, epochs);
    for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
      if (faulty_)
        bear_and_bury(epoch);
      else if (epoch > 0)
        renew();
      messages_.draw_going(epoch);
      for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank) {
        come_and_go(scenario_.rank(rank), rank, epoch);
        append_traffic(scenario_.rank(rank), rank);
      }
    }
    // Wait for what is in flight, and perhaps free all.
    const bool frees = random_.percent(faulty_ ? 70 : 40);
    for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank)
      finish(scenario_.rank(rank), rank, frees);
  }

 private:
  // ---- Match and free

  // Matches messages in the same order on both sides, because equal tags are matched in order.
  void match(const std::vector<bool>& chosen) {
    for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank) {
      std::vector<RequestName> requests;
      for (RequestPlan& plan : messages_.plans[rank]) {
        if (!chosen[plan.message.index])
          continue;
        requests.push_back(plan.request);
        plan.matching = true;
        plan.started = plan.gone = false;
      }
      if (requests.empty())
        continue;
      HostProgram& host = scenario_.rank(rank);
      std::vector<RequestName> too_short;
      for (const ShortMessage& each : messages_.too_short)
        for (const RequestName request : {each.name.send, each.name.receive})
          if (chosen[each.beside] && scenario_.rank_of(request) == rank)
            too_short.push_back(request);
      // They are tried alone first, then again behind the messages beside them.
      if (!too_short.empty())
        host.match(too_short).matched(too_short).refused();
      requests.insert(requests.end(), too_short.begin(), too_short.end());
      host.match(requests);
      if (!too_short.empty())
        host.matched(too_short).refused().withdraw(too_short);
      if (random_.percent(50))
        know_matched(scenario_.rank(rank), rank, [](const RequestPlan&) { return true; });
    }
  }

  template <typename Which>
  void know_matched(HostProgram& host, uint32_t rank, Which which) {
    std::vector<RequestName> requests;
    for (RequestPlan& plan : messages_.plans[rank])
      if (which(plan) && std::exchange(plan.matching, false))
        requests.push_back(plan.request);
    host.matched(requests);
  }

  void bear_and_bury(uint32_t epoch) {
    std::vector<bool> born(messages_.count()), dead(messages_.count());
    for (size_t i = 0; i < messages_.count(); ++i) {
      born[i] = messages_.own[i] && messages_.lives[i].first == epoch;
      dead[i] = messages_.lives[i].second == epoch;
    }
    free_all(dead);
    match(born);
  }

  // May free messages that have gone, on both sides, and match them again.
  void renew() {
    if (!random_.percent(35))
      return;
    std::vector<bool> chosen = messages_.choose(50);
    for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank)
      for (const RequestPlan& plan : messages_.plans[rank])
        if (!plan.started)
          chosen[plan.message.index] = false;
    free_all(chosen);
    match(chosen);
  }

  void free_all(const std::vector<bool>& chosen) {
    for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank) {
      HostProgram& host = scenario_.rank(rank);
      std::vector<RequestName> requests;
      know_matched(host, rank, [&](const RequestPlan& plan) { return chosen[plan.message.index]; });
      for (RequestPlan& plan : messages_.plans[rank]) {
        if (!chosen[plan.message.index])
          continue;
        plan.wait_for(host);
        // Needed so that the wait of a failed request passes, and that a graph's start completes.
        if (faulty_ || plan.standing)
          host.on(plan.queue).sync();
        if (std::exchange(plan.standing, false))
          standing_.end(host, rank, plan.queue);
        plan.gone = true;
        requests.push_back(plan.request);
      }
      host.free(requests);
    }
  }

  void come_and_go(HostProgram& host, uint32_t rank, uint32_t epoch) const {
    for (const IdleRequest& each : messages_.idle) {
      if (each.rank == rank && each.first == epoch)
        host.match({each.request});
      if (each.rank == rank && each.last == epoch)
        host.withdraw({each.request});
    }
  }

  // ---- Start and wait

  // May move a request to another queue before its next start. Sets *repeated if that start may
  // come before the last one has completed.
  void roam(HostProgram& host, uint32_t rank, RequestPlan& plan, bool* repeated) {
    const uint32_t queues = messages_.queues[rank];
    const bool may = roams_ && queues > 1 && !plan.standing && (!plan.checked || !plan.request.receive());
    if (!may || !random_.percent(25))
      return;
    const uint32_t next = (plan.queue + 1 + random_.below(queues - 1)) % queues;
    // A start that failed never completes. kComplete then gives up, but a repeated start would not.
    if (plan.started && (plan.checked || faulty_ || random_.percent(50)))
      host.complete({plan.request});
    else if (plan.started)
      *repeated = true;
    plan.queue = next;
  }

  void append_traffic(HostProgram& host, uint32_t rank) {
    // Ready sends start after receives; `soon` ones before the waits for standing requests.
    Plans first, soon, later;
    bool repeated = false;
    know_matched(host, rank, [&](const RequestPlan& plan) { return messages_.going[plan.message.index]; });
    for (RequestPlan& plan : messages_.plans[rank]) {
      if (!messages_.going[plan.message.index])
        continue;
      plan.wait_for(host);
      roam(host, rank, plan, &repeated);
      (!plan.is_ready_send() ? first : plan.soon ? soon : later).push_back(&plan);
    }
    random_.shuffle(first);
    random_.shuffle(soon);
    random_.shuffle(later);
    const std::vector<Plans> standing = standing_.take(host, rank, first, soon);
    for (const RequestPlan* plan : first)
      plan->pack(host);
    start(host, rank, first, repeated);
    for (const RequestPlan* plan : first)
      plan->promise(host);
    start_ready(host, rank, soon, repeated);
    for (uint32_t queue = 0; queue < standing.size(); ++queue) {
      if (standing[queue].empty())
        continue;
      for (const RequestPlan* plan : standing[queue])
        if (plan->is_ready_send())
          host.on(queue).await(plan->message);
      standing_.launch(host, rank, queue, standing[queue]);
    }
    start_ready(host, rank, later, repeated);
    for (const Plans* ready : {&soon, &later})
      first.insert(first.end(), ready->begin(), ready->end());
    wait(host, rank, first);
    if (random_.percent(20))
      host.on(random_.below(messages_.queues[rank])).sync();
  }

  void start_ready(HostProgram& host, uint32_t rank, const Plans& sends, bool repeated) {
    for (const RequestPlan* plan : sends) {
      host.on(plan->queue).await(plan->message);
      plan->pack(host);
    }
    start(host, rank, sends, repeated);
  }

  void start(HostProgram& host, uint32_t rank, const Plans& plans, bool repeated) {
    const uint32_t queues = messages_.queues[rank];
    const bool together = random_.percent(60);
    const bool mistaken = !faulty_ && random_.percent(15);
    for (uint32_t queue = 0; queue < queues; ++queue) {
      std::vector<RequestName> requests;
      for (RequestPlan* plan : plans) {
        if (plan->queue != queue)
          continue;
        plan->under_way = plan->started = true;
        requests.push_back(plan->request);
      }
      if (requests.empty())
        continue;
      host.on(queue);
      const auto start = [&](const std::vector<RequestName>& some) {
        host.start(some);
        if (repeated)
          host.repeated();
      };
      if (together)
        start(requests);
      for (size_t i = 0; i < requests.size() && !together; ++i)
        start({requests[i]});
      if (mistaken)
        host.start(requests).refused();
      if (mistaken && queues > 1)
        host.on((queue + 1) % queues).wait({requests.front()}).refused();
    }
  }

  // Waits for some requests now. The others are waited for before their next use.
  void wait(HostProgram& host, uint32_t rank, const Plans& plans) {
    const bool together = random_.percent(60);
    for (uint32_t queue = 0; queue < messages_.queues[rank]; ++queue) {
      Plans now;
      for (RequestPlan* plan : plans)
        if (plan->queue == queue && random_.percent(75))
          now.push_back(plan);
      if (now.empty())
        continue;
      random_.shuffle(now);
      if (!together) {
        for (RequestPlan* plan : now)
          plan->wait_for(host);
        continue;
      }
      const std::vector<RequestName> requests = names_of(now);
      host.on(queue).wait(requests);
      for (RequestPlan* plan : now) {
        plan->under_way = false;
        plan->unpack(host);
      }
      if (!faulty_ && random_.percent(15))
        host.wait(requests).refused();
    }
  }

  void finish(HostProgram& host, uint32_t rank, bool frees) {
    know_matched(host, rank, [](const RequestPlan&) { return true; });
    std::vector<RequestName> requests;
    for (RequestPlan& plan : messages_.plans[rank]) {
      plan.wait_for(host);
      if (!plan.gone)
        requests.push_back(plan.request);
    }
    if (frees && (faulty_ || messages_.stands))
      for (uint32_t queue = 0; queue < messages_.queues[rank]; ++queue) {
        host.on(queue).sync();
        standing_.end(host, rank, queue);
      }
    if (frees)
      host.free(requests);
    for (uint32_t queue = 0; queue < messages_.queues[rank]; ++queue)
      host.on(queue).sync();
  }

  Random& random_;
  RandomMessages& messages_;
  Scenario& scenario_;
  const bool faulty_, roams_;
  RandomStanding standing_;
};

}  // namespace

void draw_program(Random& random, RandomMessages& messages, Scenario& scenario, uint32_t epochs, bool faulty,
                  bool roams) {
  RandomProgram(random, messages, scenario, faulty, roams).draw(epochs);
}

}  // namespace lanyard::nicsim
