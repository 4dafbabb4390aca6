// Counters by libfabric's own calls.
#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kRead[] = "cxip_cntr.c: cxip_cntr_read()";
constexpr char kWait[] = "cxip_cntr.c: cxip_cntr_wait()";
constexpr char kAttributes[] = "cxip_cntr.c: cxip_cntr_verify_attr()";
constexpr char kClose[] = "cxip_cntr.c: cxip_cntr_close()";

fi_cntr_attr attributes_of(fi_wait_obj wait) {
  fi_cntr_attr attributes = {};
  attributes.events = FI_CNTR_EVENTS_COMP;
  attributes.wait_obj = wait;
  return attributes;
}

int opening(Node& node, fi_cntr_attr attributes) {
  fid_cntr* counter = nullptr;
  const int code = fi_cntr_open(node.domain.get(), &attributes, &counter, nullptr);
  if (code == 0)
    node.trial.code("closing it", fi_close(&counter->fid), 0);
  return code;
}

void starts_at_zero(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.value("success", successes(counter), 0);
  t.value("failure", failures(counter), 0);
}

void adds(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("adding 3", fi_cntr_add(counter.get(), 3), 0);
  t.code("adding 39", fi_cntr_add(counter.get(), 39), 0);
  counts(t, "success", counter, 42);
  t.value("failure", failures(counter), 0);
}

void add_range(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("2^48", fi_cntr_add(counter.get(), kMaxSuccess + 1), -FI_EINVAL);
  t.code("2^48 - 1", fi_cntr_add(counter.get(), kMaxSuccess), 0);
  counts(t, "success", counter, kMaxSuccess);
}

void sets(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("setting 7", fi_cntr_set(counter.get(), 7), 0);
  counts(t, "success", counter, 7);
  t.code("setting 2", fi_cntr_set(counter.get(), 2), 0);
  counts(t, "success after it", counter, 2);
  t.code("setting 0", fi_cntr_set(counter.get(), 0), 0);
  counts(t, "success in the end", counter, 0);
}

void set_range(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("2^48", fi_cntr_set(counter.get(), kMaxSuccess + 1), -FI_EINVAL);
  t.code("2^48 - 1", fi_cntr_set(counter.get(), kMaxSuccess), 0);
  counts(t, "success", counter, kMaxSuccess);
}

void add_errors(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("adding 5 failures", fi_cntr_adderr(counter.get(), 5), 0);
  t.soon("5 failures", [&] { return failures(counter) == 5; });
  t.value("success", successes(counter), 0);
}

void add_error_range(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("128", fi_cntr_adderr(counter.get(), kMaxFailure + 1), -FI_EINVAL);
  t.code("127", fi_cntr_adderr(counter.get(), kMaxFailure), 0);
  t.soon("127 failures", [&] { return failures(counter) == kMaxFailure; });
}

void set_errors(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("128", fi_cntr_seterr(counter.get(), kMaxFailure + 1), -FI_EINVAL);
  t.code("9", fi_cntr_seterr(counter.get(), 9), 0);
  t.soon("9 failures", [&] { return failures(counter) == 9; });
  t.code("0", fi_cntr_seterr(counter.get(), 0), 0);
  t.soon("no failure", [&] { return failures(counter) == 0; });
}

void halves_are_apart(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.need("adding", fi_cntr_add(counter.get(), 4));
  t.need("failing", fi_cntr_adderr(counter.get(), 2));
  t.need("setting", fi_cntr_set(counter.get(), 11));
  counts(t, "success", counter, 11);
  t.value("failures stay", failures(counter), 2);
  t.need("setting failures", fi_cntr_seterr(counter.get(), 0));
  t.soon("no failure", [&] { return failures(counter) == 0; });
  t.value("success stays", successes(counter), 11);
}

void reads_fresh(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  if (!t.is_2x()) {
    t.need("adding", fi_cntr_add(counter.get(), 1));
    t.soon("reading again and again sees it", [&] { return fi_cntr_read(counter.get()) == 1; });
    return;
  }
  for (uint64_t i = 1; i <= 100; ++i) {
    t.need("adding", fi_cntr_add(counter.get(), 1));
    if (fi_cntr_read(counter.get()) != i)
      return t.holds("the first read after an addition sees it", false);
  }
  t.holds("the first read after an addition sees it, 100 times", true);
}

void no_attributes(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.need("adding", fi_cntr_add(counter.get(), 1));
  t.code("waiting on one without attributes", fi_cntr_wait(counter.get(), 1, 1000), 0);
}

void wait_objects(Trial& t) {
  Node node(t);
  for (const auto& [name, object, expected] :
       {std::tuple("FI_WAIT_NONE", FI_WAIT_NONE, 0), std::tuple("FI_WAIT_UNSPEC", FI_WAIT_UNSPEC, 0),
        std::tuple("FI_WAIT_YIELD", FI_WAIT_YIELD, 0), std::tuple("FI_WAIT_FD", FI_WAIT_FD, -FI_ENOSYS),
        std::tuple("FI_WAIT_SET", FI_WAIT_SET, -FI_ENOSYS)})
    t.code(name, opening(node, attributes_of(object)), expected);
}

void wait_none(Trial& t) {
  Node node(t);
  fi_cntr_attr attributes = attributes_of(FI_WAIT_NONE);
  const auto counter = node.counter(&attributes);
  t.code("waiting", fi_cntr_wait(counter.get(), 0, 0), -FI_EINVAL);
}

void other_events(Trial& t) {
  Node node(t);
  fi_cntr_attr attributes = attributes_of(FI_WAIT_UNSPEC);
  attributes.events = static_cast<fi_cntr_events>(2);
  t.code("events 2", opening(node, attributes), -FI_ENOSYS);
}

void byte_events(Trial& t) {
  Node node(t);
  fi_cntr_attr attributes = attributes_of(FI_WAIT_UNSPEC);
  attributes.events = static_cast<fi_cntr_events>(1);
  t.code("FI_CXI_CNTR_EVENTS_BYTES", opening(node, attributes), 0);
}

void flags(Trial& t) {
  Node node(t);
  fi_cntr_attr attributes = attributes_of(FI_WAIT_UNSPEC);
  attributes.flags = 1;
  t.code("flag 1", opening(node, attributes), -FI_ENOSYS);
  attributes.flags = kCounterCached;
  t.code("FI_CXI_CNTR_CACHED", opening(node, attributes), t.is_2x() ? 0 : -FI_ENOSYS);
}

void wait_met(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.need("adding", fi_cntr_add(counter.get(), 5));
  t.code("for 5 of 5", fi_cntr_wait(counter.get(), 5, 1000), 0);
  t.code("for 3 of 5", fi_cntr_wait(counter.get(), 3, 1000), 0);
}

void wait_comes(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fi_cntr_add(counter.get(), 1);
  });
  t.code("until another thread adds", fi_cntr_wait(counter.get(), 1, 5000), 0);
  other.join();
}

void wait_time_out(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("10 ms", fi_cntr_wait(counter.get(), 1, 10), -FI_ETIMEDOUT);
}

void wait_range(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  t.code("for 2^48", fi_cntr_wait(counter.get(), kMaxSuccess + 1, 0), -FI_EINVAL);
}

void wait_error(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    fi_cntr_adderr(counter.get(), 1);
  });
  t.code("until a failure comes", fi_cntr_wait(counter.get(), 1, 5000), -FI_EAVAIL);
  other.join();
}

void closes_after_time_out(Trial& t) {
  Node node(t);
  auto counter = node.counter();
  t.need("waiting", fi_cntr_wait(counter.get(), 1, 1), -FI_ETIMEDOUT);
  t.code("closing it", fi_close(&counter.release()->fid), 0);
}

void busy_with_region(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  const auto counter = node.counter();
  auto region = node.region(&word, sizeof word, counter.get());
  t.code("closing the counter", fi_close(&counter->fid), -FI_EBUSY);
}

void closes_with_work(Trial& t) {
  Node node(t);
  auto trigger = node.counter();
  const auto target = node.counter();
  t.need("queueing", defer_counter(node, FI_OP_CNTR_ADD, target.get(), 1, {trigger.get(), 5}));
  t.code("closing it", fi_close(&trigger.release()->fid), 0);
  t.value("the work has not fired", successes(target), 0);
}

void remote_write_ignored(Trial& t) {
  Node node(t);
  auto counter = node.counter();
  t.code("fi_ep_bind() with FI_REMOTE_WRITE", fi_ep_bind(node.ep.get(), &counter->fid, FI_REMOTE_WRITE), 0);
  uint64_t from = 1, to = 0;
  auto region = node.region(&to, sizeof to);
  t.need("fi_writemsg()", node.write(&from, 8, node.here(region), FI_COMPLETION | FI_DELIVERY_COMPLETE));
  node.next_entry("the write");
  region.reset();
  t.never("count at the endpoint's counter", [&] { return fi_cntr_read(counter.get()) != 0; });
  // The endpoint stays in the counter's list on the real card: nothing of it is closed.
  static_cast<void>(counter.release());
  static_cast<void>(node.ep.release());
  static_cast<void>(node.cq.release());
  static_cast<void>(node.av.release());
  static_cast<void>(node.domain.release());
  static_cast<void>(node.fabric.release());
}

void counter_control(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  int fd = 0;
  uint64_t flags = 1;
  t.code("FI_GETWAIT", fi_control(&counter->fid, FI_GETWAIT, &fd), -FI_EINVAL);
  t.code("FI_GETOPSFLAG", fi_control(&counter->fid, FI_GETOPSFLAG, &flags), 0);
  t.value("its flags", flags, 0);
  t.code("FI_GETFIDFLAG", fi_control(&counter->fid, FI_GETFIDFLAG, &flags), -FI_EINVAL);
}

void adds_from_threads(Trial& t) {
  Node node(t);
  const auto counter = node.counter();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 1000; ++n)
        fi_cntr_add(counter.get(), 1);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  counts(t, "success of 4 threads, 1000 each", counter, 4000);
}

}  // namespace

Group counter_rules() {
  return {
      "counters",
      {
          {"CounterStartsAtZero", "A new counter is 0 successes, 0 failures.", "cxip_cntr.c: cxip_cntr_enable()", kAll,
           starts_at_zero},
          {"CounterAdds", "Additions add up.", "cxip_cntr.c: cxip_cntr_add()", kAll, adds},
          {"CounterAddRange", "2^48 - 1 is the most that can be added.", "cxip_cntr.c: cxip_cntr_add()", kAll,
           add_range},
          {"CounterSets", "Setting replaces, also downwards and by 0.", "cxip_cntr.c: cxip_cntr_mod()", kAll, sets},
          {"CounterSetRange", "2^48 - 1 is the most that can be set.", "cxip_cntr.c: cxip_cntr_set()", kAll, set_range},
          {"CounterAddsErrors", "Failures are counted apart.", "cxip_cntr.c: cxip_cntr_adderr()", kAll, add_errors},
          {"CounterAddErrorRange", "127 is the most failures that can be added.", "cxip_cntr.c: cxip_cntr_adderr()",
           kAll, add_error_range},
          {"CounterSetsErrors", "Failures are set up to 127, and to 0.", "cxip_cntr.c: cxip_cntr_seterr()", kAll,
           set_errors},
          {"CounterHalves", "Setting successes leaves the failures, and the other way round.",
           "cxip_cntr.c: cxip_cntr_mod()", kAll, halves_are_apart},
          {"CounterReadsFresh", "From 2.0 on a read waits for the newest value; before, reads converge to it.", kRead,
           "asynchronous to 1.22, waits from 2.0", reads_fresh},
          {"CounterNoAttributes", "A counter without attributes can be waited on.", "cxip_cntr.c: cxip_cntr_attr", kAll,
           no_attributes},
          {"CounterWaitObjects", "Wait objects are none, unspecified or yield.", kAttributes, kAll, wait_objects},
          {"CounterWaitNone", "A counter with FI_WAIT_NONE cannot be waited on.", kWait, kAll, wait_none},
          {"CounterEvents", "Counters of unknown events are -FI_ENOSYS.", kAttributes, kAll, other_events},
          {"CounterBytes", "Counters of bytes are offered.", kAttributes, kAll, byte_events},
          {"CounterFlags", "Flags are -FI_ENOSYS, but for FI_CXI_CNTR_CACHED from 2.0 on.", kAttributes,
           "none to 1.22, one from 2.0", flags},
          {"CounterWaitMet", "A threshold that is met ends a wait at once.", kWait, kAll, wait_met},
          {"CounterWaitComes", "A wait ends when the threshold is met.", kWait, kAll, wait_comes},
          {"CounterWaitTimeOut", "A wait ends after its time with -FI_ETIMEDOUT.", kWait, kAll, wait_time_out},
          {"CounterWaitRange", "Thresholds go to 2^48 - 1.", kWait, kAll, wait_range},
          {"CounterWaitError", "A failure that comes during a wait ends it with -FI_EAVAIL.", kWait, kAll, wait_error},
          {"CounterClosesAfterTimeOut", "A counter closes though a wait for it has timed out.", kClose, kAll,
           closes_after_time_out},
          {"CounterBusy", "A counter does not close while it counts for a region.", kClose, kAll, busy_with_region},
          {"CounterClosesWithWork", "A counter closes though work waits for it.", kClose, kAll, closes_with_work},
          {"CounterRemoteIgnored", "Bound to an endpoint with FI_REMOTE_WRITE, a counter never counts.",
           "cxip_ep.c: cxip_ep_bind_cntr()", kAll, remote_write_ignored},
          {"CounterControl", "A counter tells its flags and has nothing to wait on.",
           "cxip_cntr.c: cxip_cntr_control()", kAll, counter_control},
          {"CounterThreads", "Additions of several threads are all counted.", "fi_cxi(7), Multi-threading", kAll,
           adds_from_threads},
      }};
}

}  // namespace lanyard::cxi_rules
