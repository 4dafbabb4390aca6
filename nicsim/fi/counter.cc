#include "nicsim/fi/counter.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

#include "transport/cxi/cxi_extension.h"

namespace lanyard::nicsim::fi {

namespace {

// ---- Registers

#if defined(__x86_64__)

// Registers by their numbers in instructions.
constexpr int kRegisters[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

constexpr uint8_t kRexMask = 0xf0;
constexpr uint8_t kRex = 0x40;
constexpr uint8_t kRexWide = 0x08;      // 64-bit operands
constexpr uint8_t kRexRegister = 0x04;  // the fourth bit of the register number

// Returns the length of the memory operand, from its ModRM byte on; 0 if it is a register.
size_t operand_bytes(const uint8_t* form) {
  const int mode = form[0] >> 6;
  const int base = form[0] & 7;
  if (mode == 3)
    return 0;
  size_t bytes = 1;
  bool wide_offset = mode == 2 || (mode == 0 && base == 5);
  if (base == 4) {  // a scaled index follows
    wide_offset |= mode == 0 && (form[1] & 7) == 5;
    ++bytes;
  }
  return bytes + (wide_offset ? 4 : mode == 1 ? 1 : 0);
}

// If the thread's next instruction stores 64 bits of a general register or a constant (MOV, MOVNTI,
// XCHG), returns true. Sets the value and moves the thread behind the instruction. XCHG reads 0.
// Otherwise changes nothing.
bool take_store(ucontext_t& thread, uint64_t& value) {
  auto& registers = thread.uc_mcontext.gregs;
  const auto* const start = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  const uint8_t* at = start;
  if ((*at & kRexMask) != kRex || (*at & kRexWide) == 0)
    return false;  // not 64 bits
  const uint8_t rex = *at++;
  const bool streams = at[0] == 0x0f && at[1] == 0xc3;              // MOVNTI
  const bool exchanges = at[0] == 0x87;                             // XCHG
  const bool is_constant = at[0] == 0xc7 && (at[1] >> 3 & 7) == 0;  // MOV of a constant
  if (!streams && !exchanges && !is_constant && at[0] != 0x89)      // MOV
    return false;
  at += streams ? 2 : 1;
  const size_t bytes = operand_bytes(at);
  if (bytes == 0)
    return false;
  auto& stored = registers[kRegisters[(*at >> 3 & 7) | ((rex & kRexRegister) != 0 ? 8 : 0)]];
  at += bytes;
  if (is_constant) {
    int32_t constant = 0;
    std::memcpy(&constant, at, sizeof constant);
    at += sizeof constant;
    value = static_cast<uint64_t>(int64_t{constant});
  } else {
    value = static_cast<uint64_t>(stored);
    if (exchanges)
      stored = 0;
  }
  registers[REG_RIP] += at - start;
  return true;
}

constexpr size_t kPageBytes = 4096;
constexpr size_t kPages = 4096;

// The owner of each page, from `first_page` on. Atomic, because a signal handler must not lock.
std::array<std::atomic<Counter*>, kPages> owners{};
std::byte* first_page = nullptr;
struct sigaction previous = {};

size_t index_of(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(first_page)) / kPageBytes;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr)
    return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  // The instruction faults again and ends the process as without a handler.
  ::sigaction(signal, &previous, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const size_t index = index_of(info->si_addr);
  Counter* counter = index < kPages ? owners[index].load(std::memory_order_acquire) : nullptr;
  uint64_t value = 0;
  const bool taken = counter != nullptr && info->si_addr == first_page + index * kPageBytes + ofi::kCxiAddOffset &&
                     take_store(*static_cast<ucontext_t*>(context), value);
  // Stores are posted, so nobody learns of an overflow.
  if (taken)
    static_cast<void>(counter->add(value & nic::kMaxSuccess).ok());
  errno = saved;
  if (!taken)
    pass_on(signal, info, context);
}

Status install() {
  void* pages = ::mmap(nullptr, kPages * kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    return {Code::kFailed, "no memory for the pages of counter registers"};
  first_page = static_cast<std::byte*>(pages);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  // SA_NODEFER: a fault inside the handler must be seen.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return ::sigaction(SIGSEGV, &action, &previous) == 0
             ? Status()
             : Status(Code::kFailed, "the system refuses a handler for SIGSEGV");
}

// Returns a page for the counter, until unmap_registers(). Stores may come from any thread, and
// must end before that. kExhausted if all pages are in use; kFailed if the system refuses memory or
// the handler; kUnsupported unless this is an x86-64.
Result<void*> map_registers(Counter& counter) {
  static const Status installed = install();
  LANYARD_RETURN_IF_ERROR(installed);
  for (size_t index = 0; index < kPages; ++index) {
    Counter* nobody = nullptr;
    if (owners[index].compare_exchange_strong(nobody, &counter, std::memory_order_acq_rel))
      return static_cast<void*>(first_page + index * kPageBytes);
  }
  return Status(Code::kExhausted, "all " + std::to_string(kPages) + " pages of counter registers are in use");
}

void unmap_registers(void* page) { owners[index_of(page)].store(nullptr, std::memory_order_release); }

#else

Result<void*> map_registers(Counter&) { return Status(Code::kUnsupported, "stores can only be trapped on x86-64"); }
void unmap_registers(void*) {}

#endif

}  // namespace

// ---- The counter

Counter::~Counter() {
  if (page_ != nullptr)
    unmap_registers(page_);
  domain_->progress();
  domain_->retire(id_);
}

// Reads the word from the NIC. The lock keeps an older value from replacing a newer one.
nic::CounterValue Counter::refresh() {
  const std::lock_guard lock(mutex_);
  if (const Result<nic::CounterValue> value = domain_->nic().read(id_); value.ok())
    word_ = value.value();
  return word_;
}

nic::CounterValue Counter::read() {
  domain_->progress();
  if (domain_->settings().fresh_reads) {
    while (domain_->trigger_queue().stalled()) {
      if (domain_->nic().progress() == 0)
        sched_yield();
    }
    return refresh();
  }
  const nic::CounterValue before = [this] {
    const std::lock_guard lock(mutex_);
    return word_;
  }();
  if (!domain_->trigger_queue().stalled())
    refresh();
  return before;
}

Status Counter::add(uint64_t value) {
  if (value > nic::kMaxSuccess)
    return {Code::kInvalidArgument, "a counter holds 48 bits of success"};
  bell_.call(bell_.object, bell_.counter, value);
  return {};
}

Status Counter::add_error(uint64_t value) {
  return domain_->nic().add_error(id_, static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX)));
}

Status Counter::set(uint64_t value) { return written_back(domain_->nic().set(id_, value)); }

Status Counter::set_error(uint64_t value) { return written_back(domain_->nic().set_error(id_, value)); }

Status Counter::written_back(Status set) {
  if (set.ok()) {
    domain_->nic().progress();
    refresh();
  }
  return set;
}

int Counter::registers(void** address, size_t* bytes) {
  if (!domain_->settings().traps_stores)
    return -FI_ENOSYS;
  const std::lock_guard lock(mutex_);
  if (page_ == nullptr) {
    const Result<void*> page = map_registers(*this);
    if (!page.ok())
      return error_of(page.status(), FI_LOG_CNTR);
    page_ = page.value();
  }
  *address = page_;
  *bytes = sizeof(uint64_t);
  return 0;
}

namespace {

// fi_cntr_add() and the similar functions.
template <Status (Counter::*change)(uint64_t)>
int changed(struct fid_cntr* counter, uint64_t value) {
  return error_of((object_of<Counter>(counter)->*change)(value), FI_LOG_CNTR);
}

ofi::CxiCounterOps cxi_counter_ops = table_of<ofi::CxiCounterOps>([](auto& ops) {
  ops.get_mmio_addr = [](struct fid* fid, void** address, size_t* bytes) {
    return object_of<Counter>(fid)->registers(address, bytes);
  };
});

int open_counter_ops(struct fid*, const char* name, uint64_t, void** ops, void*) {
  if (std::string_view(name) != ofi::kCxiCounterOps)
    return -FI_EINVAL;
  *ops = &cxi_counter_ops;
  return 0;
}

fi_ops counter_fid_ops = fid_ops<Counter>(not_simulated, not_simulated, open_counter_ops);

fi_ops_cntr counter_ops = table_of<fi_ops_cntr>([](auto& ops) {
  ops.read = [](struct fid_cntr* counter) -> uint64_t { return object_of<Counter>(counter)->read().success; };
  ops.readerr = [](struct fid_cntr* counter) -> uint64_t { return object_of<Counter>(counter)->read().failure; };
  ops.add = changed<&Counter::add>;
  ops.set = changed<&Counter::set>;
  ops.adderr = changed<&Counter::add_error>;
  ops.seterr = changed<&Counter::set_error>;
});

}  // namespace

int open_counter(struct fid_domain* fid, struct fi_cntr_attr* attributes, struct fid_cntr** out, void* context) {
  if (attributes != nullptr) {
    if (attributes->events != FI_CNTR_EVENTS_COMP ||
        (attributes->wait_obj != FI_WAIT_NONE && attributes->wait_obj != FI_WAIT_UNSPEC))
      return -FI_ENOSYS;
    if (attributes->flags != 0)
      return -FI_EINVAL;
  }
  auto* domain = object_of<Domain>(fid);
  domain->close_retired();
  const Result<nic::CounterId> id = domain->nic().open_counter();
  if (!id.ok())
    return error_of(id.status(), FI_LOG_CNTR);
  const Result<nic::Doorbell> bell = domain->nic().doorbell(id.value(), nic::DoorbellKind::kHostCall);
  auto* counter = new Counter(*domain, id.value(), bell.value());
  counter->ops = &counter_ops;
  return hand_out(counter, FI_CLASS_CNTR, context, counter_fid_ops, out);
}

}  // namespace lanyard::nicsim::fi
