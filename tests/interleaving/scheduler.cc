#include "tests/interleaving/scheduler.h"

#include <linux/futex.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "tests/interleaving/primitives.h"
#include "transport/base/check.h"

namespace lanyard::interleaving {

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr uint32_t kNobody = UINT32_MAX;
constexpr Nanoseconds kLook = std::chrono::microseconds(1);    // time between two reads of the clock
constexpr Nanoseconds kLeap = std::chrono::milliseconds(150);  // longer than a NIC stays warm

Scheduler* running_scheduler = nullptr;

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

const char* act_name(Act act) {
  static constexpr const char* kNames[] = {"load",  "store", "modify", "yield", "clock", "lock",
                                           "sleep", "wake",  "settle", "start", "join",  "end"};
  return kNames[static_cast<size_t>(act)];
}

}  // namespace

struct Scheduler::Fiber {
  enum class State : uint8_t { kAble, kAsleep, kSettling, kResting, kEnded } state = State::kAble;
  std::string name;
  std::function<void()> body;
  ucontext_t context{};
  std::byte* stack = nullptr;
  const void* key = nullptr;  // of its sleep
  std::optional<Nanoseconds> until;
  bool naps = false;
  bool woken = false;
  Where where{};
};

Scheduler::Scheduler() { able_.reserve(Strategy::kMostThreads); }

Scheduler::~Scheduler() {
  for (std::byte* stack : stacks_)
    ::munmap(stack, kStackBytes);
}

Scheduler* Scheduler::running() { return running_scheduler; }

Outcome Scheduler::run(uint64_t seed, const Rules& rules, std::function<void()> body) {
  LANYARD_CHECK(running_scheduler == nullptr, "run() while another scheduler runs");
  rules_ = rules;
  outcome_ = Outcome();
  strategy_.emplace(seed);
  before_.emplace();
  now_ = std::chrono::hours(1);
  able_ = {0};
  living_ = 1;
  current_ = 0;
  set_off_ = false;
  fibers_.push_back(make_fiber("main", std::move(body)));
  running_scheduler = this;
  ::swapcontext(&home_, &fibers_[0]->context);
  running_scheduler = nullptr;
  // A fiber that a fault left unfinished keeps its stack and its scheduler objects.
  for (std::unique_ptr<Fiber>& fiber : fibers_) {
    if (fiber->state == Fiber::State::kEnded)
      stacks_.push_back(fiber->stack);
    else
      static_cast<void>(fiber.release());
  }
  fibers_.clear();
  return std::move(outcome_);
}

std::unique_ptr<Scheduler::Fiber> Scheduler::make_fiber(const char* name, std::function<void()> body) {
  auto fiber = std::make_unique<Fiber>();
  fiber->name = name;
  fiber->body = std::move(body);
  if (stacks_.empty()) {
    void* stack = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    LANYARD_CHECK(stack != MAP_FAILED, "no memory for a fiber's stack");
    stacks_.push_back(static_cast<std::byte*>(stack));
  }
  fiber->stack = stacks_.back();
  stacks_.pop_back();
  ::getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack;
  fiber->context.uc_stack.ss_size = kStackBytes;
  ::makecontext(&fiber->context, &Scheduler::enter, 0);
  return fiber;
}

// The first function on a fiber's stack.
void Scheduler::enter() {
  Scheduler& scheduler = *running_scheduler;
  scheduler.fibers_[scheduler.current_]->body();
  scheduler.end();
}

void Scheduler::end() {
  note(Act::kEnd, Where::here());
  Fiber& fiber = *fibers_[current_];
  fiber.body = nullptr;
  fiber.state = Fiber::State::kEnded;
  std::erase(able_, current_);
  wake([&](const void* key) { return key == &fiber; }, INT32_MAX);
  if (--living_ == 0)
    go_home();
  dispatch();
  LANYARD_CHECK(false, "a fiber runs after its end");
  __builtin_unreachable();
}

// ---- Steps

void Scheduler::note(Act act, Where where) {
  const uint64_t word = uint64_t{current_} << 40 | static_cast<uint64_t>(act) << 32 | static_cast<uint32_t>(where.line);
  outcome_.hash = (outcome_.hash ^ word) * 0x100000001b3;
  if (rules_.tells)
    std::printf("%6llu  %-12s %-7s %s:%d\n", static_cast<unsigned long long>(outcome_.steps),
                fibers_[current_]->name.c_str(), act_name(act), file_name(where.file), where.line);
  if (++outcome_.steps > rules_.most_steps)
    fail("more than " + std::to_string(rules_.most_steps) + " steps: the program does not end");
}

void Scheduler::step(Act act, Where where) {
  note(act, where);
  if (set_off_ || act == Act::kYield)
    switch_to(strategy_->next(able_, current_, act == Act::kYield));
}

void Scheduler::switch_to(uint32_t thread) {
  if (thread == current_)
    return;
  ucontext_t& from = fibers_[current_]->context;
  current_ = thread;
  ::swapcontext(&from, &fibers_[thread]->context);
}

// Switches away from the running fiber, which cannot run.
void Scheduler::dispatch() {
  while (able_.empty())
    end_a_nap();
  switch_to(strategy_->next(able_, current_, false));
}

// No thread can run. settle() returns before a nap ends, rest() after the last nap. In neither
// case is this a standstill.
void Scheduler::end_a_nap() {
  uint32_t napper = kNobody, settling = kNobody, resting = kNobody;
  for (uint32_t i = 0; i < fibers_.size(); ++i) {
    const Fiber& fiber = *fibers_[i];
    if (fiber.state == Fiber::State::kSettling)
      settling = i;
    else if (fiber.state == Fiber::State::kResting)
      resting = i;
    else if (fiber.state == Fiber::State::kAsleep && fiber.naps &&
             (napper == kNobody || fiber.until < fibers_[napper]->until))
      napper = i;
  }
  if (settling != kNobody)
    return set_able(settling);
  if (napper == kNobody && resting != kNobody)
    return set_able(resting);
  if (napper == kNobody)
    fail("threads sleep forever:" + asleep());
  if (!rules_.naps && resting == kNobody)
    fail("only the end of a nap lets the program go on:" + asleep());
  now_ = std::max(now_, *fibers_[napper]->until);
  if (one_in(2))
    now_ += kLeap;
  set_able(napper);
}

void Scheduler::set_able(uint32_t thread) {
  fibers_[thread]->state = Fiber::State::kAble;
  able_.insert(std::lower_bound(able_.begin(), able_.end(), thread), thread);
}

void Scheduler::fail(const std::string& fault) {
  outcome_.fault = fault;
  go_home();
}

void Scheduler::go_home() {
  ::setcontext(&home_);
  LANYARD_CHECK(false, "setcontext() returned");
  __builtin_unreachable();
}

std::string Scheduler::asleep() const {
  std::string text;
  for (const std::unique_ptr<Fiber>& fiber : fibers_)
    if (fiber->state == Fiber::State::kAsleep)
      text += " " + fiber->name + " at " + file_name(fiber->where.file) + ":" + std::to_string(fiber->where.line) +
              (fiber->naps ? " (naps)" : "");
  return text;
}

// ---- Threads and sleep

uint32_t Scheduler::start(const char* name, std::function<void()> body, Where where) {
  LANYARD_CHECK(fibers_.size() < Strategy::kMostThreads, "more threads than Strategy::kMostThreads");
  const auto thread = static_cast<uint32_t>(fibers_.size());
  fibers_.push_back(make_fiber(name, std::move(body)));
  ++living_;
  set_able(thread);
  before_->order(current_, thread);
  step(Act::kStart, where);
  return thread;
}

void Scheduler::join(uint32_t thread, Where where) {
  step(Act::kJoin, where);
  while (fibers_[thread]->state != Fiber::State::kEnded)
    sleep(fibers_[thread].get(), std::nullopt, where);
  before_->order(thread, current_);
}

bool Scheduler::sleep(const void* key, std::optional<Nanoseconds> limit, Where where) {
  Fiber& fiber = *fibers_[current_];
  fiber.state = Fiber::State::kAsleep;
  fiber.key = key;
  fiber.naps = limit.has_value() && *limit <= kLongestNap;
  fiber.until = fiber.naps ? std::optional(now_ + *limit) : std::nullopt;
  fiber.woken = false;
  fiber.where = where;
  std::erase(able_, current_);
  dispatch();
  return fiber.woken;
}

int Scheduler::wake(const std::function<bool(const void*)>& is_key, int count) {
  int woken = 0;
  while (woken < count) {
    std::vector<uint32_t> sleepers;
    for (uint32_t i = 0; i < fibers_.size(); ++i)
      if (fibers_[i]->state == Fiber::State::kAsleep && is_key(fibers_[i]->key))
        sleepers.push_back(i);
    if (sleepers.empty())
      break;
    const uint32_t who = sleepers[strategy_->below(static_cast<uint32_t>(sleepers.size()))];
    fibers_[who]->woken = true;
    set_able(who);
    ++woken;
  }
  return woken;
}

void Scheduler::wait_for_others(bool naps_end, Where where) {
  note(Act::kSettle, where);
  Fiber& fiber = *fibers_[current_];
  fiber.state = naps_end ? Fiber::State::kResting : Fiber::State::kSettling;
  fiber.where = where;
  std::erase(able_, current_);
  dispatch();
}

Nanoseconds Scheduler::now(Where where) {
  step(Act::kClock, where);
  now_ += strategy_->leaps() ? kLeap : kLook;
  return now_;
}

void Scheduler::touch(const void* data, const char* name) {
  if (!before_->touch(current_, data))
    fail(std::string("two threads touch ") + name + " with no order between them");
}

// ---- The primitives

namespace {

constexpr uintptr_t kPage = 4096;

// Whether both are the same word, perhaps in two mappings: a write through one shows in the other.
bool is_same(volatile uint32_t* here, volatile uint32_t* there) {
  if (here == there)
    return true;
  if (reinterpret_cast<uintptr_t>(here) % kPage != reinterpret_cast<uintptr_t>(there) % kPage || *here != *there)
    return false;
  const uint32_t value = *here;
  *here = ~value;
  const bool same = *there == ~value;
  *here = value;
  return same;
}

}  // namespace

void Mutex::lock(Where where) {
  Scheduler* scheduler = Scheduler::running();
  if (scheduler != nullptr)
    scheduler->step(Act::kLock, where);
  while (locked_) {
    LANYARD_CHECK(scheduler != nullptr, "a mutex is locked twice outside a schedule");
    scheduler->sleep(this, std::nullopt, where);
  }
  locked_ = true;
  if (scheduler != nullptr)
    scheduler->loaded(this, std::memory_order_acquire);
}

void Mutex::unlock(Where where) {
  locked_ = false;
  Scheduler* scheduler = Scheduler::running();
  if (scheduler == nullptr)
    return;
  scheduler->stored(this, std::memory_order_release);
  scheduler->wake([this](const void* key) { return key == this; }, 1);
  scheduler->step(Act::kLock, where);
}

long futex(uint32_t* word, int operation, uint32_t value, const timespec* limit, const void*, int, Where where) {
  Scheduler* scheduler = Scheduler::running();
  LANYARD_CHECK(scheduler != nullptr, "futex() called outside a schedule");
  const int what = operation & FUTEX_CMD_MASK;
  if (what == FUTEX_WAKE) {
    scheduler->step(Act::kWake, where);
    const int woken =
        scheduler->wake([&](const void* key) { return is_same(word, static_cast<uint32_t*>(const_cast<void*>(key))); },
                        static_cast<int>(value));
    scheduler->step(Act::kWake, where);
    return woken;
  }
  LANYARD_CHECK(what == FUTEX_WAIT, "futex(): only FUTEX_WAIT and FUTEX_WAKE are replaced");
  scheduler->step(Act::kSleep, where);
  int error = 0;
  if (*static_cast<volatile uint32_t*>(word) != value)
    error = EAGAIN;
  else if (scheduler->is_spurious())
    error = EINTR;
  else if (const std::optional<Nanoseconds> time =
               limit == nullptr
                   ? std::nullopt
                   : std::optional<Nanoseconds>(std::chrono::seconds(limit->tv_sec) + Nanoseconds(limit->tv_nsec));
           !scheduler->sleep(word, time, where))
    error = ETIMEDOUT;
  errno = error;
  return error == 0 ? 0 : -1;
}

}  // namespace lanyard::interleaving
