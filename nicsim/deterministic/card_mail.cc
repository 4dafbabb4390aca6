#include "nicsim/deterministic/card_mail.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

// What a message begins with.
struct Head {
  uint64_t number = 0;  // in its lane
  uint64_t body = 0;    // bytes: those of a card, or none
};
constexpr size_t kHead = sizeof(Head);

// Of a lane's message: beyond what it has to say, as long as where a slot ends, and by more slots than a lane has.
size_t least_length(uint64_t number) {
  constexpr size_t kLengths[] = {0, 225, 0, 1000, 224, 448, 0, 600};
  return kLengths[number % std::size(kLengths)];
}

// Behind what it says it has bytes that no other message has there.
std::byte filler(uint64_t number, size_t place) { return static_cast<std::byte>(number * 37 + place * 11 + place / 7); }

std::string name(uint64_t number, uint32_t from, uint32_t to) {
  return "message " + std::to_string(number) + " of rank " + std::to_string(from) + " to rank " + std::to_string(to);
}

}  // namespace

// ---- What the channel has open

Result<nic::CounterId> CardMail::Lent::open_counter() {
  Result<nic::CounterId> counter = ForwardingNic::open_counter();
  counters += counter.ok() ? 1 : 0;
  return counter;
}
Status CardMail::Lent::close_counter(nic::CounterId counter) {
  Status status = ForwardingNic::close_counter(counter);
  counters -= status.ok() ? 1 : 0;
  return status;
}
Result<nic::RegionId> CardMail::Lent::register_region(void* base, uint64_t bytes, nic::CounterId remote_write) {
  Result<nic::RegionId> region = ForwardingNic::register_region(base, bytes, remote_write);
  regions += region.ok() ? 1 : 0;
  return region;
}
Status CardMail::Lent::deregister_region(nic::RegionId region) {
  Status status = ForwardingNic::deregister_region(region);
  regions -= status.ok() ? 1 : 0;
  return status;
}

// ---- Out

CardMail::CardMail(World& world, nic::Nic& nic, uint32_t rank, uint32_t ranks)
    : world_(world),
      rank_(rank),
      ranks_(ranks),
      nic_(nic),
      memory_(core::ControlChannel::words_for(ranks, kSlots)),
      lanes_(ranks) {
  Result<std::unique_ptr<core::ControlChannel>> channel =
      core::ControlChannel::open(nic_, rank, ranks, kSlots, memory_.data());
  LANYARD_CHECK(channel.ok(), channel.status().message().c_str());
  channel_ = std::move(channel.value());
  arrivals_ = channel_->arrivals();
}

void CardMail::send(uint32_t to, const core::MatchCard& card) { post(to, std::as_bytes(std::span(&card, 1))); }

void CardMail::post(uint32_t to, std::span<const std::byte> body) {
  Lane& lane = lanes_[to];
  const uint64_t number = ++lane.sent;
  const Head head{number, body.size()};
  const auto beginning = std::as_bytes(std::span(&head, 1));
  std::vector<std::byte> message(beginning.begin(), beginning.end());
  message.insert(message.end(), body.begin(), body.end());
  while (message.size() < least_length(number))
    message.push_back(filler(number, message.size()));
  channel_->send(to, message);
  lane.under_way.push_back(std::move(message));
}

void CardMail::look() {
  if (questions_ > 0) {
    --questions_;
    post((rank_ + 1) % ranks_, {});
  }
  (void)channel_->progress();
}

bool CardMail::wants_to_look() const {
  return questions_ > 0 || !ended_.empty() || (!idle_ && (channel_->noticed() || channel_->pending()));
}

void CardMail::counted(uint32_t counter) {
  if (counter != arrivals_.value)
    return;
  channel_->notice();
  idle_ = false;
}

// ---- In

std::optional<core::MatchCard> CardMail::receive() {
  while (const std::optional<core::ControlChannel::Message> message = channel_->receive()) {
    std::deque<std::vector<std::byte>>& sent = world_.process(message->from).card_mail->lanes_[rank_].under_way;
    const uint64_t number = ++lanes_[message->from].received;
    const auto place = std::find(sent.begin(), sent.end(), message->bytes);
    if (place != sent.begin() || sent.empty()) {
      world_.find(place == sent.end() ? Finding::kIntegrity : Finding::kOrder, "mail",
                  name(number, message->from, rank_) +
                      (place == sent.end() ? " is none that was sent and has not arrived yet: it has other bytes, or "
                                             "comes again"
                                           : " overtakes one that was sent earlier"));
      return std::nullopt;
    }
    sent.pop_front();
    Head head;
    std::memcpy(&head, message->bytes.data(), kHead);
    if (head.body == 0)
      continue;
    core::MatchCard card;
    std::memcpy(&card, message->bytes.data() + kHead, sizeof card);
    return card;
  }
  return std::nullopt;
}

// ---- The end

std::optional<std::string> CardMail::what_is_stuck() const {
  for (uint32_t to = 0; to < ranks_; ++to) {
    if (world_.is_killed(to) || channel_->lost(to))
      continue;
    const Lane& lane = lanes_[to];
    const CardMail& other = *world_.process(to).card_mail;
    const std::string landed = std::to_string(other.lanes_[rank_].slots) + " slots and " +
                               std::to_string(other.lanes_[rank_].sums) + " sums of rank " + std::to_string(rank_) +
                               " have landed there, and " + std::to_string(lanes_[to].sums) + " sums of rank " +
                               std::to_string(to) + " here";
    if (!lane.under_way.empty())
      return name(lane.sent + 1 - lane.under_way.size(), rank_, to) + ", of " +
             std::to_string(lane.under_way.front().size()) + " bytes, does not arrive: " + landed + "; " +
             (other.channel_->noticed()   ? "the other end was called, and does not look"
              : other.channel_->pending() ? "the other end has found bytes that are not all there"
              : channel_->pending()       ? "this end wants to try again what its card had no room for"
                                          : "both ends wait to be called");
    if (!channel_->has_taken_all(to))
      return "rank " + std::to_string(to) + " has received all messages of rank " + std::to_string(rank_) +
             ", and has not given back as many credits as there were slots: " + landed;
  }
  return std::nullopt;
}

std::optional<std::string> CardMail::close() {
  channel_.reset();
  if (nic_.counters == 0 && nic_.regions == 0)
    return std::nullopt;
  return "the control channel of rank " + std::to_string(rank_) + " leaves " + std::to_string(nic_.counters) +
         " counters and " + std::to_string(nic_.regions) + " regions open";
}

}  // namespace lanyard::nicsim
