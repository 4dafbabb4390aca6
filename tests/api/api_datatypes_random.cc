// Datatypes with gaps: nested datatypes that nobody wrote, against what MPI_Pack and MPI_Unpack make of them.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

struct Extents {
  MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  explicit Extents(MPI_Datatype type) {
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &true_lower, &true_extent);
  }
};

// Makes datatypes whose blocks never overlap, so that receives may use them.
class TypeMaker {
 public:
  explicit TypeMaker(uint32_t seed) : random_(seed) {}

  // Committed.
  MPI_Datatype make() {
    MPI_Datatype type = nested(number(1, 4));
    MPI_Type_commit(&type);
    return type;
  }
  int number(int from, int to) { return from + static_cast<int>(random_() % static_cast<uint32_t>(to - from + 1)); }
  const std::string& story() const { return story_; }

 private:
  MPI_Datatype nested(int depth) {
    if (depth == 0) {
      constexpr int kKinds = 7;
      const MPI_Datatype kinds[kKinds] = {MPI_CHAR, MPI_SHORT,     MPI_INT,       MPI_DOUBLE,
                                          MPI_2INT, MPI_SHORT_INT, MPI_DOUBLE_INT};
      const int kind = number(0, kKinds - 1);
      story_ += "named" + std::to_string(kind) + " ";
      MPI_Datatype copy = MPI_DATATYPE_NULL;
      MPI_Type_dup(kinds[kind], &copy);
      return copy;
    }
    MPI_Datatype inner = nested(depth - 1);
    MPI_Datatype made = MPI_DATATYPE_NULL;
    const int kind = number(0, 11);
    story_ += "of" + std::to_string(kind) + " ";
    switch (kind) {
      case 0: MPI_Type_dup(inner, &made); break;
      case 1: MPI_Type_contiguous(number(1, 4), inner, &made); break;
      case 2:
      case 3: vector(kind == 3, inner, &made); break;
      case 4:
      case 5:
      case 6:
      case 7: indexed(kind, inner, &made); break;
      case 8:
      case 9: subarray(kind == 9 ? MPI_ORDER_FORTRAN : MPI_ORDER_C, inner, &made); break;
      case 10: structure(depth, inner, &made); break;
      case 11: {
        const Extents of(inner);
        MPI_Type_create_resized(inner, number(-20, 20), std::max(of.true_extent, of.extent) + number(0, 9), &made);
        break;
      }
    }
    MPI_Type_free(&inner);
    return spaced(made);
  }

  // So that what is made of several of them does not overlap.
  MPI_Datatype spaced(MPI_Datatype type) {
    const Extents of(type);
    if (of.extent >= of.true_extent)
      return type;
    MPI_Datatype wide = MPI_DATATYPE_NULL;
    MPI_Type_create_resized(type, of.lower, of.true_extent, &wide);
    MPI_Type_free(&type);
    return wide;
  }

  void vector(bool by_bytes, MPI_Datatype inner, MPI_Datatype* made) {
    const int count = number(1, 4), length = number(1, 3), sign = number(0, 3) == 0 ? -1 : 1;
    // Open MPI 4.1 takes blocks that touch one another backwards for blocks that do so forwards.
    const int least = sign < 0 ? 1 : 0;
    if (by_bytes)
      MPI_Type_create_hvector(count, length, sign * (length * Extents(inner).extent + number(least, 11)), inner, made);
    else
      MPI_Type_vector(count, length, sign * (length + number(least, 3)), inner, made);
  }

  void indexed(int kind, MPI_Datatype inner, MPI_Datatype* made) {
    constexpr int kLongest = 3;
    const int count = number(1, 5), same = number(1, kLongest), step = number(0, 2) == 0 ? kLongest : kLongest + 1;
    const MPI_Aint extent = Extents(inner).extent;
    std::vector<int> lengths, places;
    std::vector<MPI_Aint> bytes;
    std::vector<int> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), number(-2, 1));
    if (number(0, 1) == 0)
      std::shuffle(order.begin(), order.end(), random_);
    for (const int place : order) {
      lengths.push_back(number(0, kLongest));
      places.push_back(place * step);
      bytes.push_back(place * (kLongest * extent + 5));
    }
    lengths.back() = kLongest;
    switch (kind) {
      case 4: MPI_Type_indexed(count, lengths.data(), places.data(), inner, made); break;
      case 5: MPI_Type_create_hindexed(count, lengths.data(), bytes.data(), inner, made); break;
      case 6: MPI_Type_create_indexed_block(count, same, places.data(), inner, made); break;
      default: MPI_Type_create_hindexed_block(count, same, bytes.data(), inner, made); break;
    }
  }

  void subarray(int order, MPI_Datatype inner, MPI_Datatype* made) {
    const int dimensions = number(1, 3);
    std::vector<int> sizes, parts, starts;
    for (int i = 0; i < dimensions; ++i) {
      sizes.push_back(number(1, 4));
      parts.push_back(number(1, sizes.back()));
      starts.push_back(number(0, sizes.back() - parts.back()));
    }
    MPI_Type_create_subarray(dimensions, sizes.data(), parts.data(), starts.data(), order, inner, made);
  }

  void structure(int depth, MPI_Datatype inner, MPI_Datatype* made) {
    MPI_Datatype other = nested(number(0, depth - 1));
    const std::vector<MPI_Datatype> types = {inner, other, inner};
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    MPI_Aint end = number(-40, 40);
    for (const MPI_Datatype type : types) {
      const Extents of(type);
      lengths.push_back(number(0, 2));
      places.push_back(end - of.true_lower);
      end += lengths.back() * of.extent + of.true_extent + number(0, 9);
    }
    lengths[1] = 1;
    MPI_Type_create_struct(3, lengths.data(), places.data(), types.data(), made);
    MPI_Type_free(&other);
  }

  std::mt19937 random_;
  std::string story_;
};

// The memory of some elements, with room around it.
struct Memory {
  static constexpr MPI_Aint kGuard = 64;
  Memory(MPI_Datatype type, int count, uint64_t seed) {
    const Extents of(type);
    bytes.resize(static_cast<size_t>(2 * kGuard + of.true_extent + (count - 1) * of.extent));
    base = bytes.data() + kGuard - of.true_lower;
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<unsigned char>(content_word(seed, i));
  }
  std::vector<unsigned char> bytes;
  unsigned char* base = nullptr;
};

struct RandomTypes : ::testing::Test {
  Stream stream;
  Queue queue{stream};

  void exchange(Requests& requests) {
    requests.match();
    for (int i = 0; i < 2; ++i) {
      requests.start(queue);
      requests.wait(queue);
    }
    queue.wait();
  }

  void verify(uint32_t seed) {
    TypeMaker maker(seed);
    MPI_Datatype type = maker.make();
    const int count = maker.number(1, 3);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", " + std::to_string(count) + " elements: " + maker.story());
    Memory out(type, count, seed), in(type, count, seed + 1), more(type, count + 1, seed + 2);
    Memory expected_in(in), expected_more(more);
    expected_in.base = expected_in.bytes.data() + (in.base - in.bytes.data());
    expected_more.base = expected_more.bytes.data() + (more.base - more.bytes.data());
    int room = 0, packed_bytes = 0;
    MPI_Pack_size(count, type, MPI_COMM_SELF, &room);
    std::vector<unsigned char> packed(static_cast<size_t>(room) + 1), received(packed.size());
    MPI_Pack(out.base, count, type, packed.data(), room, &packed_bytes, MPI_COMM_SELF);
    for (const Memory* memory : {&expected_in, &expected_more}) {
      int position = 0;
      MPI_Unpack(packed.data(), packed_bytes, &position, memory->base, count, type, MPI_COMM_SELF);
    }
    {
      Requests requests;
      requests.send(out.base, count, rank(), 1, MPI_COMM_WORLD, Mode::kSend, type);
      requests.receive(received.data(), packed_bytes, rank(), 1);
      requests.send(packed.data(), packed_bytes, rank(), 2);
      requests.receive(in.base, count, rank(), 2, MPI_COMM_WORLD, type);
      // Between datatypes, into a receive that has room for one element more.
      requests.send(out.base, count, rank(), 3, MPI_COMM_WORLD, Mode::kSend, type);
      requests.receive(more.base, count + 1, rank(), 3, MPI_COMM_WORLD, type);
      MPI_Type_free(&type);
      exchange(requests);
    }
    packed.resize(static_cast<size_t>(packed_bytes));
    received.resize(packed.size());
    EXPECT_EQ(received, packed);
    EXPECT_EQ(in.bytes, expected_in.bytes);
    EXPECT_EQ(more.bytes, expected_more.bytes);
  }
};

TEST_F(RandomTypes, ArePackedAsTheMpiPacksThem) {
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed)
    verify(seed);
}

}  // namespace
}  // namespace lanyard::api_test
