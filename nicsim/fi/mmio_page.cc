#include "nicsim/fi/mmio_page.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

#include "nicsim/fi/counter.h"
#include "nicsim/fi/cxi_ext.h"
#include "nicsim/fi/store_decoder.h"

namespace lanyard::nicsim::fi {

namespace {

constexpr size_t kPageBytes = 4096;

// What the handler looks through. A handler may take no lock, so places are only ever exchanged
// whole.
std::array<std::atomic<MmioPage*>, 4096> pages{};

std::mutex install_mutex;
bool installed = false;  // guarded by it
struct sigaction previous = {};

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr)
    return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN)
    return previous.sa_handler(signal);
  // The instruction faults again and ends the process as if there had been no handler.
  ::sigaction(signal, &previous, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  for (const std::atomic<MmioPage*>& place : pages) {
    MmioPage* page = place.load(std::memory_order_acquire);
    if (page == nullptr || !page->holds(info->si_addr))
      continue;
    uint64_t value = 0;
    if (!take_store(*static_cast<ucontext_t*>(context), value))
      break;
    page->store(static_cast<size_t>(static_cast<std::byte*>(info->si_addr) - static_cast<std::byte*>(page->address())),
                value);
    errno = saved;
    return;
  }
  errno = saved;
  pass_on(signal, info, context);
}

Status install() {
  const std::lock_guard lock(install_mutex);
  if (installed)
    return {};
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  // Not deferred: a fault inside the handler must not go unseen.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  if (::sigaction(SIGSEGV, &action, &previous) != 0)
    return {Code::kFailed, "the system takes no handler for SIGSEGV"};
  installed = true;
  return {};
}

}  // namespace

Result<std::unique_ptr<MmioPage>> MmioPage::map(Counter& counter) {
  if (!kDecodesStores)
    return Status(Code::kUnsupported, "stores can be trapped on x86-64 alone");
  if (const Status status = install(); !status.ok())
    return status;
  void* memory = ::mmap(nullptr, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Status(Code::kFailed, "no memory for a page of registers");
  std::unique_ptr<MmioPage> page(new MmioPage(counter, memory));
  for (std::atomic<MmioPage*>& place : pages) {
    MmioPage* free = nullptr;
    if (place.compare_exchange_strong(free, page.get(), std::memory_order_acq_rel))
      return page;
  }
  return Status(Code::kExhausted, "too many pages of registers");
}

MmioPage::~MmioPage() {
  for (std::atomic<MmioPage*>& place : pages) {
    MmioPage* self = this;
    if (place.compare_exchange_strong(self, nullptr, std::memory_order_acq_rel))
      break;
  }
  ::munmap(page_, kPageBytes);
}

bool MmioPage::holds(const void* address) const {
  const auto* from = static_cast<const std::byte*>(page_);
  const auto* at = static_cast<const std::byte*>(address);
  return at >= from && at < from + kPageBytes;
}

// Whether it went well nobody hears: stores are posted.
void MmioPage::store(size_t offset, uint64_t value) {
  switch (static_cast<MmioRegister>(offset)) {
    case MmioRegister::kAdd: return static_cast<void>(counter_.add(value & nic::kMaxSuccess).ok());
    case MmioRegister::kAddFailure: return static_cast<void>(counter_.add_error(value & nic::kMaxFailure).ok());
    case MmioRegister::kReset:
      if (value == 0)
        static_cast<void>(counter_.set(0).ok());
      return;
    case MmioRegister::kResetFailure:
      if (value == 0)
        static_cast<void>(counter_.set_error(0).ok());
      return;
  }
}

}  // namespace lanyard::nicsim::fi
