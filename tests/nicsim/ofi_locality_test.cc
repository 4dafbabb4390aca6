// Locality: finds the nearest NIC on a synthetic machine with two sockets (two_sockets.xml).
#include "transport/cxi/locality.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstdlib>
#include <vector>

namespace lanyard::ofi {
namespace {

PciAddress on_bus(uint32_t bus) { return {.bus = bus}; }

Locality two_sockets() {
  ::setenv("HWLOC_XMLFILE", "tests/nicsim/two_sockets.xml", 1);
  ::setenv("HWLOC_THISSYSTEM", "0", 1);
  return std::move(Locality::load().value());
}

// getinfo's result for NICs on these buses; 0: not a PCI device.
class FakeNics {
 public:
  explicit FakeNics(const std::vector<uint32_t>& buses) : all_(buses.size()) {
    for (size_t i = 0; i < buses.size(); ++i) {
      FakeNic& fake = all_[i];
      fake.info.next = i + 1 < buses.size() ? &all_[i + 1].info : nullptr;
      if (buses[i] == 0)
        continue;
      fake.bus.bus_type = FI_BUS_PCI;
      fake.bus.attr.pci.bus_id = static_cast<uint8_t>(buses[i]);
      fake.nic.bus_attr = &fake.bus;
      fake.info.nic = &fake.nic;
    }
  }
  // The index of the nearest one.
  ptrdiff_t nearest_here() {
    const fi_info* chosen = nearest(&all_[0].info, two_sockets());
    for (size_t i = 0; i < all_.size(); ++i)
      if (chosen == &all_[i].info)
        return static_cast<ptrdiff_t>(i);
    return -1;
  }

 private:
  struct FakeNic {
    fi_bus_attr bus{};
    fid_nic nic{};
    fi_info info{};
  };
  std::vector<FakeNic> all_;
};

TEST(Locality, ReportsWhereANicIs) {
  const Locality machine = two_sockets();
  const auto first = machine.place_of(on_bus(0x41));
  const auto second = machine.place_of(on_bus(0xc1));
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->numa_nodes, "0");
  EXPECT_EQ(first->cores, "0-1");
  EXPECT_EQ(second->numa_nodes, "1");
  EXPECT_EQ(second->cores, "2-3");
  EXPECT_EQ(on_bus(0xc1).to_string(), "0000:c1:00.0");
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  const auto count = [&](int core) { return static_cast<uint32_t>(CPU_ISSET(core, &mine) != 0); };
  EXPECT_EQ(first->shared_cores, count(0) + count(1));
  EXPECT_EQ(second->shared_cores, count(2) + count(3));
  EXPECT_FALSE(machine.place_of(on_bus(0x99)));
}

TEST(Locality, TheNearestToThisThread) {
  cpu_set_t before, only;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  FakeNics nics({0, 0xc1, 0x41});
  CPU_ZERO(&only);
  CPU_SET(0, &only);
  if (sched_setaffinity(0, sizeof only, &only) != 0)
    GTEST_SKIP() << "this process may not use core 0";
  EXPECT_EQ(nics.nearest_here(), 2) << "core 0 belongs to the first socket";
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace lanyard::ofi
