// FuzzWorld: objects of the provider in every state, and wild arguments for their functions.
//
// What only a caller can vouch for is true: objects are open, lists are as long as the longest count that a provider
// takes, and memory is there up to the longest message. All else is drawn: null pointers, flags, sizes, counts,
// enumerations, and objects of other domains.
#ifndef LANYARD_TESTS_FI_FUZZ_WORLD_H_
#define LANYARD_TESTS_FI_FUZZ_WORLD_H_

#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/fi_fuzz_history.h"
#include "tests/fi_harness.h"

namespace lanyard {

class FuzzWorld {
 public:
  template <typename T>
  struct Object {
    T* it = nullptr;
    const fid* owner = nullptr;               // a domain's fabric, else the domain
    size_t entry_bytes = 0;                   // of a queue
    volatile std::byte* registers = nullptr;  // of a counter, once asked for
  };
  template <typename T>
  using Objects = std::vector<Object<T>>;

  static constexpr size_t kMaxMessage = 65536;
  static constexpr size_t kListed = 4;  // entries of every list

  FuzzWorld(uint64_t seed, History& history);
  // Closes everything: whatever has been called, it must be possible.
  void close_all();

  // ---- Draws
  uint64_t random();
  uint64_t below(uint64_t bound) { return random() % bound; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <typename T, size_t n>
  T pick(const T (&list)[n]) {
    return list[below(n)];
  }
  uint64_t flags();
  uint64_t number();
  size_t size();
  // Of a list: what is there, or what no provider takes.
  size_t count() {
    return tame_ ? 1 : one_in(20) ? 1000 + number() % (uint64_t{1} << 62) : one_in(4) ? below(kListed + 1) : 1;
  }
  fi_addr_t address();
  uint64_t key();
  uint64_t offset();
  template <typename E>
  E enumeration(int last) {
    const int wild[] = {-1, last + 1, 15, 1000, INT32_MAX};
    return static_cast<E>(!tame_ && one_in(10) ? pick(wild) : static_cast<int>(below(static_cast<uint64_t>(last) + 1)));
  }
  fi_datatype datatype() { return !tame_ && one_in(3) ? enumeration<fi_datatype>(FI_DATATYPE_LAST) : FI_UINT64; }
  fi_op op() {
    return !tame_ && one_in(3) ? enumeration<fi_op>(FI_ATOMIC_OP_LAST) : pick({FI_SUM, FI_ATOMIC_WRITE, FI_CSWAP});
  }
  // Memory of kMaxMessage bytes at least, or null.
  std::byte* local() { return !tame_ && one_in(25) ? nullptr : memory_.data() + below(kMaxMessage / 8) * 8; }
  // Memory that is a target, of kMaxMessage bytes at least.
  std::byte* target() { return memory_.data() + 2 * kMaxMessage + below(kMaxMessage / 8) * 8; }
  void* wild_pointer() { return one_in(2) ? nullptr : reinterpret_cast<void*>(random()); }
  // Filled in, or null.
  template <typename T>
  T* or_null(T* pointer, uint64_t n = 25) {
    return !tame_ && one_in(n) ? nullptr : pointer;
  }
  // Half of the calls could be a user's: what they are asked for happens, and all objects come into use.
  void tame() { tame_ = one_in(2); }

  // An info of the provider's, most often as it came. Good until the next call.
  fi_info* info();
  iovec* pieces();
  fi_rma_iov* remote_pieces();
  fi_ioc* operands();
  fi_rma_ioc* remote_operands();
  void** descriptors() { return or_null(descriptors_.data(), 2); }
  fi_msg* message();
  fi_msg_tagged* tagged_message();
  fi_msg_rma* rma_message();
  fi_msg_atomic* atomic_message();

  // ---- Objects. One of the domain that is at home now, most often; null where there is none.
  void move();  // to another domain, perhaps
  fid_fabric* fabric() { return any(fabrics); }
  fid_domain* domain();
  fid_ep* endpoint() { return any(endpoints); }
  fid_av* vector() { return any(vectors); }
  fid_cq* queue() { return any(queues); }
  fid_cntr* counter() { return any(counters); }
  fid_mr* region() { return any(regions); }
  fid_eq* event_queue() { return any(event_queues); }
  // Of any class.
  fid* object();
  template <typename T>
  T* any(const Objects<T>& objects) {
    if (objects.empty())
      return nullptr;
    for (int tries = 0; tries < 8; ++tries) {
      const Object<T>& object = objects[below(objects.size())];
      if (object.owner == home_ || (!tame_ && one_in(12)))
        return object.it;
    }
    return objects[below(objects.size())].it;
  }
  template <typename T>
  bool has(const Objects<T>& objects) const {
    return std::any_of(objects.begin(), objects.end(), [&](const auto& object) { return object.owner == home_; });
  }
  const Object<fid_cq>* details_of(const fid_cq* queue) const { return find(queues, queue); }
  Object<fid_cntr>* details_of(const fid_cntr* counter) {
    return const_cast<Object<fid_cntr>*>(find(counters, counter));
  }

  // Keeps what a call has opened. `opened` is null where it failed.
  template <typename T>
  void keep(Objects<T>& objects, T* opened, const void* owner, const char* kind, size_t entry_bytes = 0) {
    if (opened == nullptr)
      return;
    objects.push_back({opened, static_cast<const fid*>(owner), entry_bytes, nullptr});
    names_[opened] = kind + std::to_string(opened_++);
  }
  // Closes one: gone, or still open where that is refused.
  template <typename T>
  void close_one(Objects<T>& objects) {
    if (objects.empty())
      return;
    const size_t place = below(objects.size());
    T* const fid = objects[place].it;
    if (call("fi_close", fi_close, &fid->fid) != 0)
      return;
    if (home_ == static_cast<const void*>(fid))
      home_ = nullptr;
    objects.erase(objects.begin() + static_cast<ptrdiff_t>(place));
    names_.erase(fid);
  }

  // ---- Calls
  template <typename F, typename... Arguments>
  auto call(const char* name, F function, Arguments... arguments) {
    std::string text = std::string(name) + "(";
    ((text += shown(arguments) + ", "), ...);
    if (!note_.empty())
      text += "[" + note_ + "], ";
    note_.clear();
    text.replace(text.size() - 2, 2, ")");
    history_.begin(text);
    const auto result = function(arguments...);
    // A text need not have an end: there may have been no room for it.
    if constexpr (std::is_pointer_v<std::remove_const_t<decltype(result)>>)
      history_.end(result == nullptr ? "null" : "a pointer");
    else
      history_.end(shown(result));
    if constexpr (std::is_signed_v<decltype(result)>) {
      EXPECT_GE(result, -512) << name << " returned no error of libfabric's";
    }
    return result;
  }
  // As call(), for a function that writes an object's address to its argument `&out`.
  template <typename T, typename Call>
  T* opened(Call function) {
    T* const untouched = reinterpret_cast<T*>(uintptr_t{0x5a5a5a5a5a5a5a5a});
    T* out = untouched;
    const bool takes = tame_ || !one_in(30);
    const auto error = function(takes ? &out : nullptr);
    if (error == 0) {
      EXPECT_TRUE(takes && out != untouched && out != nullptr) << history_.text();
      return out == untouched ? nullptr : out;
    }
    EXPECT_EQ(out, untouched) << "a failed call has written\n" << history_.text();
    return nullptr;
  }
  // Said with the next call: what is in a structure that it is given.
  template <typename... T>
  void note(const T&... parts) {
    ((note_ += shown(parts) + " "), ...);
  }

  Objects<fid_fabric> fabrics;
  Objects<fid_domain> domains;
  Objects<fid_ep> endpoints;
  Objects<fid_av> vectors;
  Objects<fid_cq> queues;
  Objects<fid_cntr> counters;
  Objects<fid_mr> regions;
  Objects<fid_eq> event_queues;
  std::vector<std::vector<std::byte>> addresses;  // that fi_getname() has told

 private:
  template <typename T>
  static const Object<T>* find(const Objects<T>& objects, const T* fid) {
    for (const Object<T>& object : objects) {
      if (object.it == fid)
        return &object;
    }
    return nullptr;
  }
  template <typename T>
  void close_each(Objects<T>& objects) {
    for (const Object<T>& object : objects) {
      EXPECT_EQ(call("fi_close", fi_close, &object.it->fid), 0) << history_.text();
    }
    objects.clear();
  }

  std::string shown(const char* text) const { return text == nullptr ? "null" : text; }
  template <typename T>
  std::string shown(T value) const {
    if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
      if (value == nullptr)
        return "null";
      const auto found = names_.find(const_cast<const void*>(static_cast<const volatile void*>(value)));
      if (found != names_.end())
        return found->second;
      char text[24];
      std::snprintf(text, sizeof text, "%p", const_cast<const void*>(static_cast<const volatile void*>(value)));
      return text;
    } else if constexpr (std::is_null_pointer_v<T>) {
      return "null";
    } else if constexpr (std::is_enum_v<T>) {
      return std::to_string(static_cast<int>(value));
    } else {
      return static_cast<int64_t>(value) >= -1024 && static_cast<int64_t>(value) < 1 << 20
                 ? std::to_string(static_cast<int64_t>(value))
                 : hexadecimal(static_cast<uint64_t>(value));
    }
  }
  static std::string hexadecimal(uint64_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
  }

  History& history_;
  uint64_t state_;
  bool tame_ = true;
  const fid* home_ = nullptr;
  uint64_t opened_ = 0;
  std::string note_;
  std::map<const void*, std::string> names_;
  std::vector<std::byte> memory_;
  std::vector<Info> infos_;

  // What the last draw of the kind gave.
  struct {
    fi_info info;
    fi_domain_attr domain;
    fi_ep_attr endpoint;
    fi_tx_attr transmit;
    fi_rx_attr receive;
  } drawn_ = {};
  std::array<iovec, kListed> pieces_ = {};
  std::array<fi_rma_iov, kListed> remote_pieces_ = {};
  std::array<std::array<fi_ioc, kListed>, 3> operands_ = {};
  size_t next_operands_ = 0;
  std::array<fi_rma_ioc, kListed> remote_operands_ = {};
  std::array<void*, kListed> descriptors_ = {};
  fi_msg message_ = {};
  fi_msg_tagged tagged_message_ = {};
  fi_msg_rma rma_message_ = {};
  fi_msg_atomic atomic_message_ = {};
};

// Opens some of everything.
void open_world(FuzzWorld& world);
// Makes one call, drawn with its arguments.
void make_wild_call(FuzzWorld& world);

}  // namespace lanyard

#endif  // LANYARD_TESTS_FI_FUZZ_WORLD_H_
