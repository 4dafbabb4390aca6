// Programs of threads that post, ring and ask, and of threads that take a lock.
#include <cstdint>
#include <vector>

#include "tests/interleaving/pair.h"
#include "tests/interleaving/programs.h"

namespace lanyard::interleaving::programs {

using nic::CounterId;
using nic::Doorbell;

// Two threads post, and ring for what they have posted; nobody waits on their NIC.
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
  expect(from.nic().free_entries() == from.nic().caps().deferred_depth, "an entry is not free again");
  pair.close();
}

// Two threads ring, and nobody else is there.
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
  expect(to.sums() == 1, "a ring is left lying");
  from.expect_count(trigger, 2);
  from.close(trigger);
  pair.close();
}

// More posts and rings than the ring of commands has room for, of threads that do nothing else.
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
  expect(to.sums() == 5, "a command is left lying");
  from.wait_for(from.ended(), 5);
  from.expect_count(trigger, 6);
  from.close(trigger);
  pair.close();
}

// An operation is posted by its name and released, where another thread may just be about to put a command in front.
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

// Work that is due at once, posted where nobody drives but the NIC's own thread, beside a thread that attends.
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

// A word is armed and rung that nobody looks at but the NIC's own thread, which may be about to sleep.
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

// The same, but that a thread attends while it arms the word, so that the NIC's own may sleep nevertheless.
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

// Entries are taken back beside rings that set them off.
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
  expect(ended.success <= 2 && ended.failure == 0, "an entry runs that was taken back");
  expect(to.sums() == ended.success, "an operation ran twice, or not at all");
  expect(from.nic().free_entries() == from.nic().caps().deferred_depth, "an entry is not free again");
  from.expect_count(trigger, 3);
  from.close(trigger);
  pair.close();
}

}  // namespace lanyard::interleaving::programs
