// Programs of threads that wait, attend, listen and sleep.
#include <cstdint>
#include <optional>

#include "tests/interleaving/pair.h"
#include "tests/interleaving/programs.h"

namespace lanyard::interleaving::programs {

using nic::CounterId;
using nic::Doorbell;

// Who is told of messages drives nothing; a thread that attends comes and goes.
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

// Two threads sleep on one NIC for one thing, which takes an operation from either NIC.
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

// What comes while a thread attends is that thread's, or is handed over; others drive meanwhile, and go elsewhere.
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
  expect(to.sums() == 1, "what came is left lying");
  from.expect_count(from.ended(), 1);
  pair.close();
}

// Who leaves a command behind and goes to sleep wakes up for it.
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
