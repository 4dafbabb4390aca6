#include "tests/cxi_rules/trial.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <utility>

namespace lanyard::cxi_rules {

namespace {

constexpr size_t kShown = 200;

std::string code_text(int64_t code) {
  static const std::pair<int, const char*> kNames[] = {
      {FI_EPERM, "FI_EPERM"},
      {FI_ENOENT, "FI_ENOENT"},
      {FI_EIO, "FI_EIO"},
      {FI_EAGAIN, "FI_EAGAIN"},
      {FI_ENOMEM, "FI_ENOMEM"},
      {FI_EBUSY, "FI_EBUSY"},
      {FI_EINVAL, "FI_EINVAL"},
      {FI_ENOSPC, "FI_ENOSPC"},
      {FI_ENOSYS, "FI_ENOSYS"},
      {FI_ENOMSG, "FI_ENOMSG"},
      {FI_ENODATA, "FI_ENODATA"},
      {FI_EMSGSIZE, "FI_EMSGSIZE"},
      {FI_ENOPROTOOPT, "FI_ENOPROTOOPT"},
      {FI_EOPNOTSUPP, "FI_EOPNOTSUPP"},
      {FI_EADDRINUSE, "FI_EADDRINUSE"},
      {FI_EHOSTUNREACH, "FI_EHOSTUNREACH"},
      {FI_ETIMEDOUT, "FI_ETIMEDOUT"},
      {FI_ECANCELED, "FI_ECANCELED"},
      {FI_ENOKEY, "FI_ENOKEY"},
      {FI_EKEYREJECTED, "FI_EKEYREJECTED"},
      {FI_ETOOSMALL, "FI_ETOOSMALL"},
      {FI_EOPBADSTATE, "FI_EOPBADSTATE"},
      {FI_EAVAIL, "FI_EAVAIL"},
      {FI_EBADFLAGS, "FI_EBADFLAGS"},
      {FI_ETRUNC, "FI_ETRUNC"},
      {FI_ENOCQ, "FI_ENOCQ"},
      {FI_ENOAV, "FI_ENOAV"},
  };
  if (code < 0) {
    for (const auto& [number, name] : kNames) {
      if (code == -number)
        return std::string("-") + name;
    }
  }
  return std::to_string(code);
}

std::string value_text(uint64_t value) {
  if (value < 1000000)
    return std::to_string(value);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (; value > 0; value >>= 4)
    text.insert(text.begin(), kDigits[value & 15]);
  return "0x" + text;
}

}  // namespace

void Trial::saw(bool right, const std::string& text) {
  ++checks_;
  std::string& to = right ? seen_ : wrong_;
  if (to.size() < kShown)
    to += (to.empty() ? "" : "; ") + text;
  else if (!to.ends_with("..."))
    to += "; ...";
  if (!right)
    verdict_ = Verdict::kFailed;
}

void Trial::code(const std::string& what, int64_t observed, int64_t expected) { one_of(what, observed, {expected}); }

void Trial::one_of(const std::string& what, int64_t observed, std::initializer_list<int64_t> expected) {
  if (std::find(expected.begin(), expected.end(), observed) != expected.end())
    return saw(true, what + ": " + code_text(observed));
  std::string wanted;
  for (const int64_t code : expected)
    wanted += (wanted.empty() ? "" : " or ") + code_text(code);
  saw(false, what + ": expected " + wanted + ", observed " + code_text(observed));
}

void Trial::value(const std::string& what, uint64_t observed, uint64_t expected) {
  if (observed == expected)
    return saw(true, what + ": " + value_text(observed));
  saw(false, what + ": expected " + value_text(expected) + ", observed " + value_text(observed));
}

void Trial::holds(const std::string& what, bool observed) { saw(observed, observed ? what : "not so: " + what); }

void Trial::need(const std::string& what, int64_t observed, int64_t expected) {
  if (observed == expected)
    return;
  saw(false, "on the way, " + what + ": expected " + code_text(expected) + ", observed " + code_text(observed));
  throw Stop();
}

void Trial::not_offered(const std::string& why) {
  if (verdict_ == Verdict::kPassed) {
    verdict_ = Verdict::kNotOffered;
    seen_ = why;
  }
  throw Stop();
}

Outcome Trial::outcome() const {
  // A check that looked at nothing says nothing.
  if (verdict_ == Verdict::kPassed && checks_ == 0)
    return {Verdict::kFailed, "the check observed nothing"};
  return {verdict_, verdict_ == Verdict::kFailed ? wrong_ : seen_};
}

}  // namespace lanyard::cxi_rules
