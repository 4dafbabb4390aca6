// Programs of messages that are long, many, or late.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/interleaving/pair.h"
#include "tests/interleaving/programs.h"

namespace lanyard::interleaving::programs {

using nic::CounterId;

// A region goes while long messages land there. What has not landed by then fails, and writes nothing any more.
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
  expect(memory == left, "a region is written to that has gone");
  const nic::CounterValue value = from.nic().read(from.ended()).value();
  expect(to.nic().read(counter).value().success == value.success, "a message counts at one end only");
  expect(from.nic().failures() == value.failure, "a failure is not counted");
  for (uint32_t i = 0; i < value.failure; ++i)
    expect(from.nic().take_failure().has_value(), "a failure has no record");
  to.close(counter);
  from.close();
  to.close();
}

// More is sent than the inbox at the other end, and this one for what comes back, have room for.
void full_inboxes() {
  Pair pair({.slots = 2});
  Side &from = pair[0], &to = pair[1];
  pair.set_off();
  Thread driver("driver", [&] { to.nic().progress(); });
  for (int i = 0; i < 5; ++i)
    from.issue_and_go(from.sum(to));
  driver.join();
  settle();
  expect(to.sums() == 5, "a message is left lying");
  from.expect_count(from.ended(), 5);
  to.expect_count(to.landed(), 5);
  pair.close();
}

// A message that takes more than one poll, copied by both ends, with a short one behind it. Threads drive now and then,
// or come out of their sleep, and then go elsewhere.
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
  expect(to.sums() == 1, "a message is left lying");
  from.expect_count(from.ended(), 2);
  to.expect_count(to.landed(), 2);
  expect(std::equal(from.memory() + 2, from.memory() + 2 + op.bytes / sizeof(uint64_t), to.memory() + 2),
         "a message is not what was sent");
  pair.close();
}

}  // namespace lanyard::interleaving::programs
