#include "nicsim/deterministic/card_mail.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nicsim/deterministic/world.h"
#include "transport/base/check.h"

namespace lanyard::nicsim {

namespace {

constexpr size_t kNumber = sizeof(uint64_t);

// Of a question with its topic: where a slot ends, and one beyond; more than one, and more than a link has.
size_t length_of(uint32_t rank, uint64_t number) {
  constexpr size_t kTopic = 8;
  constexpr size_t kLengths[] = {225, 16, 1000, 224, 448, 600};
  return kLengths[(2 * rank + number) % std::size(kLengths)] - kTopic;
}

// Behind its number it has bytes that no other question has there.
std::byte filler(uint64_t number, size_t place) { return static_cast<std::byte>(number * 37 + place * 11 + place / 7); }

std::string name(uint64_t number, uint32_t from, uint32_t to) {
  return "question " + std::to_string(number) + " of rank " + std::to_string(from) + " to rank " + std::to_string(to);
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

CardMail::CardMail(World& world, nic::Nic& nic, core::Endpoint& endpoint, uint32_t rank, uint32_t ranks)
    : world_(world),
      rank_(rank),
      ranks_(ranks),
      nic_(nic),
      memory_(core::ControlChannel::words_for(ranks, kSlots)),
      links_(ranks) {
  Result<std::unique_ptr<core::ControlChannel>> channel =
      core::ControlChannel::open(nic_, rank, ranks, kSlots, memory_.data());
  LANYARD_CHECK(channel.ok(), channel.status().message().c_str());
  channel_ = channel.value().get();
  arrivals_ = channel_->arrivals();
  plane_ = std::make_unique<core::ControlPlane>(endpoint, std::move(channel.value()));
  plane_->on_message([this](uint32_t from, std::span<const std::byte> question) { hear(from, question); });
}

void CardMail::ask(uint32_t to) {
  Link& link = links_[to];
  const uint64_t number = ++link.sent;
  std::vector<std::byte> question(length_of(rank_, number));
  std::memcpy(question.data(), &number, kNumber);
  for (size_t place = kNumber; place < question.size(); ++place)
    question[place] = filler(number, place);
  plane_->tell(to, question);
  link.under_way.push_back(std::move(question));
}

void CardMail::look() {
  lost_ = false;
  if (questions_ > 0) {
    --questions_;
    ask((rank_ + 1) % ranks_);
  }
  (void)plane_->progress();
}

bool CardMail::wants_to_look() const {
  return questions_ > 0 || lost_ || (!idle_ && (channel_->noticed() || channel_->pending()));
}

void CardMail::counted(uint32_t counter) {
  if (counter != arrivals_.value)
    return;
  channel_->notice();
  idle_ = false;
}

// ---- In

void CardMail::hear(uint32_t from, std::span<const std::byte> question) {
  std::deque<std::vector<std::byte>>& asked = world_.process(from).card_mail->links_[rank_].under_way;
  const uint64_t number = ++links_[from].received;
  const auto place = std::find_if(asked.begin(), asked.end(), [&](const std::vector<std::byte>& each) {
    return std::equal(each.begin(), each.end(), question.begin(), question.end());
  });
  if (place == asked.begin() && !asked.empty())
    return asked.pop_front();
  world_.find(place == asked.end() ? Finding::kIntegrity : Finding::kOrder, "mail",
              name(number, from, rank_) + (place == asked.end()
                                               ? " is none that was asked and has not arrived yet: it has other bytes, "
                                                 "or comes again"
                                               : " overtakes one that was asked earlier"));
}

// ---- The end

std::optional<std::string> CardMail::what_is_stuck() const {
  for (uint32_t to = 0; to < ranks_; ++to) {
    if (world_.is_killed(to) || plane_->lost(to))
      continue;
    const Link& link = links_[to];
    const CardMail& other = *world_.process(to).card_mail;
    const std::string landed = std::to_string(other.links_[rank_].slots) + " slots and " +
                               std::to_string(other.links_[rank_].sums) + " sums of rank " + std::to_string(rank_) +
                               " have landed there, and " + std::to_string(links_[to].sums) + " sums of rank " +
                               std::to_string(to) + " here";
    if (!link.under_way.empty())
      return name(link.sent + 1 - link.under_way.size(), rank_, to) + ", of " +
             std::to_string(link.under_way.front().size()) + " bytes, does not arrive: " + landed + "; " +
             (other.channel_->noticed()   ? "the other end was called, and does not look"
              : other.channel_->pending() ? "the other end has found bytes that are not all there"
              : channel_->pending()       ? "this end wants to try again what its card had no room for"
                                          : "both ends wait to be called");
    if (!plane_->has_taken_all(to))
      return "rank " + std::to_string(to) + " has received all messages of rank " + std::to_string(rank_) +
             ", and has not given back as many credits as there were slots: " + landed;
  }
  return std::nullopt;
}

std::optional<std::string> CardMail::close() {
  plane_.reset();
  if (nic_.counters == 0 && nic_.regions == 0)
    return std::nullopt;
  return "the control channel of rank " + std::to_string(rank_) + " leaves " + std::to_string(nic_.counters) +
         " counters and " + std::to_string(nic_.regions) + " regions open";
}

}  // namespace lanyard::nicsim
