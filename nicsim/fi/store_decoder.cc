#include "nicsim/fi/store_decoder.h"

#include <cstring>

namespace lanyard::nicsim::fi {

#if defined(__x86_64__)

namespace {

// The registers by their numbers in instructions.
constexpr int kRegisters[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

constexpr uint8_t kRexMask = 0xf0;
constexpr uint8_t kRex = 0x40;
constexpr uint8_t kRexWide = 0x08;      // 64-bit operands
constexpr uint8_t kRexRegister = 0x04;  // the register's fourth bit

enum class Source { kRegister, kConstant, kExchanged };

// The bytes of the memory operand, from the byte that names its form on; 0 where it is a register.
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

}  // namespace

bool take_store(ucontext_t& thread, uint64_t& value) {
  auto& registers = thread.uc_mcontext.gregs;
  const auto* const start = reinterpret_cast<const uint8_t*>(registers[REG_RIP]);
  const uint8_t* at = start;
  if ((*at & kRexMask) != kRex || (*at & kRexWide) == 0)
    return false;  // not of 64 bits
  const uint8_t rex = *at++;

  Source source = Source::kRegister;
  if (at[0] == 0x0f && at[1] == 0xc3) {  // MOVNTI
    at += 2;
  } else if (at[0] == 0x89) {  // MOV
    at += 1;
  } else if (at[0] == 0x87) {  // XCHG
    at += 1;
    source = Source::kExchanged;
  } else if (at[0] == 0xc7 && (at[1] >> 3 & 7) == 0) {  // MOV of a constant
    at += 1;
    source = Source::kConstant;
  } else {
    return false;
  }
  const size_t bytes = operand_bytes(at);
  if (bytes == 0)
    return false;
  const int number = (*at >> 3 & 7) | ((rex & kRexRegister) != 0 ? 8 : 0);
  at += bytes;
  if (source == Source::kConstant) {
    int32_t constant = 0;
    std::memcpy(&constant, at, sizeof constant);
    at += sizeof constant;
    value = static_cast<uint64_t>(int64_t{constant});
  } else {
    value = static_cast<uint64_t>(registers[kRegisters[number]]);
    if (source == Source::kExchanged)
      registers[kRegisters[number]] = 0;
  }
  registers[REG_RIP] += at - start;
  return true;
}

#else

bool take_store(ucontext_t&, uint64_t&) { return false; }

#endif

}  // namespace lanyard::nicsim::fi
