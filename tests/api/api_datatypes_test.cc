// Datatypes with gaps: on either side, at absolute addresses, with messages of other lengths; when
// the stream packs and unpacks, and which calls are refused meanwhile. Random nested datatypes are
// compared with MPI_Pack and MPI_Unpack.
#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {
namespace {

constexpr int kTag = 11;

class Type {
 public:
  template <typename Make>
  explicit Type(Make make) {
    make(&type_);
    MPI_Type_commit(&type_);
  }
  ~Type() { MPI_Type_free(&type_); }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  operator MPI_Datatype() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// Every third int, ten of them.
struct Thirds : Type {
  Thirds() : Type([](MPI_Datatype* type) { MPI_Type_vector(10, 1, 3, MPI_INT, type); }) {}
};

struct Gaps : OnAQueue {
  Thirds thirds;
  std::array<int, 32> out{}, in{};
  Requests requests;

  void SetUp() override {
    std::iota(out.begin(), out.end(), 100);
    in.fill(-1);
  }
  void exchange() {
    requests.match();
    requests.run(queue);
  }
};

// Rows of an array are contiguous wherever they begin: nothing is packed, and kernels
// may start them.
TEST_F(Gaps, RowsHaveNone) {
  const std::array<int, 2> sizes{4, 8}, parts{2, 8}, starts{1, 0};
  const Type rows([&](MPI_Datatype* type) {
    MPI_Type_create_subarray(2, sizes.data(), parts.data(), starts.data(), MPI_ORDER_C, MPI_INT, type);
  });
  requests.send(out.data(), 1, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, rows);
  requests.receive(in.data(), 1, partner(), kTag, MPI_COMM_WORLD, rows);
  requests.match();
  MPIX_Device_requests* set = nullptr;
  EXPECT_TRUE(ok(MPIX_Device_requests_create(queue, 2, requests.data(), &set)));
  EXPECT_TRUE(ok(MPIX_Device_requests_free(queue, &set)));
  requests.run(queue);
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], i >= 8 && i < 24 ? 100 + static_cast<int>(i) : -1) << i;
}

TEST_F(Gaps, FromMpiBottom) {
  std::array<MPI_Aint, 2> sent, received;
  MPI_Get_address(&out[3], &sent[0]);
  MPI_Get_address(&out[20], &sent[1]);
  MPI_Get_address(&in[30], &received[0]);
  MPI_Get_address(&in[5], &received[1]);
  const Type from([&](MPI_Datatype* type) { MPI_Type_create_hindexed_block(2, 2, sent.data(), MPI_INT, type); });
  const Type to([&](MPI_Datatype* type) { MPI_Type_create_hindexed_block(2, 2, received.data(), MPI_INT, type); });
  const Type run([&](MPI_Datatype* type) { MPI_Type_create_hindexed_block(1, 2, &sent[0], MPI_INT, type); });
  requests.send(MPI_BOTTOM, 1, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, from);
  requests.receive(MPI_BOTTOM, 1, partner(), kTag, MPI_COMM_WORLD, to);
  requests.send(MPI_BOTTOM, 1, partner(), kTag + 1, MPI_COMM_WORLD, Mode::kSend, run);
  requests.receive(&in[10], 2, partner(), kTag + 1, MPI_COMM_WORLD, MPI_INT);
  exchange();
  std::array<int, 32> expected;
  expected.fill(-1);
  expected[30] = expected[10] = 103;
  expected[31] = expected[11] = 104;
  expected[5] = 120;
  expected[6] = 121;
  EXPECT_EQ(in, expected);
}

TEST_F(Gaps, HaveRoomForTheirBytesOnly) {
  requests.receive(in.data(), 1, partner(), kTag, MPI_COMM_WORLD, thirds);
  requests.send(out.data(), 11, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  EXPECT_TRUE(fails(MPIX_Matchall(2, requests.data(), MPI_STATUSES_IGNORE), MPI_ERR_IN_STATUS, {"44", "40"}));
  EXPECT_EQ(in[0], -1);
}

TEST_F(Gaps, OfNoBytesAndOfProcNull) {
  requests.receive(in.data(), 0, partner(), kTag, MPI_COMM_WORLD, thirds);
  requests.send(out.data(), 0, partner(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 1, MPI_PROC_NULL, kTag, MPI_COMM_WORLD, thirds);
  requests.send(out.data(), 1, MPI_PROC_NULL, kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  exchange();
  EXPECT_EQ(in[0], -1);
}

#if MPI_VERSION >= 4
// Requests and datatypes made with large counts.
TEST_F(Gaps, ByLargeCounts) {
  const std::array<MPI_Count, 2> lengths{1, 2}, bytes{64, 8}, sizes{4, 8}, parts{4, 2}, starts{0, 3};
  const std::array<MPI_Datatype, 2> ints{MPI_INT, MPI_INT};
  const Type structure(
      [&](MPI_Datatype* type) { MPI_Type_create_struct_c(2, lengths.data(), bytes.data(), ints.data(), type); });
  const Type columns([&](MPI_Datatype* type) {
    MPI_Type_create_subarray_c(2, sizes.data(), parts.data(), starts.data(), MPI_ORDER_C, MPI_INT, type);
  });
  const Type vector([](MPI_Datatype* type) { MPI_Type_create_hvector_c(3, 1, 12, MPI_INT, type); });
  std::array<MPI_Request, 6> pairs;
  std::array<std::array<int, 32>, 3> received;
  for (std::array<int, 32>& each : received)
    each.fill(-1);
  const std::array<MPI_Datatype, 3> types{structure, columns, vector};
  for (size_t i = 0; i < 3; ++i) {
    const int tag = kTag + static_cast<int>(i);
    EXPECT_TRUE(ok(MPI_Send_init_c(out.data(), 1, types[i], rank(), tag, MPI_COMM_WORLD, &pairs[2 * i])));
    EXPECT_TRUE(ok(MPI_Recv_init_c(received[i].data(), 32, MPI_INT, rank(), tag, MPI_COMM_WORLD, &pairs[2 * i + 1])));
  }
  EXPECT_TRUE(ok(MPIX_Matchall(6, pairs.data(), MPI_STATUSES_IGNORE)));
  EXPECT_TRUE(ok(MPIX_Enqueue_startall(queue, 6, pairs.data())));
  EXPECT_TRUE(ok(MPIX_Enqueue_waitall(queue, 6, pairs.data())));
  queue.wait();
  EXPECT_EQ((std::vector<int>(received[0].begin(), received[0].begin() + 4)), (std::vector<int>{116, 102, 103, -1}));
  EXPECT_EQ((std::vector<int>(received[1].begin(), received[1].begin() + 9)),
            (std::vector<int>{103, 104, 111, 112, 119, 120, 127, 128, -1}));
  EXPECT_EQ((std::vector<int>(received[2].begin(), received[2].begin() + 4)), (std::vector<int>{100, 103, 106, -1}));
  for (MPI_Request& request : pairs)
    EXPECT_TRUE(ok(MPI_Request_free(&request)));
}
#endif

// ---- Lifetimes

struct DatatypeLives : Gaps {};

// The message has arrived, but the stream has not unpacked it.
TEST_F(DatatypeLives, AReceiveIsNotFreedBeforeItIsUnpacked) {
  requests.send(out.data(), 10, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, MPI_INT);
  requests.receive(in.data(), 1, rank(), kTag, MPI_COMM_WORLD, thirds);
  requests.match();
  requests.start(queue);
  Gate gate(stream);
  requests.wait(queue);
  // Other refusals may come first.
  EXPECT_TRUE(eventually([&] { return has(error_text(MPI_Request_free(requests.at(1))), "unpacks"); }));
  Stream another_stream;
  Queue another(another_stream);
  EXPECT_TRUE(fails(MPIX_Enqueue_start(another, requests.at(1)), MPI_ERR_REQUEST, {"another queue"}));
  EXPECT_EQ(in[0], -1);
  gate.open();
  queue.wait();
  EXPECT_EQ(in[27], 109);
  // Now another queue may start it.
  requests.run(another);
}

// A send packs the buffer's content when the stream reaches the start.
TEST_F(DatatypeLives, IsPackedInStreamOrder) {
  requests.send(out.data(), 1, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 10, rank(), kTag, MPI_COMM_WORLD, MPI_INT);
  requests.match();
  Gate gate(stream);
  requests.start(queue);
  requests.wait(queue);
  stream.launch([&] { out[0] = 7; });
  requests.start(queue);
  requests.wait(queue);
  out[0] = 5;
  out[27] = 6;
  gate.open();
  queue.wait();
  EXPECT_EQ(in[0], 7);
  EXPECT_EQ(in[9], 6);
}

// A refused call must not pack: the packed memory is still being sent.
TEST_F(DatatypeLives, ARefusedStartPacksNothing) {
  requests.send(out.data(), 1, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 10, rank(), kTag, MPI_COMM_WORLD, MPI_INT);
  requests.match();
  EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(0))));
  stream.synchronize();
  out[0] = 5;
  const Enqueued before(queue);
  EXPECT_TRUE(fails(MPIX_Enqueue_startall(queue, 2, requests.data()), MPI_ERR_REQUEST, {"previous start"}));
  EXPECT_EQ(Enqueued(queue), before);
  stream.synchronize();
  EXPECT_TRUE(ok(MPIX_Enqueue_start(queue, requests.at(1))));
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(in[0], 100);
}

TEST_F(DatatypeLives, PackingIsNoTrigger) {
  Thirds other;
  requests.send(out.data(), 1, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 1, rank(), kTag, MPI_COMM_WORLD, other);
  requests.match();
  const uint64_t before = queue.figure("triggers");
  requests.start(queue);
  EXPECT_EQ(queue.figure("triggers"), before + 2);
  requests.wait(queue);
  queue.wait();
  EXPECT_EQ(queue.figure("triggers"), before + 2);
}

TEST_F(DatatypeLives, KernelsCannotStartThem) {
  requests.send(out.data(), 1, rank(), kTag, MPI_COMM_WORLD, Mode::kSend, thirds);
  requests.receive(in.data(), 10, rank(), kTag, MPI_COMM_WORLD, MPI_INT);
  requests.match();
  MPIX_Device_requests* set = nullptr;
  EXPECT_TRUE(fails(MPIX_Device_requests_create(queue, 2, requests.data(), &set), MPI_ERR_UNSUPPORTED_OPERATION,
                    {"gaps", "kernel of your own"}));
  EXPECT_EQ(set, nullptr);
  requests.run(queue);
  EXPECT_EQ(in[9], 127);
}

// ---- Random nested datatypes

struct Extents {
  MPI_Aint lower = 0, extent = 0, true_lower = 0, true_extent = 0;
  explicit Extents(MPI_Datatype type) {
    MPI_Type_get_extent(type, &lower, &extent);
    MPI_Type_get_true_extent(type, &true_lower, &true_extent);
  }
};

// Makes random datatypes whose blocks never overlap, so that receives may use them.
class TypeMaker {
 public:
  explicit TypeMaker(uint32_t seed) : random_(seed) {}

  // Returns a committed datatype.
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

  // Returns the datatype with an extent so large that several elements do not overlap.
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
    // Open MPI 4.1 mistakes blocks that touch in reverse order for blocks in forward order.
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

// Memory for `count` elements, with guard bytes around it.
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

struct RandomTypes : OnAQueue {
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
      // Between two datatypes, into a receive with room for one more element.
      requests.send(out.base, count, rank(), 3, MPI_COMM_WORLD, Mode::kSend, type);
      requests.receive(more.base, count + 1, rank(), 3, MPI_COMM_WORLD, type);
      MPI_Type_free(&type);
      requests.match();
      for (int i = 0; i < 2; ++i) {
        requests.start(queue);
        requests.wait(queue);
      }
      queue.wait();
    }
    packed.resize(static_cast<size_t>(packed_bytes));
    received.resize(packed.size());
    EXPECT_EQ(received, packed);
    EXPECT_EQ(in.bytes, expected_in.bytes);
    EXPECT_EQ(more.bytes, expected_more.bytes);
  }
};

TEST_F(RandomTypes, ArePackedLikeMpiPacksThem) {
  for (uint32_t seed = 0; seed < 300 && !HasFailure(); ++seed)
    verify(seed);
}

}  // namespace
}  // namespace lanyard::api_test
