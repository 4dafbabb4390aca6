// Locality: which card is near, on a made-up machine of two sockets (two_sockets.xml).
#include "transport/cxi/locality.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <vector>

namespace lanyard::ofi {
namespace {

PciAddress at(const char* text) { return PciAddress::parse(text).value(); }

Locality two_sockets() {
  ::setenv("HWLOC_XMLFILE", "tests/nicsim/two_sockets.xml", 1);
  ::setenv("HWLOC_THISSYSTEM", "0", 1);
  return std::move(Locality::load().value());
}

// What getinfo would say of cards at these places; an empty one has no place.
class Cards {
 public:
  explicit Cards(const std::vector<std::string>& places) : all_(places.size()) {
    for (size_t i = 0; i < places.size(); ++i) {
      Card& card = all_[i];
      card.info.next = i + 1 < places.size() ? &all_[i + 1].info : nullptr;
      if (places[i].empty())
        continue;
      const PciAddress place = at(places[i].c_str());
      card.bus.bus_type = FI_BUS_PCI;
      card.bus.attr.pci = {static_cast<uint16_t>(place.domain), static_cast<uint8_t>(place.bus),
                           static_cast<uint8_t>(place.device), static_cast<uint8_t>(place.function)};
      card.nic.bus_attr = &card.bus;
      card.info.nic = &card.nic;
    }
  }
  // Which of them is nearest.
  ptrdiff_t nearest_to(std::optional<PciAddress> near) {
    const fi_info* chosen = nearest(&all_[0].info, two_sockets(), near);
    for (size_t i = 0; i < all_.size(); ++i)
      if (chosen == &all_[i].info)
        return static_cast<ptrdiff_t>(i);
    return -1;
  }

 private:
  struct Card {
    fi_bus_attr bus{};
    fid_nic nic{};
    fi_info info{};
  };
  std::vector<Card> all_;
};

TEST(PciAddress, IsReadAndWritten) {
  EXPECT_EQ(at("0000:c1:00.0"), (PciAddress{0, 0xc1, 0, 0}));
  EXPECT_EQ(at("00000001:41:1f.7"), (PciAddress{1, 0x41, 0x1f, 7})) << "as CUDA writes it";
  EXPECT_EQ(at("c1:02.1"), (PciAddress{0, 0xc1, 2, 1}));
  EXPECT_EQ(at("c1:02.1").to_string(), "0000:c1:02.1");
  for (const char* wrong : {"", "c1", "0000:c1:00", "0000:c1:00.0x", "cxi0"}) {
    const Result<PciAddress> none = PciAddress::parse(wrong);
    EXPECT_EQ(none.status().code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(Locality, SaysWhereACardIs) {
  const Locality machine = two_sockets();
  const auto first = machine.place_of(at("0000:41:00.0"));
  const auto second = machine.place_of(at("0000:c1:00.0"));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->numa_nodes, "0");
  EXPECT_EQ(first->cores, "0-1");
  EXPECT_EQ(second->numa_nodes, "1");
  EXPECT_EQ(second->cores, "2-3");
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  const auto count = [&](int core) { return static_cast<uint32_t>(CPU_ISSET(core, &mine) != 0); };
  EXPECT_EQ(first->shared_cores, count(0) + count(1));
  EXPECT_EQ(second->shared_cores, count(2) + count(3));
  EXPECT_FALSE(machine.place_of(at("0000:99:00.0")));
}

TEST(Locality, TheNearestToAGpu) {
  Cards cards({"", "0000:c1:00.0", "0000:41:00.0"});
  EXPECT_EQ(cards.nearest_to(at("0000:42:00.0")), 2);
  EXPECT_EQ(cards.nearest_to(at("0000:11:00.0")), 2);
  EXPECT_EQ(cards.nearest_to(at("0000:c2:00.0")), 1);
  EXPECT_EQ(Cards({"0000:11:00.0", "0000:41:00.0"}).nearest_to(at("0000:42:00.0")), 1) << "on the same switch";
  EXPECT_EQ(cards.nearest_to(at("0000:99:00.0")), 0) << "none is nearer: the first";
}

TEST(Locality, TheNearestToThisThread) {
  cpu_set_t before, only;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  Cards cards({"0000:c1:00.0", "0000:41:00.0"});
  CPU_ZERO(&only);
  CPU_SET(0, &only);
  if (sched_setaffinity(0, sizeof only, &only) != 0)
    GTEST_SKIP() << "core 0 is not ours";
  EXPECT_EQ(cards.nearest_to(std::nullopt), 1) << "core 0 is in the first socket";
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace lanyard::ofi
