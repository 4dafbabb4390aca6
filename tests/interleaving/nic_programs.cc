// Programs of two NICs: threads post, ring and read counters; messages are long, many or late;
// threads wait, attend (poll themselves), listen and sleep.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/interleaving/pair.h"

namespace lanyard::interleaving::programs {

// ---- Posting

using nic::CounterId;
using nic::Doorbell;

// Two threads post and ring; no other thread waits on their NIC.
void posting() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId triggers[] = {from.counter(), from.counter()};
  pair.set_off();
  const auto poster = [&](CounterId trigger) {
    const Doorbell bell = from.bell(trigger);
    for (uint64_t i = 1; i <= 2; ++i) {
      from.post(from.sum(to), trigger, i);
      Side::ring(bell);
    }
  };
  Thread first("poster", [&] { poster(triggers[0]); });
  Thread second("other", [&] { poster(triggers[1]); });
  to.wait_until([&] { return to.sums() == 4; });
  first.join();
  second.join();
  from.wait_for(from.ended(), 4);
  from.expect_count(from.ended(), 4);
  to.expect_count(to.landed(), 4);
  for (const CounterId trigger : triggers) {
    from.expect_count(trigger, 2);
    from.close(trigger);
  }
  expect(from.nic().free_entries() == from.nic().caps().deferred_depth, "an entry is not free after its operation");
  pair.close();
}

// Two threads ring; no other thread drives.
void ringing() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId trigger = from.counter();
  const Doorbell bell = from.bell(trigger);
  from.post(from.sum(to), trigger, 2);
  pair.set_off();
  Thread other("other", [&] { Side::ring(bell); });
  Side::ring(bell);
  other.join();
  settle();
  expect(to.sums() == 1, "a ring has no effect");
  from.expect_count(trigger, 2);
  from.close(trigger);
  pair.close();
}

// More posts and rings than the command ring has room for, by threads that do nothing else.
void full_ring() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId trigger = from.counter();
  const Doorbell bell = from.bell(trigger);
  std::vector<nic::DeferredOp> all;
  for (uint64_t i = 3; i <= 6; ++i)
    all.push_back({.op = from.sum(to), .trigger = trigger, .threshold = i});
  pair.set_off();
  from.issue(from.sum(to));
  from.give([&] { return from.nic().post(all); });
  const auto ringer = [&] {
    for (int i = 0; i < 3; ++i)
      Side::ring(bell);
  };
  Thread first("ringer", ringer);
  Thread second("other", ringer);
  first.join();
  second.join();
  settle();
  expect(to.sums() == 5, "a command has no effect");
  from.wait_for(from.ended(), 5);
  from.expect_count(trigger, 6);
  from.close(trigger);
  pair.close();
}

// A named operation is posted and released while another thread is about to queue a
// command before it.
void releasing() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId rung = from.counter(), trigger = from.counter();
  const Doorbell bell = from.bell(rung);
  pair.set_off();
  Thread ringer("ringer", [&] {
    for (int i = 0; i < 2; ++i)
      Side::ring(bell);
  });
  Thread poster("poster", [&] {
    for (uint64_t i = 1; i <= 2; ++i) {
      const Result<nic::PreparedId> prepared = from.nic().prepare(from.sum(to));
      expect_ok(prepared.status());
      const nic::Posting posting{prepared.value(), trigger, 0, i};
      from.give([&] { return from.nic().post_prepared({&posting, 1}); });
      expect_ok(from.nic().release(prepared.value()));
    }
  });
  to.wait_until([&] { return to.sums() == 2; });
  ringer.join();
  poster.join();
  from.wait_for(from.ended(), 2);
  from.expect_count(rung, 2);
  from.close(rung);
  from.close(trigger);
  pair.close();
}

// Work is due when it is posted. Only the NIC's own thread drives, while another thread attends.
void due_when_posted() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId trigger = from.counter();
  pair.set_off();
  Thread attendant("attendant", [&] {
    from.nic().attend();
    from.nic().leave();
  });
  from.post(from.sum(to), trigger, 0);
  to.wait_until([&] { return to.sums() == 1; });
  attendant.join();
  from.issue(from.sum(to));
  to.wait_until([&] { return to.sums() == 2; });
  from.wait_for(from.ended(), 2);
  from.close(trigger);
  pair.close();
}

// A word is armed and rung. Only the NIC's own thread reads it, and it may be about to sleep.
void doorbell_words() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId trigger = from.counter();
  from.post(from.sum(to), trigger, 1);
  const uint64_t others = Scheduler::running()->one_in(2) ? 1 : 0;
  pair.set_off();
  Thread device("device", [&] { add_to_word(from.bell(trigger, nic::DoorbellKind::kAtomicAdd).word, 1); });
  if (others == 1)
    from.issue(from.sum(to));
  to.wait_until([&] { return to.sums() == 1 + others; });
  device.join();
  from.wait_for(from.ended(), 1 + others);
  from.expect_count(trigger, 1);
  from.close(trigger);
  pair.close();
}

// The same, but a thread attends while it arms the word. The NIC's own thread may still sleep.
void arming_while_attending() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId trigger = from.counter();
  from.post(from.sum(to), trigger, 1);
  pair.set_off();
  Thread device("device", [&] {
    from.nic().attend();
    uint64_t* word = from.bell(trigger, nic::DoorbellKind::kAtomicAdd).word;
    from.nic().progress();
    from.nic().progress();
    from.nic().leave();
    add_to_word(word, 1);
  });
  from.issue(from.sum(to));
  to.wait_until([&] { return to.sums() == 2; });
  device.join();
  from.wait_for(from.ended(), 2);
  from.close(trigger);
  pair.close();
}

// Entries are cancelled while rings trigger them.
void canceling() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId trigger = from.counter();
  for (uint64_t i = 1; i <= 3; ++i)
    from.post(from.sum(to), trigger, i);
  const Doorbell bell = from.bell(trigger);
  pair.set_off();
  Thread ringer("ringer", [&] {
    for (int i = 0; i < 2; ++i)
      Side::ring(bell);
  });
  Thread canceler("canceler", [&] { expect_ok(from.nic().cancel(trigger)); });
  Thread flusher("flusher", [&] { expect_ok(from.nic().flush()); });
  ringer.join();
  canceler.join();
  flusher.join();
  Side::ring(bell);
  settle();
  const nic::CounterValue ended = from.nic().read(from.ended()).value();
  expect(ended.success <= 2 && ended.failure == 0, "a cancelled entry ran");
  expect(to.sums() == ended.success, "an operation ran twice, or not at all");
  expect(from.nic().free_entries() == from.nic().caps().deferred_depth, "an entry is not free after its operation");
  from.expect_count(trigger, 3);
  from.close(trigger);
  pair.close();
}

// ---- Messages that are long, many, or late

// A region is deregistered while long messages arrive. A message not landed by then fails and
// writes nothing more.
void deregistering() {
  Pair pair({.bytes = 3 * 4096});
  Side &from = pair[0], &to = pair[1];
  std::vector<uint64_t> memory(from.write(to).bytes / sizeof(uint64_t));
  const CounterId counter = to.counter();
  const nic::RegionId region =
      to.nic().register_region(memory.data(), memory.size() * sizeof(uint64_t), counter).value();
  nic::Op op = from.write(to);
  op.remote = {to.rank(), to.nic().key(region).value(), 0};
  std::fill(from.memory() + 2, from.memory() + 2 + memory.size(), 7);
  std::vector<uint64_t> left;
  pair.set_off();
  Thread remover("remover", [&] {
    expect_ok(to.nic().deregister_region(region));
    left = memory;
  });
  from.issue(op);
  from.issue(op);
  from.wait_until([&] { return from.nic().read(from.ended()).value().reached() == 2; });
  remover.join();
  expect(memory == left, "a deregistered region was written");
  const nic::CounterValue value = from.nic().read(from.ended()).value();
  expect(to.nic().read(counter).value().success == value.success, "a message counts at one end only");
  expect(from.nic().failures() == value.failure, "failures() misses a failure");
  for (uint32_t i = 0; i < value.failure; ++i)
    expect(from.nic().take_failure().has_value(), "a failure has no record");
  to.close(counter);
  from.close();
  to.close();
}

// More messages than fit into the peer's inbox; the acknowledgements do not fit into ours either.
void full_inboxes() {
  Pair pair({.slots = 2});
  Side &from = pair[0], &to = pair[1];
  pair.set_off();
  Thread driver("driver", [&] { to.nic().progress(); });
  for (int i = 0; i < 5; ++i)
    from.issue_and_go(from.sum(to));
  driver.join();
  settle();
  expect(to.sums() == 5, "a message was not delivered");
  from.expect_count(from.ended(), 5);
  to.expect_count(to.landed(), 5);
  pair.close();
}

// A message that takes more than one poll, copied by both ends, with a short one behind it. The
// threads drive only now and then.
void long_messages() {
  Pair pair({.bytes = 40 * 1024});
  Side &from = pair[0], &to = pair[1];
  const nic::Op op = from.write(to);
  for (size_t i = 0; i < op.bytes / sizeof(uint64_t); ++i)
    from.memory()[2 + i] = i;
  pair.set_off();
  Thread sender("sender", [&] {
    from.issue_and_go(op);
    from.issue_and_go(from.sum(to));
  });
  Thread sleeper("sleeper", [&] { to.nic().wait_since(to.nic().activity(), kLongestNap); });
  to.nic().progress();
  to.nic().progress();
  sender.join();
  sleeper.join();
  settle();
  expect(to.sums() == 1, "a message was not delivered");
  from.expect_count(from.ended(), 2);
  to.expect_count(to.landed(), 2);
  expect(std::equal(from.memory() + 2, from.memory() + 2 + op.bytes / sizeof(uint64_t), to.memory() + 2),
         "a message differs from what was sent");
  pair.close();
}

// ---- Threads that wait, attend, listen and sleep

// The listener of a message's arrival drives nothing; a thread attends for some rounds at a time.
void listening() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const CounterId trigger = from.counter();
  const auto call = [](void* object) {
    Scheduler::running()->wake([object](const void* key) { return key == object; }, 1);
  };
  expect_ok(to.nic().listen(to.landed(), {.call = call, .object = &pair}));
  pair.set_off();
  Thread poster("poster", [&] {
    const Doorbell bell = from.bell(trigger);
    for (uint64_t i = 1; i <= 3; ++i) {
      from.post(from.sum(to), trigger, i);
      Side::ring(bell);
    }
  });
  Thread attendant("attendant", [&] { to.attend_until(2, [&] { return to.sums() >= 1; }); });
  while (to.sums() != 3)
    Scheduler::running()->sleep(&pair, std::nullopt, Where::here());
  poster.join();
  attendant.join();
  expect_ok(to.nic().listen(to.landed(), {}));
  from.wait_for(from.ended(), 3);
  to.expect_count(to.landed(), 3);
  from.close(trigger);
  pair.close();
}

// Two threads sleep on one NIC until operations of both NICs have landed.
void waiting() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  const auto wait = [&] { to.wait_until([&] { return to.sums() == 2; }); };
  pair.set_off();
  Thread first("waiter", wait);
  Thread second("other", wait);
  Thread third("third", [&] { to.issue_and_go(to.sum(to)); });
  from.issue_and_go(from.sum(to));
  first.join();
  second.join();
  third.join();
  from.wait_for(from.ended(), 1);
  to.wait_for(to.ended(), 1);
  pair.close();
}

// A thread that attends takes what arrives, or hands it over to the NIC's thread. Other
// threads drive once.
void handing_over() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  pair.set_off();
  Thread attendant("attendant", [&] {
    to.nic().attend();
    to.nic().leave();
  });
  Thread driver("driver", [&] { to.nic().progress(); });
  from.issue_and_go(from.sum(to));
  attendant.join();
  driver.join();
  settle();
  expect(to.sums() == 1, "a message was not delivered");
  from.expect_count(from.ended(), 1);
  pair.close();
}

// A thread leaves a command behind and goes to sleep; the command wakes it up.
void going_to_sleep() {
  Pair pair;
  Side &from = pair[0], &to = pair[1];
  pair.set_off();
  Thread driver("driver", [&] { from.nic().progress(); });
  from.issue(from.sum(to));
  while (true) {
    const uint64_t seen = from.nic().activity();
    if (to.sums() == 1)
      break;
    from.nic().wait_since(seen, kEver);
    from.nic().progress();
  }
  driver.join();
  settle();
  from.expect_count(from.ended(), 1);
  pair.close();
}

}  // namespace lanyard::interleaving::programs
