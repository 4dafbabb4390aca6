// Immediate atomics: operations and types, what they leave and return, what is refused.
#include <complex>
#include <cstring>
#include <limits>

#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kTable[] = "cxip_atomic.c: _cxip_amo_valid";
constexpr char kCommon[] = "cxip_atomic.c: cxip_amo_common()";
constexpr char kOpcode[] = "cxip_atomic.c: _cxip_atomic_opcode()";

template <typename T>
constexpr fi_datatype type_of() {
  if constexpr (std::is_same_v<T, std::complex<float>>)
    return FI_FLOAT_COMPLEX;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return FI_DOUBLE_COMPLEX;
  else if constexpr (std::is_same_v<T, float>)
    return FI_FLOAT;
  else if constexpr (std::is_same_v<T, double>)
    return FI_DOUBLE;
  else if constexpr (std::is_signed_v<T>)
    return sizeof(T) == 1 ? FI_INT8 : sizeof(T) == 2 ? FI_INT16 : sizeof(T) == 4 ? FI_INT32 : FI_INT64;
  else
    return sizeof(T) == 1 ? FI_UINT8 : sizeof(T) == 2 ? FI_UINT16 : sizeof(T) == 4 ? FI_UINT32 : FI_UINT64;
}

// Target memory of 16 bytes, for values of any type.
struct Target {
  explicit Target(Node& given) : node(given), region(node.region(memory, sizeof memory)), here(node.here(region)) {}
  // What an operation leaves where `before` was, and returns into `old`.
  template <typename T>
  T after(fi_op op, T before, T operand, T* old = nullptr, const T* compare = nullptr) {
    std::memcpy(memory, &before, sizeof before);
    const ssize_t code =
        atomic(node, {op, type_of<T>(), &operand, old, compare}, here, FI_COMPLETION | FI_TRANSMIT_COMPLETE);
    node.trial.need("operation " + std::to_string(op) + " of type " + std::to_string(type_of<T>()), code);
    node.next_entry("it");
    T left;
    std::memcpy(&left, memory, sizeof left);
    return left;
  }
  Node& node;
  alignas(16) std::byte memory[16] = {};
  Owned<fid_mr> region;
  Remote here;
};

// One check for each type of a list, named in the report by their number.
template <typename... T>
struct Types {
  template <typename Check>
  static void each(Trial& t, const char* what, Check check) {
    bool right = true;
    ((right = check(T{}) && right), ...);
    t.holds(std::string(what) + ", " + std::to_string(sizeof...(T)) + " types", right);
  }
};
using Integers = Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t>;
using Numbers = Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, float, double>;
using All = Types<int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t, float, double,
                  std::complex<float>, std::complex<double>>;

template <typename List>
void leaves(Trial& t, fi_op op, const char* what, int before, int operand, int expected) {
  Node node(t);
  Target target(node);
  List::each(t, what, [&](auto zero) {
    using T = decltype(zero);
    return target.after<T>(op, static_cast<T>(before), static_cast<T>(operand)) == static_cast<T>(expected);
  });
}

void sum(Trial& t) { leaves<All>(t, FI_SUM, "5 + 3 = 8", 5, 3, 8); }
void minimum(Trial& t) { leaves<Numbers>(t, FI_MIN, "min(5, 3) = 3", 5, 3, 3); }
void maximum(Trial& t) { leaves<Numbers>(t, FI_MAX, "max(5, 9) = 9", 5, 9, 9); }
void bit_or(Trial& t) { leaves<Integers>(t, FI_BOR, "12 | 10 = 14", 12, 10, 14); }
void bit_and(Trial& t) { leaves<Integers>(t, FI_BAND, "12 & 10 = 8", 12, 10, 8); }
void bit_xor(Trial& t) { leaves<Integers>(t, FI_BXOR, "12 ^ 10 = 6", 12, 10, 6); }
void logic_or(Trial& t) { leaves<Integers>(t, FI_LOR, "0 || 7 = 1", 0, 7, 1); }
void logic_and(Trial& t) { leaves<Integers>(t, FI_LAND, "5 && 7 = 1", 5, 7, 1); }
void logic_xor(Trial& t) { leaves<Integers>(t, FI_LXOR, "5 xor 7 = 0", 5, 7, 0); }
void writes(Trial& t) { leaves<All>(t, FI_ATOMIC_WRITE, "a write of 9 over 5", 5, 9, 9); }

void signs(Trial& t) {
  Node node(t);
  Target target(node);
  t.holds("min(-1, 1) = -1 of int32", target.after<int32_t>(FI_MIN, -1, 1) == -1);
  t.holds("min(2^32 - 1, 1) = 1 of uint32", target.after<uint32_t>(FI_MIN, UINT32_MAX, 1) == 1);
}

void wraps(Trial& t) {
  Node node(t);
  Target target(node);
  t.holds("2^64 - 1 + 2 = 1", target.after<uint64_t>(FI_SUM, UINT64_MAX, 2) == 1);
  t.holds("255 + 2 = 1 of 8 bits", target.after<uint8_t>(FI_SUM, 255, 2) == 1);
}

void neighbours(Trial& t) {
  Node node(t);
  Target target(node);
  std::memset(target.memory, 0xff, sizeof target.memory);
  target.after<uint16_t>(FI_SUM, 1, 1);
  t.holds("a sum of 2 bytes leaves the others", target.memory[2] == std::byte{0xff});
}

template <typename List>
void fetches(Trial& t, fi_op op, const char* what, int before, int operand, int expected) {
  Node node(t);
  Target target(node);
  List::each(t, what, [&](auto zero) {
    using T = decltype(zero);
    T old{};
    return target.after<T>(op, static_cast<T>(before), static_cast<T>(operand), &old) == static_cast<T>(expected) &&
           old == static_cast<T>(before);
  });
}

void fetch_sum(Trial& t) { fetches<All>(t, FI_SUM, "5 + 3 = 8 returns 5", 5, 3, 8); }
void fetch_order(Trial& t) {
  fetches<Numbers>(t, FI_MIN, "min(5, 3) = 3 returns 5", 5, 3, 3);
  fetches<Numbers>(t, FI_MAX, "max(5, 9) = 9 returns 5", 5, 9, 9);
}
void fetch_bits(Trial& t) {
  fetches<Integers>(t, FI_BOR, "12 | 10 = 14 returns 12", 12, 10, 14);
  fetches<Integers>(t, FI_BAND, "12 & 10 = 8 returns 12", 12, 10, 8);
  fetches<Integers>(t, FI_BXOR, "12 ^ 10 = 6 returns 12", 12, 10, 6);
}
void fetch_logic(Trial& t) {
  fetches<Integers>(t, FI_LOR, "0 || 7 = 1 returns 0", 0, 7, 1);
  fetches<Integers>(t, FI_LAND, "5 && 7 = 1 returns 5", 5, 7, 1);
  fetches<Integers>(t, FI_LXOR, "5 xor 7 = 0 returns 5", 5, 7, 0);
}
void fetch_write(Trial& t) { fetches<All>(t, FI_ATOMIC_WRITE, "a write of 9 over 5 returns 5", 5, 9, 9); }

void fetch_read(Trial& t) {
  Node node(t);
  Target target(node);
  const uint64_t there = 77;
  std::memcpy(target.memory, &there, sizeof there);
  uint64_t old = 0;
  t.code("FI_ATOMIC_READ without an operand",
         fi_fetch_atomic(node.ep.get(), nullptr, 1, nullptr, &old, nullptr, target.here.to, 0, target.here.key,
                         FI_UINT64, FI_ATOMIC_READ, nullptr),
         0);
  t.soon("77 is returned", [&] {
    node.read_queue();
    return static_cast<volatile uint64_t&>(old) == 77;
  });
}

// Whether `operand` takes the place of 5 when it is compared with `compare`.
template <typename T>
bool swaps(Target& target, fi_op op, int compare) {
  const T with = static_cast<T>(compare);
  T old{};
  const T left = target.after<T>(op, static_cast<T>(5), static_cast<T>(9), &old, &with);
  target.node.trial.need("the old value is returned", old == static_cast<T>(5), true);
  return left == static_cast<T>(9);
}

void compare_equal(Trial& t) {
  Node node(t);
  Target target(node);
  All::each(t, "FI_CSWAP with 5 swaps, with 4 does not", [&](auto zero) {
    using T = decltype(zero);
    return swaps<T>(target, FI_CSWAP, 5) && !swaps<T>(target, FI_CSWAP, 4);
  });
}

void compare_unequal(Trial& t) {
  Node node(t);
  Target target(node);
  All::each(t, "FI_CSWAP_NE with 4 swaps, with 5 does not", [&](auto zero) {
    using T = decltype(zero);
    return swaps<T>(target, FI_CSWAP_NE, 4) && !swaps<T>(target, FI_CSWAP_NE, 5);
  });
}

void compare_less(Trial& t) {
  Node node(t);
  Target target(node);
  Numbers::each(t, "FI_CSWAP_LT with 4 swaps, with 5 and 6 does not; FI_CSWAP_LE with 5, too", [&](auto zero) {
    using T = decltype(zero);
    return swaps<T>(target, FI_CSWAP_LT, 4) && !swaps<T>(target, FI_CSWAP_LT, 5) && !swaps<T>(target, FI_CSWAP_LT, 6) &&
           swaps<T>(target, FI_CSWAP_LE, 5) && !swaps<T>(target, FI_CSWAP_LE, 6);
  });
}

void compare_greater(Trial& t) {
  Node node(t);
  Target target(node);
  Numbers::each(t, "FI_CSWAP_GT with 6 swaps, with 5 and 4 does not; FI_CSWAP_GE with 5, too", [&](auto zero) {
    using T = decltype(zero);
    return swaps<T>(target, FI_CSWAP_GT, 6) && !swaps<T>(target, FI_CSWAP_GT, 5) && !swaps<T>(target, FI_CSWAP_GT, 4) &&
           swaps<T>(target, FI_CSWAP_GE, 5) && !swaps<T>(target, FI_CSWAP_GE, 4);
  });
}

void masked(Trial& t) {
  Node node(t);
  Target target(node);
  Integers::each(t, "FI_MSWAP puts 6 of 0x66 under mask 0x0f over 0x11", [&](auto zero) {
    using T = decltype(zero);
    const T mask = static_cast<T>(0x0f);
    T old{};
    return target.after<T>(FI_MSWAP, static_cast<T>(0x11), static_cast<T>(0x66), &old, &mask) == static_cast<T>(0x16) &&
           old == static_cast<T>(0x11);
  });
}

ssize_t plain(Target& target, fi_op op, fi_datatype type) {
  static const std::byte kOperand[32] = {};
  return atomic(target.node, {op, type, kOperand}, target.here);
}

void unsupported(Trial& t) {
  Node node(t);
  Target target(node);
  t.code("FI_PROD", plain(target, FI_PROD, FI_UINT64), -FI_EOPNOTSUPP);
  t.code("FI_CSWAP without comparing", plain(target, FI_CSWAP, FI_UINT64), -FI_EOPNOTSUPP);
  t.code("FI_ATOMIC_READ without fetching", plain(target, FI_ATOMIC_READ, FI_UINT64), -FI_EOPNOTSUPP);
  t.code("FI_SUM of long double", plain(target, FI_SUM, FI_LONG_DOUBLE), -FI_EOPNOTSUPP);
  t.code("FI_BOR of double", plain(target, FI_BOR, FI_DOUBLE), -FI_EOPNOTSUPP);
  t.code("FI_MIN of complex", plain(target, FI_MIN, FI_FLOAT_COMPLEX), -FI_EOPNOTSUPP);
}

void out_of_range(Trial& t) {
  Node node(t);
  Target target(node);
  t.code("type 99", plain(target, FI_SUM, static_cast<fi_datatype>(99)), -FI_EINVAL);
  t.code("operation 99", plain(target, static_cast<fi_op>(99), FI_UINT64), -FI_EINVAL);
}

void valid(Trial& t) {
  Node node(t);
  size_t count = 0;
  t.code("fi_atomicvalid(FI_SUM)", fi_atomicvalid(node.ep.get(), FI_DOUBLE, FI_SUM, &count), 0);
  t.value("count", count, 1);
  t.code("fi_fetch_atomicvalid(FI_ATOMIC_READ)", fi_fetch_atomicvalid(node.ep.get(), FI_UINT32, FI_ATOMIC_READ, &count),
         0);
  t.code("fi_compare_atomicvalid(FI_MSWAP)", fi_compare_atomicvalid(node.ep.get(), FI_INT16, FI_MSWAP, &count), 0);
  t.code("fi_compare_atomicvalid(FI_MSWAP) of double",
         fi_compare_atomicvalid(node.ep.get(), FI_DOUBLE, FI_MSWAP, &count), -FI_EOPNOTSUPP);
  t.code("fi_atomicvalid(FI_PROD)", fi_atomicvalid(node.ep.get(), FI_DOUBLE, FI_PROD, &count), -FI_EOPNOTSUPP);
}

void query(Trial& t) {
  Node node(t);
  fi_atomic_attr attributes = {};
  t.code("FI_SUM", fi_query_atomic(node.domain.get(), FI_DOUBLE_COMPLEX, FI_SUM, &attributes, 0), 0);
  t.value("count", attributes.count, 1);
  t.value("size", attributes.size, 16);
  t.code("both flags",
         fi_query_atomic(node.domain.get(), FI_UINT64, FI_SUM, &attributes, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC),
         -FI_EINVAL);
  t.code("no attributes", fi_query_atomic(node.domain.get(), FI_UINT64, FI_SUM, nullptr, 0), -FI_EINVAL);
  t.code("FI_CSWAP of FI_FETCH_ATOMIC",
         fi_query_atomic(node.domain.get(), FI_UINT64, FI_CSWAP, &attributes, FI_FETCH_ATOMIC), -FI_EOPNOTSUPP);
}

void counts_of_one(Trial& t) {
  Node node(t);
  Target target(node);
  uint64_t words[2] = {};
  t.code("two values",
         fi_atomic(node.ep.get(), words, 2, nullptr, target.here.to, 0, target.here.key, FI_UINT64, FI_SUM, nullptr),
         -FI_EINVAL);
  t.code("none",
         fi_atomic(node.ep.get(), words, 0, nullptr, target.here.to, 0, target.here.key, FI_UINT64, FI_SUM, nullptr),
         -FI_EINVAL);
}

void vectors_of_one(Trial& t) {
  Node node(t);
  Target target(node);
  uint64_t words[2] = {};
  const fi_ioc pieces[] = {{&words[0], 1}, {&words[1], 1}};
  t.code("two pieces",
         fi_atomicv(node.ep.get(), pieces, nullptr, 2, target.here.to, 0, target.here.key, FI_UINT64, FI_SUM, nullptr),
         -FI_EINVAL);
  t.code("none",
         fi_atomicv(node.ep.get(), pieces, nullptr, 0, target.here.to, 0, target.here.key, FI_UINT64, FI_SUM, nullptr),
         -FI_EINVAL);
}

void missing(Trial& t) {
  Node node(t);
  Target target(node);
  uint64_t word = 0;
  fid_ep* const ep = node.ep.get();
  const Remote& here = target.here;
  t.code("no message", fi_atomicmsg(ep, nullptr, 0), -FI_EINVAL);
  t.code("no operand", fi_atomic(ep, nullptr, 1, nullptr, here.to, 0, here.key, FI_UINT64, FI_SUM, nullptr),
         -FI_EINVAL);
  t.code("no result",
         fi_fetch_atomic(ep, &word, 1, nullptr, nullptr, nullptr, here.to, 0, here.key, FI_UINT64, FI_SUM, nullptr),
         -FI_EINVAL);
  t.code("no comparison",
         fi_compare_atomic(ep, &word, 1, nullptr, nullptr, nullptr, &word, nullptr, here.to, 0, here.key, FI_UINT64,
                           FI_CSWAP, nullptr),
         -FI_EINVAL);
}

void keys(Trial& t) {
  Node node(t);
  uint64_t word = 0;
  t.code("a key that cannot be one", atomic(node, {.operand = &word}, {node.self, uint64_t{1} << 40, 0}),
         -FI_EKEYREJECTED);
}

void flags(Trial& t) {
  Node node(t);
  Target target(node);
  uint64_t word = 0;
  t.code("FI_PEEK", atomic(node, {.operand = &word}, target.here, FI_PEEK), -FI_EBADFLAGS);
  t.code("FI_FENCE without the capability", atomic(node, {.operand = &word}, target.here, FI_FENCE), -FI_EINVAL);
}

void injects(Trial& t) {
  Node node(t);
  Target target(node);
  uint64_t word = 5;
  t.code("fi_inject_atomic()",
         fi_inject_atomic(node.ep.get(), &word, 1, target.here.to, 0, target.here.key, FI_UINT64, FI_SUM), 0);
  word = 1000;
  t.soon("what the operand was at the call is added", [&] {
    node.read_queue();
    uint64_t there = 0;
    std::memcpy(&there, target.memory, sizeof there);
    return there == 5;
  });
  t.never("entry", [&] { return node.read_queue().code != -FI_EAGAIN; });
}

void counters(Trial& t) {
  Node node(t, {.enable = false});
  const auto writes = node.counter(), reads = node.counter();
  t.need("binding one", fi_ep_bind(node.ep.get(), &writes->fid, FI_WRITE));
  t.need("binding the other", fi_ep_bind(node.ep.get(), &reads->fid, FI_READ));
  node.enable(node.ep);
  node.self = node.know(node.ep);
  {
    Target target(node);
    uint64_t old = 0;
    target.after<uint64_t>(FI_SUM, 1, 1);
    target.after<uint64_t>(FI_SUM, 1, 1);
    target.after<uint64_t>(FI_SUM, 1, 1, &old);
    counts(t, "FI_WRITE after two sums and a fetching one", writes, 2);
    counts(t, "FI_READ", reads, 1);
  }
  node.ep.reset();
}

void beyond_end(Trial& t) {
  Node node(t, {.mr_mode = kUserKeys});
  uint64_t one = 1, word = 0;
  const auto region = node.region(&word, sizeof word, nullptr, 3);
  t.need("fi_atomicmsg()", atomic(node, {.operand = &one}, {node.self, 3, 64}, FI_COMPLETION));
  t.value("err", static_cast<uint64_t>(node.next_error("a sum at 64 of 8").err), FI_EIO);
}

void delivered(Trial& t) {
  Node node(t);
  Target target(node);
  uint64_t one = 1, old = 7;
  t.need("fi_fetch_atomicmsg()",
         atomic(node, {.operand = &one, .result = &old}, target.here, FI_COMPLETION | FI_DELIVERY_COMPLETE));
  node.next_entry("a fetching sum that is delivered");
  t.value("returned", old, 0);
  t.holds("and added", target.memory[0] == std::byte{1});
}

void delivered_counted(Trial& t) {
  Node node(t);
  uint64_t one = 1, word = 0, old = 0;
  const auto counter = node.counter();
  const auto region = node.region(&word, sizeof word, counter.get());
  t.code("FI_DELIVERY_COMPLETE",
         atomic(node, {.operand = &one, .result = &old}, node.here(region), FI_COMPLETION | FI_DELIVERY_COMPLETE),
         -FI_EINVAL);
}

void many(Trial& t) {
  Node node(t);
  Target target(node);
  uint64_t one = 1;
  int queued = 0;
  t.soon("200 sums are taken", [&] {
    const ssize_t code = atomic(node, {.operand = &one}, target.here);
    if (code == -FI_EAGAIN)
      node.read_queue();
    else
      t.need("fi_atomicmsg()", code);
    queued += code == 0;
    return queued == 200;
  });
  t.soon("and their sum is 200", [&] {
    node.read_queue();
    uint64_t there = 0;
    std::memcpy(&there, target.memory, sizeof there);
    return there == 200;
  });
}

}  // namespace

Group atomic_rules() {
  return {
      "atomics",
      {
          {"AtomicSum", "FI_SUM is there for all types up to double complex.", kTable, kAll, sum},
          {"AtomicMin", "FI_MIN for integers, float and double.", kTable, kAll, minimum},
          {"AtomicMax", "FI_MAX for the same.", kTable, kAll, maximum},
          {"AtomicBitOr", "FI_BOR for integers.", kTable, kAll, bit_or},
          {"AtomicBitAnd", "FI_BAND for integers.", kTable, kAll, bit_and},
          {"AtomicBitXor", "FI_BXOR for integers.", kTable, kAll, bit_xor},
          {"AtomicLogicOr", "FI_LOR for integers, leaving 0 or 1.", kTable, kAll, logic_or},
          {"AtomicLogicAnd", "FI_LAND for integers.", kTable, kAll, logic_and},
          {"AtomicLogicXor", "FI_LXOR for integers.", kTable, kAll, logic_xor},
          {"AtomicWrite", "FI_ATOMIC_WRITE for all types.", kTable, kAll, writes},
          {"AtomicSigns", "Orders are those of the type's sign.", "cxip_atomic.c: _cxip_amo_type_code", kAll, signs},
          {"AtomicWraps", "Sums of integers wrap around.", "cxip_atomic.c: _cxip_amo_op_code", kAll, wraps},
          {"AtomicNeighbours", "Bytes beside the value are left alone.", "cxip_atomic.c: _cxip_amo_type_code", kAll,
           neighbours},
          {"FetchSum", "A fetching FI_SUM returns what was there.", kTable, kAll, fetch_sum},
          {"FetchMinMax", "So do FI_MIN and FI_MAX.", kTable, kAll, fetch_order},
          {"FetchBits", "And the operations on bits.", kTable, kAll, fetch_bits},
          {"FetchLogic", "And the logical ones.", kTable, kAll, fetch_logic},
          {"FetchWrite", "And FI_ATOMIC_WRITE.", kTable, kAll, fetch_write},
          {"FetchRead", "FI_ATOMIC_READ needs no operand.", kCommon, kAll, fetch_read},
          {"CompareEqual", "FI_CSWAP for all types.", kTable, kAll, compare_equal},
          {"CompareUnequal", "FI_CSWAP_NE for all types.", kTable, kAll, compare_unequal},
          {"CompareLess", "FI_CSWAP_LE and _LT swap where the compared value is (not) less than what is there.",
           "cxip_atomic.c: _cxip_amo_swpcode", kAll, compare_less},
          {"CompareGreater", "FI_CSWAP_GE and _GT the other way round.", "cxip_atomic.c: _cxip_amo_swpcode", kAll,
           compare_greater},
          {"CompareMasked", "FI_MSWAP replaces the bits of its mask, for integers.", kTable, kAll, masked},
          {"AtomicUnsupported", "What the table lacks is -FI_EOPNOTSUPP.", kOpcode, kAll, unsupported},
          {"AtomicOutOfRange", "What is no type or operation is -FI_EINVAL.", kOpcode, kAll, out_of_range},
          {"AtomicValid", "The calls that ask say so, and one value an operation.", "cxip_atomic.c: _cxip_ep_valid()",
           kAll, valid},
          {"AtomicQuery", "fi_query_atomic() does, with the type's size.", "cxip_dom.c: cxip_query_atomic()", kAll,
           query},
          {"AtomicCount", "An operation is on one value.", "cxip_atomic.c: _vector_valid()", kAll, counts_of_one},
          {"AtomicVectors", "A vector has one piece.", "cxip_atomic.c: _vector_valid()", kAll, vectors_of_one},
          {"AtomicMissing", "Message, operand, result and comparison must be there.", kCommon, kAll, missing},
          {"AtomicKeys", "A key that cannot be one is -FI_EKEYREJECTED.", kCommon, kAll, keys},
          {"AtomicFlags", "Flags that atomics do not have are -FI_EBADFLAGS.",
           "cxip_atomic.c: cxip_ep_atomic_writemsg()", kAll, flags},
          {"AtomicInject", "An injected operand is free after the call, and there is no entry.",
           "cxip_atomic.c: cxip_ep_atomic_inject()", kAll, injects},
          {"AtomicCounters", "Fetching atomics count as reads, others as writes.", "cxip_atomic.c: cxip_amo_emit_idc()",
           kAll, counters},
          {"AtomicBeyond", "An atomic beyond the region's end fails with FI_EIO.", "cxip_atomic.c: _cxip_amo_cb()",
           kAll, beyond_end},
          {"FetchDelivered", "A fetching atomic may be delivered.", "cxip_cmdq.c: cxip_cmdq_emic_idc_amo()", kAll,
           delivered},
          {"FetchDeliveredCounted", "But not one of a counted region.", "cxip_atomic.c: cxip_amo_emit_idc()", kAll,
           delivered_counted},
          {"AtomicMany", "Sums that come close together all count.", kCommon, kAll, many},
      }};
}

}  // namespace lanyard::cxi_rules
