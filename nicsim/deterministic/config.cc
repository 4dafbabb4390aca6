#include "nicsim/deterministic/config.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nicsim/deterministic/mail.h"
#include "transport/core/plan.h"

namespace lanyard::nicsim {

namespace {

// The limits of a world: it is copied for every schedule, and must fit into its arena.
constexpr uint64_t kMostMessages = 100'000;
constexpr uint64_t kMostTransfers = 1'000'000;
constexpr uint64_t kMostBytes = uint64_t{1} << 28;
constexpr uint64_t kOldest = uint64_t{1} << 40;  // the largest 'age' at which every counter can still count on

// A flag, or a number with text before and after it.
struct Item {
  const char* before;
  const char* after;
  uint64_t least, most;  // of the number; both 0: a flag
  const char* meaning;
  bool of_halo;                                // a field of HaloOptions; else of WorldOptions
  std::function<void(Config&, uint64_t)> set;  // 0 sets a flag to its default
  std::function<uint64_t(const Config&)> get;

  bool flag() const { return most == 0; }
};

template <typename Part, typename AnyConfig>
auto& part_of(AnyConfig& config) {
  if constexpr (std::is_same_v<Part, HaloOptions>)
    return config.halo;
  else
    return config.world;
}

template <typename Part, typename Number>
Item number(const char* before, const char* after, Number Part::*field, uint64_t least, uint64_t most,
            const char* meaning) {
  Item item{before, after, least, most, meaning, std::is_same_v<Part, HaloOptions>, nullptr, nullptr};
  item.set = [=](Config& c, uint64_t n) { part_of<Part>(c).*field = static_cast<Number>(n); };
  item.get = [=](const Config& c) { return uint64_t{part_of<Part>(c).*field}; };
  return item;
}

// A flag that sets the field to `value`.
template <typename Part, typename Value>
Item word(const char* name, Value Part::*field, Value value, const char* meaning) {
  Item item{name, "", 0, 0, meaning, std::is_same_v<Part, HaloOptions>, nullptr, nullptr};
  item.set = [=](Config& c, uint64_t n) { part_of<Part>(c).*field = n != 0 ? value : Part().*field; };
  item.get = [=](const Config& c) { return uint64_t{part_of<Part>(c).*field == value}; };
  return item;
}
template <typename Part>
Item word(const char* name, bool Part::*field, const char* meaning) {
  return word(name, field, true, meaning);
}

// Messages between neighbours, both ways or one way.
Item requests(const char* after, bool both_ways, const char* meaning) {
  Item item = number("", after, &HaloOptions::each_way, 1, 1024, meaning);
  item.set = [=](Config& c, uint64_t n) {
    c.halo.each_way = static_cast<uint32_t>(n);
    c.halo.both_ways = both_ways;
  };
  item.get = [=](const Config& c) { return c.halo.both_ways == both_ways ? uint64_t{c.halo.each_way} : 0; };
  return item;
}

const std::vector<Item>& items() {
  using H = HaloOptions;
  using W = WorldOptions;
  static const std::vector<Item> all = {
      number("", "ranks", &H::ranks, 1, 16'384, "ranks; a single one sends to itself (2)"),
      requests("req-each-way", true, "messages from each rank to each neighbour and back (1)"),
      requests("req-one-way", false, "the same, and none back"),
      number("", "iter", &H::iterations, 1, 1'000'000, "iterations: pack, start, wait, unpack (2)"),
      number("bytes=", "", &H::bytes, 0, 1 << 30, "of a message (16)"),
      number("neighbours=", "", &H::neighbours, 1, 1024, "of rank r: r + 1 ... r + so many (1)"),
      number("queues=", "", &H::queues, 1, 64, "of each rank, its requests spread over them (1)"),
      word("ready", &H::ready, "ready sends; receivers promise that they have started"),
      word("single-starts", &H::startall, false, "a start and a wait for each request, not one for all"),
      word("sends-first", &H::sends_first, "sends are started before receives"),
      word("sync", &H::sync, "the host waits for its stream after every iteration"),
      word("free", &H::free, "requests are freed as soon as they have completed"),
      word("merged", &H::merged, "the requests of a rank are an exchange of the protocol's, with one set of counters"),
      word("two-sets", &H::two_sets, "... with two sets, each of as many requests, that are started in turn"),
      word("gaps", &H::gaps, "all buffers have gaps, and streams pack and unpack"),
      number("age=", "", &W::age, 0, kOldest, "iterations that the counters have behind them (0)"),
      number("depth=", "", &W::depth, 1, 65'536, "deferred-work entries of each NIC (enough for everything at once)"),
      number("in-flight=", "", &W::in_flight, 1, 65'536, "operations that a NIC has under way at most (enough)"),
      word("no-overflow", &W::overflow, false, "a start that finds too few entries is refused, or waits"),
      word("blocking-post", &W::blocking_post, "a post that finds no entry holds the host up in the midst of a start"),
      word("sender-flag", &W::strategy, core::Strategy::kSenderFlag,
           "strategy B: senders raise the receives' done words"),
      word("cxi-driver", &W::driver, "the driver for Slingshot stands between the protocol and the card"),
      word("mail-by-card", &W::mail_by_card,
           "the control channel runs, and cards carry its messages; else they are handed over"),
      word("early-acks", &W::early_acks,
           "an initiator that did not ask for delivery may hear of an operation before it lands"),
      word("torn", &W::torn, "a message may be read, and may land, in two steps"),
      word("register-bells", &W::bells, Bells::kRegisters, "streams ring by storing to registers, not by calls"),
      word("word-bells", &W::bells, Bells::kWords, "streams ring by adding to words that the NIC reads"),
      word("total-bells", &W::bells, Bells::kTotals, "... by storing the sum of all rings there"),
      number("max-message=", "", &W::max_message_bytes, 1, uint64_t{1} << 40,
             "bytes of one write; longer messages go in pieces (1048576)"),
      word("uneven", &W::uneven, "... and of odd ranks' cards half of that"),
      word("failures", &W::failures, "fault: an operation fails"),
      word("cut-mail", &W::cut_mail, "fault: the way between two cards fails, as mail goes over it"),
      word("lost-rings", &W::lost_rings, "fault that no NIC may have: a ring never lands"),
      word("no-room", &W::no_room, "fault: the NIC says that it has no entry though it has"),
      word("scarce", &W::scarce, "fault: the NIC has no counter or region left, and some when it is asked again"),
      word("stale-reads", &W::stale_reads, "fault: a counter is read as it was when last read"),
      word("frozen-reads", &W::frozen_reads,
           "fault: a counter is read as it was when last read, until nothing else moves"),
      word("late-events", &W::late_events,
           "fault: a driver reads of what has ended later than that its counter has counted it"),
      word("stolen-entries", &W::stolen_entries,
           "fault: another process takes entries of the NIC, and gives them back some time"),
      word("kills", &W::kills, "fault: the process of one rank dies, or of two of three or more"),
  };
  return all;
}

// Returns the number in `word` (1 for a flag), or nothing if `word` does not have the item's form.
std::optional<uint64_t> number_in(std::string_view word, const Item& item) {
  if (item.flag())
    return word == item.before ? std::optional<uint64_t>(1) : std::nullopt;
  if (!word.starts_with(item.before) || !word.ends_with(item.after))
    return std::nullopt;
  uint64_t number = 0;
  const char* last = word.data() + word.size() - std::strlen(item.after);
  const auto [end, error] = std::from_chars(word.data() + std::strlen(item.before), last, number);
  if (error != std::errc() || end != last || number < item.least || number > item.most)
    return std::nullopt;
  return number;
}

constinit const Config kPlain{};

constexpr std::string_view kProgram = "program=";

// Refuses items that do not go together, and configurations that are too large.
Status check(const Config& config) {
  const HaloOptions& halo = config.halo;
  const WorldOptions& world = config.world;
  const uint64_t messages =
      uint64_t{halo.ranks} * halo.neighbours * halo.each_way * (halo.both_ways ? 2 : 1) * (halo.two_sets ? 2 : 1);
  const uint64_t oldest = kOldest / core::pieces_of(halo.bytes, world.longest(0, 1));
  const std::pair<bool, std::string> rules[] = {
      {halo.ready && !halo.startall,
       "ready sends are started together, so 'single-starts' goes with regular ones only"},
      {messages > kMostMessages || messages * halo.iterations > kMostTransfers || messages * halo.bytes > kMostBytes,
       "the configuration is too large: up to " + std::to_string(messages) + " messages of " +
           std::to_string(halo.bytes) + " bytes, " + std::to_string(halo.iterations) + " times"},
      {(halo.merged || halo.two_sets) && (!halo.startall || halo.ready || halo.queues > 1),
       "'merged' and 'two-sets' take regular sends that are started together on one queue"},
      {config.program == nullptr && world.age > oldest,
       "no counter counts so many pieces: 'age' is at most " + std::to_string(oldest)},
      {world.late_events && !world.driver, "'late-events' takes a driver"},
      {world.driver && (world.blocking_post || world.in_flight > 0 || world.bells != Bells::kCalls),
       "a driver goes without 'blocking-post', 'in-flight' and other bells than host calls"},
      {world.driver && config.program != nullptr && config.program->stands(),
       "a driver goes without graphs and kernels: it cannot take entries back"},
      {world.cut_mail && !world.mail_by_card, "'cut-mail' takes 'mail-by-card'"},
      {world.cut_mail && !world.failures, "'cut-mail' takes 'failures'"},
      {world.mail_by_card && (world.driver || world.scarce || world.longest(0, 1) < CardMail::kLeastMessageBytes),
       "'mail-by-card' goes without a driver and 'scarce', and takes cards that write " +
           std::to_string(CardMail::kLeastMessageBytes) + " bytes or more at a time"},
  };
  for (const auto& [broken, why] : rules)
    if (broken)
      return {Code::kInvalidArgument, why};
  return {};
}

}  // namespace

Scenario Config::scenario() const { return program != nullptr ? *program : make_halo(halo); }

Result<Config> Config::parse(const std::string& text) {
  Config config;
  std::vector<const Item*> seen;
  for (const std::string_view word : split(text, ',')) {
    if (word.starts_with(kProgram)) {
      LANYARD_ASSIGN_OR_RETURN(Scenario program, Scenario::parse(std::string(word.substr(kProgram.size()))));
      config.program = std::make_shared<const Scenario>(std::move(program));
      continue;
    }
    const auto item =
        std::ranges::find_if(items(), [&](const Item& each) { return number_in(word, each).has_value(); });
    const std::string quoted = "'" + std::string(word) + "'";
    if (item == items().end())
      return Status(Code::kInvalidArgument, "no configuration has " + quoted + " in it (see lanyard fuzz --help)");
    if (std::ranges::find(seen, &*item) != seen.end())
      return Status(Code::kInvalidArgument, quoted + " stands in the configuration twice");
    seen.push_back(&*item);
    item->set(config, *number_in(word, *item));
  }
  if (config.program != nullptr && std::ranges::any_of(seen, &Item::of_halo))
    return Status(Code::kInvalidArgument,
                  "a program says itself what it does: beside it there are items for its world only");
  if (std::ranges::count_if(seen, [](const Item* item) { return std::string_view(item->before).ends_with("-bells"); }) >
      1)
    return Status(Code::kInvalidArgument, "'register-bells', 'word-bells' and 'total-bells' are three kinds of card");
  LANYARD_RETURN_IF_ERROR(check(config));
  return config;
}

std::string Config::to_string() const {
  std::string text = program != nullptr ? std::string(kProgram) + program->to_string() : "";
  for (const Item& item : items()) {
    // Ranks, requests and iterations always; other items if they differ from the default.
    const bool basic = *item.before == '\0';
    if ((program != nullptr && item.of_halo) || item.get(*this) == (basic ? 0 : item.get(kPlain)))
      continue;
    text += text.empty() ? "" : ",";
    text += item.before + (item.flag() ? "" : std::to_string(item.get(*this))) + item.after;
  }
  return text;
}

std::vector<Config> Config::simpler() const {
  constexpr uint32_t kEntriesAStart = 2;  // a smaller depth has no room for the start of a request
  std::vector<Config> all;
  const auto add = [&](const Config& candidate) {
    if (candidate.to_string() != to_string() && parse(candidate.to_string()).ok())
      all.push_back(candidate);
  };
  const auto add_with = [&](const Item& item, uint64_t value) {
    Config candidate = *this;
    item.set(candidate, value);
    add(candidate);
  };
  const auto is_size = [](const Item& item) { return item.of_halo && !item.flag() && item.least > 0; };
  for (const Item& item : items()) {
    const uint64_t value = item.get(*this);
    if (program != nullptr || !is_size(item) || value == 0)
      continue;
    // Not down to one rank: a rank that sends to itself is harder to read.
    const uint64_t least = std::string_view(item.after) == "ranks" ? std::min<uint64_t>(value, 2) : 1;
    add_with(item, least);
    add_with(item, std::max(least, value - 1));
  }
  Config one_way = *this;
  one_way.halo.both_ways = halo.ranks == 1;
  add(one_way);
  // Fewer entries; also with half the requests, so that entries stay scarce.
  for (const uint32_t depth : {world.depth / 2, world.depth - 1}) {
    Config fewer = *this;
    if (world.depth > kEntriesAStart)
      fewer.world.depth = std::max(depth, kEntriesAStart);
    add(fewer);
    fewer.halo.each_way = std::max(halo.each_way / 2, 1u);
    add(fewer);
  }
  for (const Item& item : items())
    if (const uint64_t plain = item.get(kPlain); !is_size(item) && item.get(*this) != plain)
      add_with(item, item.flag() ? 0 : plain);
  return all;
}

std::string Config::help() {
  constexpr size_t kColumn = 18;
  std::string text = "Configurations: items separated by commas, in any order; in brackets what holds without them.\n";
  for (const Item& item : items()) {
    std::string name = item.before + std::string(item.flag() ? "" : "N") + item.after;
    name.resize(std::max(kColumn, name.size() + 1), ' ');
    text += "  " + name + item.meaning + "\n";
  }
  return text + "  program=TEXT      in place of all items before 'age'. " + Scenario::help();
}

}  // namespace lanyard::nicsim
