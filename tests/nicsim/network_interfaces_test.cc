// The choice of the host address on which the TCP wire listens.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "nicsim/wire/tcp_door.h"

namespace lanyard::nicsim {
namespace {

const NetworkInterface kLoopback{.name = "lo", .address = "127.0.0.1", .running = true, .loopback = true};
const NetworkInterface kDown{.name = "eth0", .address = "10.0.0.1", .default_route = true};
const NetworkInterface kLinkLocal{.name = "usb0", .address = "169.254.3.4", .running = true};
const NetworkInterface kContainers{.name = "docker0", .address = "172.17.0.1", .running = true, .bridge = true};
const NetworkInterface kNetwork{.name = "eth1", .address = "10.1.0.1", .running = true};
const NetworkInterface kOther{.name = "eth2", .address = "10.2.0.1", .running = true};
const NetworkInterface kWayOut{.name = "eth3", .address = "10.3.0.1", .running = true, .default_route = true};
const NetworkInterface kBridgeOut{
    .name = "br0", .address = "10.4.0.1", .running = true, .bridge = true, .default_route = true};

using Interfaces = std::vector<NetworkInterface>;

TEST(DefaultAddress, IsThatOfTheBestInterface) {
  struct {
    const char* best;
    Interfaces interfaces;
  } cases[] = {{"10.3.0.1", {kLoopback, kDown, kLinkLocal, kContainers, kNetwork, kOther, kWayOut}},
               {"10.4.0.1", {kLoopback, kNetwork, kContainers, kBridgeOut}},
               {"10.1.0.1", {kLoopback, kDown, kLinkLocal, kContainers, kNetwork}},
               {"172.17.0.1", {kLoopback, kDown, kLinkLocal, kContainers}},
               {"169.254.3.4", {kLoopback, kDown, kLinkLocal}},
               {"10.1.0.1", {kLoopback, kLinkLocal, kNetwork}},
               {"127.0.0.1", {kLoopback, kDown}},
               {"127.0.0.1", {}}};
  for (auto& [best, interfaces] : cases) {
    EXPECT_EQ(default_address(interfaces), best);
    std::reverse(interfaces.begin(), interfaces.end());
    EXPECT_EQ(default_address(interfaces), best) << "with the interfaces in reverse order";
  }
  EXPECT_EQ(default_address(Interfaces{kLoopback, kNetwork, kOther}), "10.1.0.1");
  EXPECT_EQ(default_address(Interfaces{kOther, kNetwork}), "10.2.0.1") << "expected the first of equals";
}

TEST(NamedAddress, IsAnAddressOrAnInterfacesName) {
  const Interfaces interfaces{kLoopback, kDown, kNetwork};
  for (const char* address : {"10.9.9.9", "::1", "127.0.0.1"})
    EXPECT_EQ(named_address(interfaces, address).value(), address);
  EXPECT_EQ(named_address(interfaces, "eth1").value(), "10.1.0.1");
  EXPECT_EQ(named_address(interfaces, "lo").value(), "127.0.0.1");
  for (const char* nothing : {"eth", "eth10", "10.1.0"}) {
    const Result<std::string> none = named_address(interfaces, nothing);
    ASSERT_EQ(none.status().code(), Code::kInvalidArgument) << nothing;
    EXPECT_NE(none.status().message().find(nothing), std::string::npos);
  }
}

// Every system has the loopback interface.
TEST(NetworkInterfaces, TheLoopbackIsOne) {
  const Interfaces interfaces = network_interfaces();
  const auto loopback = std::find_if(interfaces.begin(), interfaces.end(),
                                     [](const NetworkInterface& interface) { return interface.name == "lo"; });
  ASSERT_NE(loopback, interfaces.end());
  EXPECT_EQ(loopback->address, "127.0.0.1");
  EXPECT_TRUE(loopback->loopback);
  EXPECT_FALSE(loopback->bridge);
  EXPECT_FALSE(loopback->default_route);
}

}  // namespace
}  // namespace lanyard::nicsim
