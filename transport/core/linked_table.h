// LinkedTable: a hash table of items that hold their own links, so that it allocates nothing but its slots. Of the
// items that fit it finds the oldest; all take constant time on average, however many items are alike.
#ifndef LANYARD_TRANSPORT_CORE_LINKED_TABLE_H_
#define LANYARD_TRANSPORT_CORE_LINKED_TABLE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lanyard::core {

template <typename Item>
struct Links {
  Item* next = nullptr;  // in its slot
  Item* previous = nullptr;
};

// Key has links(item), its links in this table, and hash(item), which stays the same while it is there.
template <typename Item, typename Key>
class LinkedTable {
 public:
  explicit LinkedTable(Key key = {}) : key_(key) {}

  void add(Item& item) {
    if (count_ >= slots_.size())
      grow();
    ++count_;
    append(item);
  }
  // Requires that it is there.
  void remove(Item& item) {
    Slot& slot = slot_of(key_.hash(item));
    const Links<Item> links = std::exchange(key_.links(item), {});
    (links.previous == nullptr ? slot.first : key_.links(*links.previous).next) = links.next;
    (links.next == nullptr ? slot.last : key_.links(*links.next).previous) = links.previous;
    --count_;
  }
  // The first that was added of those with that hash that fit; null if there is none.
  template <typename Fits>
  Item* find(uint64_t hash, Fits fits) const {
    if (count_ == 0)
      return nullptr;
    Item* item = slot_of(hash).first;
    while (item != nullptr && !fits(*item))
      item = key_.links(*item).next;
    return item;
  }
  bool empty() const { return count_ == 0; }

 private:
  struct Slot {
    Item* first = nullptr;
    Item* last = nullptr;
  };
  static constexpr size_t kFirstSlots = 8;  // a power of two, as every later size

  // Top bits of a product with the golden ratio, which spread what lies at equal distances (Knuth, volume 3, section
  // 6.4).
  size_t place(uint64_t hash) const { return ((hash ^ hash >> 29) * 0x9e3779b97f4a7c15u) >> shift_; }
  Slot& slot_of(uint64_t hash) { return slots_[place(hash)]; }
  const Slot& slot_of(uint64_t hash) const { return slots_[place(hash)]; }

  void append(Item& item) {
    Slot& slot = slot_of(key_.hash(item));
    key_.links(item) = {nullptr, slot.last};
    (slot.last == nullptr ? slot.first : key_.links(*slot.last).next) = &item;
    slot.last = &item;
  }
  // What is alike stands in one slot before and after, so that its order stays.
  void grow() {
    std::vector<Slot> old(slots_.empty() ? kFirstSlots : 2 * slots_.size());
    old.swap(slots_);
    shift_ = 64 - std::countr_zero(slots_.size());
    for (const Slot& slot : old)
      for (Item* item = slot.first; item != nullptr;)
        append(*std::exchange(item, key_.links(*item).next));
  }

  const Key key_;
  std::vector<Slot> slots_;
  int shift_ = 0;
  size_t count_ = 0;
};

}  // namespace lanyard::core

#endif  // LANYARD_TRANSPORT_CORE_LINKED_TABLE_H_
