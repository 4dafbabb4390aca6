#include "nicsim/deterministic/config.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <vector>

namespace lanyard::nicsim {

namespace {

// An item that is a flag, or a number with words around it.
struct Item {
  const char* before;
  const char* after;
  uint64_t most;  // the largest number; 0: a flag
  std::function<void(Config&, uint64_t)> set;
  std::function<uint64_t(const Config&)> get;  // 0: not to be printed
};

const std::vector<Item>& items() {
  using C = Config;
  using N = uint64_t;
  static const std::vector<Item> all = {
      {"", "ranks", 1 << 20, [](C& c, N n) { c.halo.ranks = static_cast<uint32_t>(n); },
       [](const C& c) { return N{c.halo.ranks}; }},
      {"", "req-each-way", 1024,
       [](C& c, N n) {
         c.halo.each_way = static_cast<uint32_t>(n);
         c.halo.both_ways = true;
       },
       [](const C& c) { return c.halo.both_ways ? N{c.halo.each_way} : 0; }},
      {"", "req-one-way", 1024,
       [](C& c, N n) {
         c.halo.each_way = static_cast<uint32_t>(n);
         c.halo.both_ways = false;
       },
       [](const C& c) { return c.halo.both_ways ? 0 : N{c.halo.each_way}; }},
      {"", "iter", 1'000'000, [](C& c, N n) { c.halo.iterations = static_cast<uint32_t>(n); },
       [](const C& c) { return N{c.halo.iterations}; }},
      {"bytes=", "", 1 << 30, [](C& c, N n) { c.halo.bytes = static_cast<uint32_t>(n); },
       [](const C& c) { return c.halo.bytes == HaloOptions().bytes ? 0 : N{c.halo.bytes}; }},
      {"neighbours=", "", 1024, [](C& c, N n) { c.halo.neighbours = static_cast<uint32_t>(n); },
       [](const C& c) { return c.halo.neighbours == 1 ? 0 : N{c.halo.neighbours}; }},
      {"queues=", "", 64, [](C& c, N n) { c.halo.queues = static_cast<uint32_t>(n); },
       [](const C& c) { return c.halo.queues == 1 ? 0 : N{c.halo.queues}; }},
      {"ready", "", 0, [](C& c, N) { c.halo.ready = true; }, [](const C& c) { return N{c.halo.ready}; }},
      {"single-starts", "", 0, [](C& c, N) { c.halo.startall = false; }, [](const C& c) { return N{!c.halo.startall}; }},
      {"sends-first", "", 0, [](C& c, N) { c.halo.sends_first = true; },
       [](const C& c) { return N{c.halo.sends_first}; }},
      {"sync", "", 0, [](C& c, N) { c.halo.sync = true; }, [](const C& c) { return N{c.halo.sync}; }},
      {"roam", "", 0, [](C& c, N) { c.halo.roam = true; }, [](const C& c) { return N{c.halo.roam}; }},
      {"free", "", 0, [](C& c, N) { c.halo.free = true; }, [](const C& c) { return N{c.halo.free}; }},
      {"misuse", "", 0, [](C& c, N) { c.halo.misuse = true; }, [](const C& c) { return N{c.halo.misuse}; }},
      {"beyond", "", 0, [](C& c, N) { c.halo.beyond = true; }, [](const C& c) { return N{c.halo.beyond}; }},
      {"age=", "", nic::kMaxSuccess, [](C& c, N n) { c.world.age = n; }, [](const C& c) { return N{c.world.age}; }},
      {"depth=", "", 65'536, [](C& c, N n) { c.world.depth = static_cast<uint32_t>(n); },
       [](const C& c) { return N{c.world.depth}; }},
      {"no-overflow", "", 0, [](C& c, N) { c.world.overflow = false; }, [](const C& c) { return N{!c.world.overflow}; }},
      {"blocking-post", "", 0, [](C& c, N) { c.world.blocking_post = true; },
       [](const C& c) { return N{c.world.blocking_post}; }},
      {"in-order", "", 0, [](C& c, N) { c.world.in_order = true; }, [](const C& c) { return N{c.world.in_order}; }},
      {"max-message=", "", uint64_t{1} << 40, [](C& c, N n) { c.world.max_message_bytes = n; },
       [](const C& c) {
         return c.world.max_message_bytes == WorldOptions().max_message_bytes ? 0 : c.world.max_message_bytes;
       }},
      {"failures", "", 0, [](C& c, N) { c.world.failures = true; }, [](const C& c) { return N{c.world.failures}; }},
      {"lost-rings", "", 0, [](C& c, N) { c.world.lost_rings = true; }, [](const C& c) { return N{c.world.lost_rings}; }},
      {"no-room", "", 0, [](C& c, N) { c.world.no_room = true; }, [](const C& c) { return N{c.world.no_room}; }},
      {"stale-reads", "", 0, [](C& c, N) { c.world.stale_reads = true; },
       [](const C& c) { return N{c.world.stale_reads}; }},
  };
  return all;
}

// The number in `word` where it has the form of the item; 0 where it has not.
uint64_t number_in(const std::string& word, const Item& item) {
  if (item.most == 0)
    return word == item.before ? 1 : 0;
  const size_t before = std::strlen(item.before), after = std::strlen(item.after);
  if (word.size() <= before + after || !word.starts_with(item.before) || !word.ends_with(item.after))
    return 0;
  uint64_t number = 0;
  const char* last = word.data() + word.size() - after;
  const auto [end, error] = std::from_chars(word.data() + before, last, number);
  return error == std::errc() && end == last && number <= item.most ? number : 0;
}

}  // namespace

Result<Config> Config::parse(const std::string& text) {
  Config config;
  std::vector<const Item*> seen;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    const auto item = std::find_if(items().begin(), items().end(),
                                   [&](const Item& candidate) { return number_in(word, candidate) > 0; });
    if (item == items().end())
      return Status(Code::kInvalidArgument, "no configuration has '" + word + "' in it (see lanyard fuzz --help)");
    if (std::find(seen.begin(), seen.end(), &*item) != seen.end())
      return Status(Code::kInvalidArgument, "'" + word + "' stands in the configuration twice");
    seen.push_back(&*item);
    item->set(config, number_in(word, *item));
  }
  if (config.halo.ready && !config.halo.startall)
    return Status(Code::kInvalidArgument, "ready sends are started together, so 'single-starts' goes with regular ones only");
  if (config.halo.misuse && (config.halo.queues < 2 || !config.halo.startall || config.halo.ready))
    return Status(Code::kInvalidArgument, "'misuse' takes two queues or more, and goes with starts of all requests");
  if (config.halo.roam && (config.halo.misuse || !config.halo.startall || config.halo.ready))
    return Status(Code::kInvalidArgument, "'roam' goes with regular sends that are started together, and without 'misuse'");
  const uint64_t pieces = pieces_of(config.halo.bytes, config.world.max_message_bytes);
  const uint64_t oldest = nic::kMaxSuccess / std::max<uint64_t>(config.halo.ready ? 1 : 2, pieces) - config.halo.iterations;
  if (config.world.age > oldest)
    return Status(Code::kInvalidArgument, "no counter can count so many iterations: 'age' is at most " + std::to_string(oldest));
  if (config.halo.beyond && config.world.age != oldest)
    return Status(Code::kInvalidArgument, "'beyond' takes 'age=" + std::to_string(oldest) + "', from where no start more is possible");
  return config;
}

std::string Config::to_string() const {
  std::string text;
  for (const Item& item : items()) {
    const uint64_t number = item.get(*this);
    if (number == 0)
      continue;
    text += text.empty() ? "" : ",";
    text += item.before + (item.most == 0 ? "" : std::to_string(number)) + item.after;
  }
  return text;
}

}  // namespace lanyard::nicsim
