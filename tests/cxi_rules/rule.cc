#include "tests/cxi_rules/rule.h"

#include <poll.h>
#include <rdma/fabric.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/cxi_rules/node.h"
#include "tests/cxi_rules/trial.h"

namespace lanyard::cxi_rules {

namespace {

constexpr std::pair<const char*, Like> kLikes[] = {{"1.15", Like::k1_15}, {"1.22", Like::k1_22}, {"2.x", Like::k2}};

// In the child.
[[noreturn]] void tell(const std::function<Outcome()>& find_out, int to) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Outcome outcome = find_out();
  const std::string text =
      std::string(1, static_cast<char>('0' + static_cast<int>(outcome.verdict))) + outcome.observed;
  const ssize_t written = ::write(to, text.data(), text.size());
  ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
}

// Until the other end is closed or the time is over; false then.
bool read_all(int from, std::chrono::steady_clock::time_point end, std::string& out) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return false;
    pollfd ready{.fd = from, .events = POLLIN, .revents = 0};
    const int count = ::poll(&ready, 1, static_cast<int>(left.count()));
    if (count == 0 || (count < 0 && errno == EINTR))
      continue;
    char bytes[4096];
    const ssize_t got = ::read(from, bytes, sizeof bytes);
    if (got <= 0)
      return true;
    out.append(bytes, static_cast<size_t>(got));
  }
}

Outcome in_a_process(const std::function<Outcome()>& find_out, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  int ends[2];
  if (::pipe(ends) != 0)
    return {Verdict::kFailed, std::string("no pipe: ") + std::strerror(errno)};
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    tell(find_out, ends[1]);
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    return {Verdict::kFailed, std::string("no process: ") + std::strerror(errno)};
  }
  std::string text;
  const bool ended = read_all(ends[0], end, text);
  ::close(ends[0]);
  if (!ended)
    ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (!ended)
    return {Verdict::kFailed, "it had not ended after " + std::to_string(limit.count()) + " s"};
  if (WIFSIGNALED(status))
    return {Verdict::kFailed, std::string("it was ended by a signal: ") + ::strsignal(WTERMSIG(status))};
  if (text.empty() || WEXITSTATUS(status) != 0)
    return {Verdict::kFailed, "it ended with " + std::to_string(WEXITSTATUS(status)) + " and said nothing"};
  return {static_cast<Verdict>(text[0] - '0'), text.substr(1)};
}

Outcome facts_of_provider() {
  Info info;
  if (const int code = get_info(hints_of({}).get(), info); code != 0)
    return {Verdict::kNotOffered, std::string("libfabric finds no provider cxi: ") + fi_strerror(-code)};
  const uint32_t version = info->fabric_attr->prov_version, api = fi_version();
  const auto dotted = [](uint32_t v) { return std::to_string(FI_MAJOR(v)) + "." + std::to_string(FI_MINOR(v)); };
  std::string facts = "libfabric " + dotted(api) + "\nprovider  " + info->fabric_attr->prov_name + " " +
                      dotted(version) + ", domain " + info->domain_attr->name + "\n";
  const auto add = [&facts](const char* name, uint64_t value) {
    facts += std::string(facts.ends_with('\n') ? "offers    " : ", ") + name + " " + std::to_string(value);
  };
  add("max_msg_size", info->ep_attr->max_msg_size);
  add("inject_size", info->tx_attr->inject_size);
  add("tx size", info->tx_attr->size);
  add("rx size", info->rx_attr->size);
  add("mr_mode", static_cast<uint64_t>(info->domain_attr->mr_mode));
  add("mr_key_size", info->domain_attr->mr_key_size);
  add("cntr_cnt", info->domain_attr->cntr_cnt);
  facts += "\n";
  for (const char* name : {"FI_PROVIDER_PATH", "FI_PROVIDER", "FI_CXI_OPTIMIZED_MRS", "FI_CXI_PROV_KEY_CACHE",
                           "FI_CXI_ODP", "FI_CXI_ENABLE_TRIG_OP_LIMIT", "FI_CXI_DEVICE_NAME", "FI_CXI_RX_MATCH_MODE",
                           "LANYARD_FI_LIKE", "LANYARD_FI_MMIO"}) {
    if (const char* value = std::getenv(name))
      facts += std::string("with      ") + name + "=" + value + "\n";
  }
  return {Verdict::kPassed, facts};
}

}  // namespace

std::optional<Like> like_of(std::string_view name) {
  for (const auto& [known, like] : kLikes) {
    if (name == known)
      return like;
  }
  return std::nullopt;
}

const char* name_of(Like like) { return kLikes[static_cast<int>(like)].first; }

Like like_of_this_machine() {
  if (const char* name = std::getenv("LANYARD_FI_LIKE")) {
    if (const std::optional<Like> like = like_of(name))
      return *like;
  }
  const uint32_t version = fi_version();
  if (FI_MAJOR(version) >= 2)
    return Like::k2;
  return FI_MINOR(version) <= 15 ? Like::k1_15 : Like::k1_22;
}

std::vector<Group> all_groups() {
  return {info_rules(),    object_rules(),   counter_rules(), counter_extension_rules(), queue_rules(), region_rules(),
          write_rules(),   atomic_rules(),   work_rules(),    work_argument_rules(),     limit_rules(), message_rules(),
          address_rules(), extension_rules()};
}

Outcome run(const Rule& rule, Like like, std::chrono::seconds limit) {
  return in_a_process(
      [&] {
        Trial trial(like);
        try {
          rule.check(trial);
        } catch (const Trial::Stop&) {
        }
        return trial.outcome();
      },
      limit);
}

Outcome describe_provider() { return in_a_process(facts_of_provider, std::chrono::seconds(60)); }

}  // namespace lanyard::cxi_rules
