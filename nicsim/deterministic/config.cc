#include "nicsim/deterministic/config.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "nicsim/deterministic/card_mail.h"
#include "transport/core/plan.h"

namespace lanyard::nicsim {

namespace {

// What the triggers of a card or a driver count before the first iteration.
uint64_t trigger_base(const WorldOptions& world) {
  nic::Caps caps;
  caps.cancel = !world.driver;
  return core::trigger_base(caps);
}

// A world is copied for every schedule, and lives in an arena of a certain size.
constexpr uint64_t kMostMessages = 100'000;
constexpr uint64_t kMostTransfers = 1'000'000;
constexpr uint64_t kMostBytes = uint64_t{1} << 28;
constexpr uint64_t kOldest = uint64_t{1} << 40;  // the 'age' from which every counter can count on

// An item that is a flag, or a number with words around it.
struct Item {
  const char* before;
  const char* after;
  uint64_t least, most;  // of the number; both 0: a flag
  const char* meaning;
  std::function<void(Config&, uint64_t)> set;
  std::function<uint64_t(const Config&)> get;

  bool flag() const { return most == 0; }
};

const std::vector<Item>& items() {
  using C = Config;
  using N = uint64_t;
  static const std::vector<Item> all = {
      {"", "ranks", 1, 16'384, "ranks; a single one sends to itself (2)",
       [](C& c, N n) { c.halo.ranks = static_cast<uint32_t>(n); }, [](const C& c) { return N{c.halo.ranks}; }},
      {"", "req-each-way", 1, 1024, "messages from each rank to each neighbour and back (1)",
       [](C& c, N n) {
         c.halo.each_way = static_cast<uint32_t>(n);
         c.halo.both_ways = true;
       },
       [](const C& c) { return c.halo.both_ways ? N{c.halo.each_way} : 0; }},
      {"", "req-one-way", 1, 1024, "the same, and none back",
       [](C& c, N n) {
         c.halo.each_way = static_cast<uint32_t>(n);
         c.halo.both_ways = false;
       },
       [](const C& c) { return c.halo.both_ways ? 0 : N{c.halo.each_way}; }},
      {"", "iter", 1, 1'000'000, "iterations: pack, start, wait, unpack (2)",
       [](C& c, N n) { c.halo.iterations = static_cast<uint32_t>(n); },
       [](const C& c) { return N{c.halo.iterations}; }},
      {"bytes=", "", 0, 1 << 30, "of a message (16)", [](C& c, N n) { c.halo.bytes = static_cast<uint32_t>(n); },
       [](const C& c) { return N{c.halo.bytes}; }},
      {"neighbours=", "", 1, 1024, "of rank r: r + 1 ... r + so many (1)",
       [](C& c, N n) { c.halo.neighbours = static_cast<uint32_t>(n); },
       [](const C& c) { return N{c.halo.neighbours}; }},
      {"queues=", "", 1, 64, "of each rank, its requests spread over them (1)",
       [](C& c, N n) { c.halo.queues = static_cast<uint32_t>(n); }, [](const C& c) { return N{c.halo.queues}; }},
      {"ready", "", 0, 0, "ready sends; receivers promise that they have started", [](C& c, N) { c.halo.ready = true; },
       [](const C& c) { return N{c.halo.ready}; }},
      {"single-starts", "", 0, 0, "a start and a wait for each request, not one for all",
       [](C& c, N) { c.halo.startall = false; }, [](const C& c) { return N{!c.halo.startall}; }},
      {"sends-first", "", 0, 0, "sends are started before receives", [](C& c, N) { c.halo.sends_first = true; },
       [](const C& c) { return N{c.halo.sends_first}; }},
      {"sync", "", 0, 0, "the host waits for its stream after every iteration", [](C& c, N) { c.halo.sync = true; },
       [](const C& c) { return N{c.halo.sync}; }},
      {"roam", "", 0, 0, "sends go on in another stream before the last one has seen them complete",
       [](C& c, N) { c.halo.roam = true; }, [](const C& c) { return N{c.halo.roam}; }},
      {"free", "", 0, 0, "requests are freed as soon as they have completed", [](C& c, N) { c.halo.free = true; },
       [](const C& c) { return N{c.halo.free}; }},
      {"misuse", "", 0, 0, "calls that must be refused are made too", [](C& c, N) { c.halo.misuse = true; },
       [](const C& c) { return N{c.halo.misuse}; }},
      {"merged", "", 0, 0, "the requests of a rank are an exchange of the protocol's, with one set of counters",
       [](C& c, N) { c.halo.merged = true; }, [](const C& c) { return N{c.halo.merged}; }},
      {"two-sets", "", 0, 0, "... with two sets, each of as many requests, that are started in turn",
       [](C& c, N) { c.halo.two_sets = true; }, [](const C& c) { return N{c.halo.two_sets}; }},
      {"gaps", "", 0, 0, "all buffers have gaps, and streams pack and unpack", [](C& c, N) { c.halo.gaps = true; },
       [](const C& c) { return N{c.halo.gaps}; }},
      {"collectives", "", 0, 0,
       "in place of the halo: contributions of all to all, and broadcasts of the first and the last",
       [](C& c, N) { c.collectives = true; }, [](const C& c) { return N{c.collectives}; }},
      {"beyond", "", 0, 0, "one start more than counters can count, which must be refused; with the 'age' for that",
       [](C& c, N) { c.halo.beyond = true; }, [](const C& c) { return N{c.halo.beyond}; }},
      {"age=", "", 0, nic::kMaxSuccess, "iterations that the counters have behind them (0)",
       [](C& c, N n) { c.world.age = n; }, [](const C& c) { return c.world.age; }},
      {"depth=", "", 1, 65'536, "deferred-work entries of each NIC (enough for everything at once)",
       [](C& c, N n) { c.world.depth = static_cast<uint32_t>(n); }, [](const C& c) { return N{c.world.depth}; }},
      {"in-flight=", "", 1, 65'536, "operations that a NIC has under way at most (enough)",
       [](C& c, N n) { c.world.in_flight = static_cast<uint32_t>(n); },
       [](const C& c) { return N{c.world.in_flight}; }},
      {"no-overflow", "", 0, 0, "a start that finds too few entries is refused, or waits",
       [](C& c, N) { c.world.overflow = false; }, [](const C& c) { return N{!c.world.overflow}; }},
      {"blocking-post", "", 0, 0, "a post that finds no entry holds the host up in the midst of a start",
       [](C& c, N) { c.world.blocking_post = true; }, [](const C& c) { return N{c.world.blocking_post}; }},
      {"sender-flag", "", 0, 0, "strategy B: senders raise the receives' done words",
       [](C& c, N) { c.world.strategy = core::Strategy::kSenderFlag; },
       [](const C& c) { return N{c.world.strategy == core::Strategy::kSenderFlag}; }},
      {"cxi-driver", "", 0, 0, "the driver for Slingshot stands between the protocol and the card",
       [](C& c, N) { c.world.driver = true; }, [](const C& c) { return N{c.world.driver}; }},
      {"mail-by-card", "", 0, 0, "the control channel runs, and cards carry its messages; else they are handed over",
       [](C& c, N) { c.world.mail_by_card = true; }, [](const C& c) { return N{c.world.mail_by_card}; }},
      {"early-acks", "", 0, 0, "an initiator that did not ask for delivery may hear of an operation before it lands",
       [](C& c, N) { c.world.early_acks = true; }, [](const C& c) { return N{c.world.early_acks}; }},
      {"torn", "", 0, 0, "a message may be read, and may land, in two steps", [](C& c, N) { c.world.torn = true; },
       [](const C& c) { return N{c.world.torn}; }},
      {"in-order", "", 0, 0, "between two NICs bytes land in the order of firing",
       [](C& c, N) { c.world.in_order = true; }, [](const C& c) { return N{c.world.in_order}; }},
      {"register-bells", "", 0, 0, "streams ring by storing to registers, not by calls",
       [](C& c, N) { c.world.bells = Bells::kRegisters; },
       [](const C& c) { return N{c.world.bells == Bells::kRegisters}; }},
      {"word-bells", "", 0, 0, "streams ring by adding to words that the NIC reads",
       [](C& c, N) { c.world.bells = Bells::kWords; }, [](const C& c) { return N{c.world.bells == Bells::kWords}; }},
      {"total-bells", "", 0, 0, "... by storing the sum of all rings there",
       [](C& c, N) { c.world.bells = Bells::kTotals; }, [](const C& c) { return N{c.world.bells == Bells::kTotals}; }},
      {"max-message=", "", 1, uint64_t{1} << 40, "bytes of one write; longer messages go in pieces (1048576)",
       [](C& c, N n) { c.world.max_message_bytes = n; }, [](const C& c) { return c.world.max_message_bytes; }},
      {"uneven", "", 0, 0, "... and of odd ranks' cards half of that", [](C& c, N) { c.world.uneven = true; },
       [](const C& c) { return N{c.world.uneven}; }},
      {"failures", "", 0, 0, "fault: an operation fails", [](C& c, N) { c.world.failures = true; },
       [](const C& c) { return N{c.world.failures}; }},
      {"cut-mail", "", 0, 0, "fault: the way between two cards fails, as mail goes over it",
       [](C& c, N) { c.world.cut_mail = true; }, [](const C& c) { return N{c.world.cut_mail}; }},
      {"lost-rings", "", 0, 0, "fault that no NIC may have: a ring never lands",
       [](C& c, N) { c.world.lost_rings = true; }, [](const C& c) { return N{c.world.lost_rings}; }},
      {"no-room", "", 0, 0, "fault: the NIC says that it has no entry though it has",
       [](C& c, N) { c.world.no_room = true; }, [](const C& c) { return N{c.world.no_room}; }},
      {"scarce", "", 0, 0, "fault: the NIC has no counter or region left, and some when it is asked again",
       [](C& c, N) { c.world.scarce = true; }, [](const C& c) { return N{c.world.scarce}; }},
      {"stale-reads", "", 0, 0, "fault: a counter is read as it was when last read",
       [](C& c, N) { c.world.stale_reads = true; }, [](const C& c) { return N{c.world.stale_reads}; }},
      {"frozen-reads", "", 0, 0, "fault: a counter is read as it was when last read, until nothing else moves",
       [](C& c, N) { c.world.frozen_reads = true; }, [](const C& c) { return N{c.world.frozen_reads}; }},
      {"late-events", "", 0, 0, "fault: a driver reads of what has ended later than that its counter has counted it",
       [](C& c, N) { c.world.late_events = true; }, [](const C& c) { return N{c.world.late_events}; }},
      {"stolen-entries", "", 0, 0, "fault: another process takes entries of the NIC, and gives them back some time",
       [](C& c, N) { c.world.stolen_entries = true; }, [](const C& c) { return N{c.world.stolen_entries}; }},
      {"kills", "", 0, 0, "fault: the process of one rank dies, or of two of three or more",
       [](C& c, N) { c.world.kills = true; }, [](const C& c) { return N{c.world.kills}; }},
      {"timed", "", 0, 0, "steps happen when they are due in virtual time, not in any order",
       [](C& c, N) { c.world.timed = true; }, [](const C& c) { return N{c.world.timed}; }},
      {"slow", "", 0, 0, "fault, in virtual time: something takes 8, 64 or 512 times as long",
       [](C& c, N) { c.world.slow = true; }, [](const C& c) { return N{c.world.slow}; }},
  };
  return all;
}

// What `word` says where it has the form of the item; a flag says 1.
std::optional<uint64_t> number_in(const std::string& word, const Item& item) {
  if (item.flag())
    return word == item.before ? std::optional<uint64_t>(1) : std::nullopt;
  const size_t before = std::strlen(item.before), after = std::strlen(item.after);
  if (word.size() <= before + after || !word.starts_with(item.before) || !word.ends_with(item.after))
    return std::nullopt;
  uint64_t number = 0;
  const char* last = word.data() + word.size() - after;
  const auto [end, error] = std::from_chars(word.data() + before, last, number);
  if (error != std::errc() || end != last || number < item.least || number > item.most)
    return std::nullopt;
  return number;
}

// Whether to_string() names it: ranks, requests and iterations always, the rest where it is not what the structs say.
bool worth_saying(const Item& item, const Config& config) {
  static const Config kPlain;
  const bool basic = *item.before == '\0';
  return basic ? item.get(config) > 0 : item.get(config) != item.get(kPlain);
}

// Whether it describes the halo, not the world that it runs in: those come first.
bool of_halo(const Item& item) {
  return &item <
         &*std::find_if(
             items().begin(), items().end(), [](const Item& each) { return std::string_view(each.before) == "age="; });
}

bool seen_both(const std::vector<const Item*>& seen, std::string_view one, std::string_view other) {
  const auto has = [&](std::string_view name) {
    return std::any_of(seen.begin(), seen.end(), [&](const Item* item) { return item->before == name; });
  };
  return has(one) && has(other);
}

constexpr std::string_view kProgram = "program=";

// What a halo alone may demand of others' items, and counters can count.
Status check_halo(const Config& config) {
  const HaloOptions& halo = config.halo;
  if (halo.ready && !halo.startall)
    return {Code::kInvalidArgument, "ready sends are started together, so 'single-starts' goes with regular ones only"};
  const uint64_t messages =
      uint64_t{halo.ranks} * halo.neighbours * halo.each_way * (halo.both_ways ? 2 : 1) * (halo.two_sets ? 2 : 1);
  if (messages > kMostMessages || messages * halo.iterations > kMostTransfers || messages * halo.bytes > kMostBytes)
    return {Code::kInvalidArgument, "the configuration is too large: up to " + std::to_string(messages) +
                                        " messages of " + std::to_string(halo.bytes) + " bytes, " +
                                        std::to_string(halo.iterations) + " times"};
  if (halo.misuse && (halo.queues < 2 || !halo.startall || halo.ready))
    return {Code::kInvalidArgument, "'misuse' takes two queues or more, and goes with starts of all requests"};
  if (halo.roam && (halo.misuse || !halo.startall || halo.ready))
    return {Code::kInvalidArgument, "'roam' goes with regular sends that are started together, and without 'misuse'"};
  if ((halo.merged || halo.two_sets) &&
      (!halo.startall || halo.ready || halo.roam || halo.misuse || halo.queues > 1 || halo.beyond))
    return {Code::kInvalidArgument,
            "'merged' and 'two-sets' take regular sends that are started together on one queue, and go without "
            "'misuse' and 'beyond'"};
  const uint64_t pieces = core::pieces_of(halo.bytes, config.world.longest(0, 1));
  const uint64_t oldest =
      core::most_starts(config.world.strategy, halo.ready, pieces, trigger_base(config.world)) - halo.iterations;
  if (config.world.age > oldest)
    return {Code::kInvalidArgument,
            "no counter can count so many iterations: 'age' is at most " + std::to_string(oldest)};
  if (halo.beyond && config.world.age != oldest)
    return {Code::kInvalidArgument,
            "'beyond' takes 'age=" + std::to_string(oldest) + "', from where no start more is possible"};
  return {};
}

// What collectives leave of a halo.
Status check_collectives(const Config& config) {
  if (!config.collectives)
    return {};
  HaloOptions halo = config.halo;
  halo = {.ranks = halo.ranks,
          .iterations = halo.iterations,
          .bytes = halo.bytes,
          .sync = halo.sync,
          .free = halo.free,
          .gaps = halo.gaps};
  if (config.halo != halo || halo.ranks < 2)
    return {Code::kInvalidArgument,
            "'collectives' takes two ranks or more, and of a halo 'iter', 'bytes', 'sync', 'free' and 'gaps' alone"};
  const uint64_t messages = (2 * uint64_t{halo.ranks} + 2) * (halo.ranks - 1);
  if (messages > kMostMessages || messages * halo.iterations > kMostTransfers || messages * halo.bytes > kMostBytes)
    return {Code::kInvalidArgument, "the configuration is too large: " + std::to_string(messages) + " messages of " +
                                        std::to_string(halo.bytes) + " bytes, " + std::to_string(halo.iterations) +
                                        " times"};
  return {};
}

// What the driver over libfabric cannot do.
Status check_driver(const Config& config) {
  const WorldOptions& world = config.world;
  if (!world.driver)
    return world.late_events ? Status(Code::kInvalidArgument, "'late-events' takes a driver") : Status();
  if (world.blocking_post || world.in_flight > 0 || world.bells != Bells::kCalls)
    return {Code::kInvalidArgument,
            "a driver goes without 'blocking-post', 'in-flight' and other bells than host calls"};
  for (uint32_t rank = 0; config.program != nullptr && rank < config.program->ranks(); ++rank)
    for (const Action& action : config.program->program(rank).actions())
      if (action.kind == Action::Kind::kCapture || action.kind == Action::Kind::kStand)
        return {Code::kInvalidArgument, "a driver goes without graphs and kernels: it cannot take entries back"};
  return {};
}

Status check_merged(const Config& config) {
  const bool merges = config.halo.merged || config.halo.two_sets || config.collectives ||
                      (config.program != nullptr && config.program->merges());
  if (!merges || config.world.age <= kOldest)
    return {};
  return {Code::kInvalidArgument, "requests are merged with an 'age' that their counters can count on from"};
}

// What the control channel asks of its card.
Status check_mail(const Config& config) {
  const WorldOptions& world = config.world;
  if (!world.mail_by_card)
    return world.cut_mail ? Status(Code::kInvalidArgument, "'cut-mail' takes 'mail-by-card'") : Status();
  if (world.cut_mail && !world.failures)
    return {Code::kInvalidArgument, "'cut-mail' takes 'failures'"};
  if (world.driver || world.scarce || world.longest(0, 1) < CardMail::kLeastMessageBytes)
    return {Code::kInvalidArgument, "'mail-by-card' goes without a driver and 'scarce', and takes cards that write " +
                                        std::to_string(CardMail::kLeastMessageBytes) + " bytes or more at a time"};
  return {};
}

Status check_program(const Config& config) {
  if (config.world.age > kOldest)
    return {Code::kInvalidArgument, "with a program 'age' is at most " + std::to_string(kOldest)};
  return {};
}

}  // namespace

Scenario Config::scenario() const {
  if (program != nullptr)
    return *program;
  if (!collectives)
    return make_halo(halo);
  return make_collectives({.ranks = halo.ranks,
                           .iterations = halo.iterations,
                           .bytes = halo.bytes,
                           .sync = halo.sync,
                           .free = halo.free,
                           .gaps = halo.gaps});
}

Result<Config> Config::parse(const std::string& text) {
  Config config;
  std::vector<const Item*> seen;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    begin = end + 1;
    if (word.starts_with(kProgram)) {
      Result<Scenario> program = Scenario::parse(word.substr(kProgram.size()));
      if (!program.ok())
        return program.status();
      config.program = std::make_shared<const Scenario>(std::move(program.value()));
      continue;
    }
    const auto item = std::find_if(items().begin(), items().end(),
                                   [&](const Item& candidate) { return number_in(word, candidate).has_value(); });
    if (item == items().end())
      return Status(Code::kInvalidArgument, "no configuration has '" + word + "' in it (see lanyard fuzz --help)");
    if (std::find(seen.begin(), seen.end(), &*item) != seen.end())
      return Status(Code::kInvalidArgument, "'" + word + "' stands in the configuration twice");
    seen.push_back(&*item);
    item->set(config, *number_in(word, *item));
  }
  if (config.program != nullptr &&
      std::any_of(seen.begin(), seen.end(), [](const Item* item) { return of_halo(*item); }))
    return Status(Code::kInvalidArgument,
                  "a program says itself what it does: beside it there are items for its world only");
  if (seen_both(seen, "register-bells", "word-bells") || seen_both(seen, "register-bells", "total-bells") ||
      seen_both(seen, "word-bells", "total-bells"))
    return Status(Code::kInvalidArgument, "'register-bells', 'word-bells' and 'total-bells' are three kinds of card");
  if (config.world.slow && !config.world.timed)
    return Status(Code::kInvalidArgument, "'slow' takes 'timed': else everything may take as long as it likes anyway");
  LANYARD_RETURN_IF_ERROR(check_collectives(config));
  LANYARD_RETURN_IF_ERROR(check_driver(config));
  LANYARD_RETURN_IF_ERROR(check_mail(config));
  LANYARD_RETURN_IF_ERROR(check_merged(config));
  Status fits = config.program != nullptr ? check_program(config) : check_halo(config);
  if (!fits.ok())
    return fits;
  return config;
}

std::string Config::to_string() const {
  std::string text = program != nullptr ? std::string(kProgram) + program->to_string() : "";
  for (const Item& item : items()) {
    if ((program != nullptr && of_halo(item)) || !worth_saying(item, *this))
      continue;
    text += text.empty() ? "" : ",";
    text += item.before + (item.flag() ? "" : std::to_string(item.get(*this))) + item.after;
  }
  return text;
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
