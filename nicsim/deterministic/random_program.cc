#include "nicsim/deterministic/random_program.h"

#include <utility>

namespace lanyard::nicsim {

void RandomProgram::begin() {
  if (!faulty_)
    match(messages_.matched_by_programs());
}

void RandomProgram::append_epoch(uint32_t epoch) {
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

// ---- Matched, and freed

// In the order of the messages on both sides, as those with equal tags are matched in that order.
void RandomProgram::match(const std::vector<bool>& chosen) {
  for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank) {
    std::vector<RequestName> requests;
    for (RequestPlan& plan : messages_.plans(rank)) {
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
    for (const ShortMessage& each : messages_.too_short())
      for (const RequestName request : {each.name.send, each.name.receive})
        if (chosen[each.beside] && scenario_.rank_of(request) == rank)
          too_short.push_back(request);
    // Tried again, they come after those that they are matched beside.
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
void RandomProgram::know_matched(HostProgram& host, uint32_t rank, Which which) {
  std::vector<RequestName> requests;
  for (RequestPlan& plan : messages_.plans(rank))
    if (which(plan) && std::exchange(plan.matching, false))
      requests.push_back(plan.request);
  if (!requests.empty())
    host.matched(requests);
}

void RandomProgram::bear_and_bury(uint32_t epoch) {
  std::vector<bool> born(messages_.count()), dead(messages_.count());
  for (size_t i = 0; i < messages_.count(); ++i) {
    born[i] = messages_.is_matched_by_programs(i) && messages_.begins_in(i, epoch);
    dead[i] = messages_.ends_in(i, epoch);
  }
  free_all(dead);
  match(born);
}

// Messages that have gone are freed on both sides and matched anew.
void RandomProgram::renew() {
  if (!random_.percent(35))
    return;
  std::vector<bool> chosen = messages_.choose(50);
  for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank)
    for (const RequestPlan& plan : messages_.plans(rank))
      if (!plan.started)
        chosen[plan.message.index] = false;
  free_all(chosen);
  match(chosen);
}

void RandomProgram::free_all(const std::vector<bool>& chosen) {
  for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank) {
    HostProgram& host = scenario_.rank(rank);
    std::vector<RequestName> requests;
    know_matched(host, rank, [&](const RequestPlan& plan) { return chosen[plan.message.index]; });
    for (RequestPlan& plan : messages_.plans(rank)) {
      if (!chosen[plan.message.index])
        continue;
      plan.wait_for(host);
      // Else the wait for what has failed does not pass, and what a graph has started has not completed.
      if (faulty_ || plan.standing)
        host.on(plan.queue).sync();
      if (std::exchange(plan.standing, false))
        standing_.end(host, rank, plan.queue);
      plan.gone = true;
      requests.push_back(plan.request);
    }
    if (!requests.empty())
      host.free(requests);
  }
}

void RandomProgram::come_and_go(HostProgram& host, uint32_t rank, uint32_t epoch) const {
  for (const IdleRequest& each : messages_.idle()) {
    if (each.rank == rank && each.first == epoch)
      host.match({each.request});
    if (each.rank == rank && each.first == epoch && each.captured)
      host.matched({each.request}).capture().start({each.request}).captured().free({each.request});
    if (each.rank == rank && each.last == epoch)
      host.withdraw({each.request});
  }
}

// ---- Started, and waited for

// Before its next start: perhaps on another queue.
void RandomProgram::roam(HostProgram& host, uint32_t rank, RequestPlan& plan, bool* repeated) {
  const uint32_t queues = messages_.queues(rank);
  const bool may = roams_ && queues > 1 && !plan.standing && (!plan.checked || !plan.request.receive());
  if (!may || !random_.percent(25))
    return;
  const uint32_t next = (plan.queue + 1 + random_.below(queues - 1)) % queues;
  // What has failed never completes, and to repeat its start would never end.
  if (plan.started && (plan.checked || faulty_ || random_.percent(50)))
    host.complete({plan.request});
  else if (plan.started)
    *repeated = true;
  plan.queue = next;
}

void RandomProgram::append_traffic(HostProgram& host, uint32_t rank) {
  // Ready sends come when their receives have been started; soon: before anything that stands is waited for.
  std::vector<RequestPlan*> first, soon, later;
  bool repeated = false;
  know_matched(host, rank, [&](const RequestPlan& plan) { return messages_.goes(plan.message); });
  for (RequestPlan& plan : messages_.plans(rank)) {
    if (!messages_.goes(plan.message))
      continue;
    plan.wait_for(host);
    roam(host, rank, plan, &repeated);
    (!plan.is_ready_send() ? first : plan.soon ? soon : later).push_back(&plan);
  }
  random_.shuffle(first);
  random_.shuffle(soon);
  random_.shuffle(later);
  const std::vector<std::vector<RequestPlan*>> standing = standing_.take(host, rank, first, soon);
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
  for (const std::vector<RequestPlan*>* ready : {&soon, &later})
    first.insert(first.end(), ready->begin(), ready->end());
  wait(host, rank, first);
  if (random_.percent(20))
    host.on(random_.below(messages_.queues(rank))).sync();
}

void RandomProgram::start_ready(HostProgram& host, uint32_t rank, const std::vector<RequestPlan*>& sends,
                                bool repeated) {
  for (const RequestPlan* plan : sends) {
    host.on(plan->queue).await(plan->message);
    plan->pack(host);
  }
  start(host, rank, sends, repeated);
}

void RandomProgram::start(HostProgram& host, uint32_t rank, const std::vector<RequestPlan*>& plans, bool repeated) {
  const uint32_t queues = messages_.queues(rank);
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
    if (mistaken && queues > 1)
      host.on((queue + 1) % queues).wait({requests.front()}).refused();
  }
}

// Of some now, of the others when they are needed again.
void RandomProgram::wait(HostProgram& host, uint32_t rank, const std::vector<RequestPlan*>& plans) {
  const bool together = random_.percent(60);
  for (uint32_t queue = 0; queue < messages_.queues(rank); ++queue) {
    std::vector<RequestPlan*> now;
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
    std::vector<RequestName> requests;
    for (const RequestPlan* plan : now)
      requests.push_back(plan->request);
    host.on(queue).wait(requests);
    for (RequestPlan* plan : now) {
      plan->under_way = false;
      plan->unpack(host);
    }
    if (!faulty_ && random_.percent(15))
      host.wait(requests).refused();
  }
}

void RandomProgram::finish() {
  const bool frees = random_.percent(faulty_ ? 70 : 40);
  for (uint32_t rank = 0; rank < scenario_.ranks(); ++rank)
    finish(scenario_.rank(rank), rank, frees);
}

void RandomProgram::finish(HostProgram& host, uint32_t rank, bool frees) {
  know_matched(host, rank, [](const RequestPlan&) { return true; });
  std::vector<RequestName> requests;
  for (RequestPlan& plan : messages_.plans(rank)) {
    plan.wait_for(host);
    if (!plan.gone)
      requests.push_back(plan.request);
  }
  if (frees && (faulty_ || messages_.stands()))
    for (uint32_t queue = 0; queue < messages_.queues(rank); ++queue) {
      host.on(queue).sync();
      standing_.end(host, rank, queue);
    }
  if (frees && !requests.empty())
    host.free(requests);
  for (uint32_t queue = 0; queue < messages_.queues(rank); ++queue)
    host.on(queue).sync();
}

}  // namespace lanyard::nicsim
