#include "nicsim/deterministic/random_standing.h"

#include <algorithm>
#include <utility>

namespace lanyard::nicsim {

RandomStanding::RandomStanding(Random& random, RandomMessages& messages, uint32_t ranks, bool faulty)
    : random_(random), messages_(messages), faulty_(faulty) {
  for (uint32_t rank = 0; rank < ranks; ++rank)
    standing_.emplace_back(messages.queues(rank));
}

void RandomStanding::end(HostProgram& host, uint32_t rank, uint32_t queue) {
  Standing& standing = standing_[rank][queue];
  if (standing.in_kernels && !standing.requests.empty())
    host.on(queue).dismiss(standing.requests);
  for (RequestPlan& plan : messages_.plans(rank))
    if (standing.in_kernels && plan.queue == queue)
      plan.standing = false;
  standing.requests.clear();
}

// On which queues something begins to stand in this epoch, once what stood there in sets has perhaps ended.
std::vector<bool> RandomStanding::draw_beginnings(HostProgram& host, uint32_t rank) {
  std::vector<bool> begins(standing_[rank].size());
  for (uint32_t queue = 0; queue < begins.size(); ++queue) {
    Standing& standing = standing_[rank][queue];
    if (standing.in_kernels && !standing.requests.empty() && random_.percent(25)) {
      if (!faulty_ && random_.percent(50))
        host.on(queue).dismiss(standing.requests).refused();
      host.on(queue).sync();
      end(host, rank, queue);
    }
    begins[queue] = messages_.stands() && standing.requests.empty() && random_.percent(60);
    if (begins[queue])
      standing.in_kernels = random_.percent(40) && !stands_any(rank, queue);
  }
  return begins;
}

std::vector<std::vector<RequestPlan*>> RandomStanding::take(HostProgram& host, uint32_t rank,
                                                            std::vector<RequestPlan*>& first,
                                                            std::vector<RequestPlan*>& soon) {
  const std::vector<bool> begins = draw_beginnings(host, rank);
  std::vector<std::vector<RequestPlan*>> taken(begins.size());
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
    if (standing.requests.empty() && !requests.empty())
      host.complete(requests);
  }
  return taken;
}

bool RandomStanding::stands_any(uint32_t rank, uint32_t queue) {
  const std::vector<RequestPlan>& plans = messages_.plans(rank);
  return std::any_of(plans.begin(), plans.end(),
                     [queue](const RequestPlan& plan) { return plan.queue == queue && plan.standing; });
}

void RandomStanding::launch(HostProgram& host, uint32_t rank, uint32_t queue, const std::vector<RequestPlan*>& plans) {
  Standing& standing = standing_[rank][queue];
  host.on(queue);
  if (standing.requests.empty()) {
    for (const RequestPlan* plan : plans)
      standing.requests.push_back(plan->request);
    if (standing.in_kernels)
      host.stand(standing.requests);
    else
      capture(host, plans);
    for (RequestPlan* plan : plans)
      plan->standing = plan->started = true;
    if (random_.percent(20))
      host.start({standing.requests.front()}).refused();
  }
  if (standing.in_kernels)
    launch_kernels(host, standing, plans);
  else
    host.launch();
  if (random_.percent(10))
    host.wait({standing.requests.front()}).refused();
}

void RandomStanding::launch_kernels(HostProgram& host, const Standing& standing,
                                    const std::vector<RequestPlan*>& plans) {
  for (const RequestPlan* plan : plans)
    plan->pack(host);
  host.kernel_start(standing.requests);
  for (const RequestPlan* plan : plans)
    plan->promise(host);
  host.kernel_wait(standing.requests);
  for (const RequestPlan* plan : plans)
    plan->unpack(host);
}

void RandomStanding::capture(HostProgram& host, std::vector<RequestPlan*> plans) {
  std::vector<RequestName> requests;
  host.capture();
  for (const RequestPlan* plan : plans) {
    plan->pack(host);
    requests.push_back(plan->request);
  }
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

}  // namespace lanyard::nicsim
