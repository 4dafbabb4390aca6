// Settings: every variable of the environment, with values that are good and values that are not.
#include "api/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace lanyard::api {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr const char* kNames[] = {
    "LANYARD_NIC",           "LANYARD_CHECK",           "LANYARD_OVERFLOW",      "LANYARD_DEADLINE_S",
    "LANYARD_WARN_S",        "LANYARD_SIM_WIRE",        "LANYARD_SIM_CMA",       "LANYARD_SIM_DWQ_DEPTH",
    "LANYARD_SIM_INTERFACE", "LANYARD_SIM_MAX_MESSAGE", "LANYARD_STRATEGY",      "LANYARD_OFI_COUNTS_BOTH",
    "LANYARD_OFI_DOMAIN",    "LANYARD_OFI_DWQ_DEPTH",   "LANYARD_GPU_LINGER_US", "LANYARD_GPU_SHARED",
    "LANYARD_PEER",          "LANYARD_GPU_BLOCKING",    "LANYARD_SIM_COUNTERS",  "LANYARD_SIM_REGIONS",
};

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const char* name : kNames)
      unsetenv(name);
  }

  // What is read where one variable has that value.
  static Settings with(const char* name, const char* value) {
    setenv(name, value, 1);
    Result<Settings> settings = Settings::from_environment();
    unsetenv(name);
    EXPECT_TRUE(settings.ok()) << settings.status().to_string();
    return settings.ok() ? settings.value() : Settings{};
  }
  // The message says which variable, what stood there, and what may stand there.
  static void refused(const char* name, const std::vector<std::string>& values, const std::string& allowed) {
    for (const std::string& value : values) {
      setenv(name, value.c_str(), 1);
      const Result<Settings> settings = Settings::from_environment();
      unsetenv(name);
      ASSERT_FALSE(settings.ok()) << name << "=" << value;
      EXPECT_EQ(settings.status().code(), Code::kInvalidArgument);
      const std::string& message = settings.status().message();
      EXPECT_EQ(message.find(std::string(name) + "=" + value), 0u) << message;
      EXPECT_NE(message.find(allowed), std::string::npos) << message;
    }
  }
};

TEST_F(SettingsTest, DefaultsAreThoseOfTheHeader) {
  const Result<Settings> read = Settings::from_environment();
  ASSERT_TRUE(read.ok());
  const Settings& settings = read.value();
  EXPECT_EQ(settings.nic, "sim");
  EXPECT_FALSE(settings.checked);
  EXPECT_TRUE(settings.overflow);
  EXPECT_EQ(settings.strategy, std::nullopt);
  EXPECT_EQ(settings.deadline, milliseconds(0));
  EXPECT_EQ(settings.warn_after, milliseconds(10'000));
  EXPECT_EQ(settings.wire, "shm");
  EXPECT_EQ(settings.dwq_depth, 504u);
  EXPECT_EQ(settings.counters, 4096u);
  EXPECT_EQ(settings.regions, 16'384u);
  EXPECT_EQ(settings.max_message_bytes, uint64_t{1} << 30);
  EXPECT_TRUE(settings.cma);
  EXPECT_EQ(settings.interface, "");
  EXPECT_EQ(settings.ofi_domain, "");
  EXPECT_TRUE(settings.ofi_counts_both);
  EXPECT_EQ(settings.ofi_dwq_depth, 0u);
}

TEST_F(SettingsTest, Nic) {
  EXPECT_EQ(with("LANYARD_NIC", "sim").nic, "sim");
  EXPECT_EQ(with("LANYARD_NIC", "cxi").nic, "cxi");
  refused("LANYARD_NIC", {"", "Sim", "cxi0", "sim ", "ofi"}, "sim or cxi");
}

TEST_F(SettingsTest, OfiCountsBoth) {
  EXPECT_FALSE(with("LANYARD_OFI_COUNTS_BOTH", "off").ofi_counts_both);
  EXPECT_TRUE(with("LANYARD_OFI_COUNTS_BOTH", "on").ofi_counts_both);
  refused("LANYARD_OFI_COUNTS_BOTH", {"", "yes", "1"}, "on or off");
}
TEST_F(SettingsTest, OfiDomain) { EXPECT_EQ(with("LANYARD_OFI_DOMAIN", "cxi2").ofi_domain, "cxi2"); }

TEST_F(SettingsTest, OfiDepth) {
  EXPECT_EQ(with("LANYARD_OFI_DWQ_DEPTH", "63").ofi_dwq_depth, 63u);
  refused("LANYARD_OFI_DWQ_DEPTH", {"", "0", "65537", "all"}, "from 1 to 65536");
}

TEST_F(SettingsTest, Check) {
  EXPECT_TRUE(with("LANYARD_CHECK", "on").checked);
  EXPECT_FALSE(with("LANYARD_CHECK", "off").checked);
  refused("LANYARD_CHECK", {"", "1", "true", "ON", "onn"}, "on or off");
}

TEST_F(SettingsTest, Overflow) {
  EXPECT_TRUE(with("LANYARD_OVERFLOW", "on").overflow);
  EXPECT_FALSE(with("LANYARD_OVERFLOW", "off").overflow);
  refused("LANYARD_OVERFLOW", {"", "0", "no", "off "}, "on or off");
}

TEST_F(SettingsTest, Strategy) {
  using core::Strategy;
  EXPECT_EQ(with("LANYARD_STRATEGY", "auto").strategy, std::nullopt);
  EXPECT_EQ(with("LANYARD_STRATEGY", "target-counter").strategy, Strategy::kTargetCounter);
  EXPECT_EQ(with("LANYARD_STRATEGY", "sender-flag").strategy, Strategy::kSenderFlag);
  refused("LANYARD_STRATEGY", {"", "A", "flag", "auto "}, "auto or target-counter or sender-flag");
}

TEST_F(SettingsTest, Deadline) {
  EXPECT_EQ(with("LANYARD_DEADLINE_S", "0").deadline, milliseconds(0));
  EXPECT_EQ(with("LANYARD_DEADLINE_S", "2.5").deadline, milliseconds(2'500));
  EXPECT_EQ(with("LANYARD_DEADLINE_S", "0.001").deadline, milliseconds(1));
  EXPECT_EQ(with("LANYARD_DEADLINE_S", "1000000").deadline, milliseconds(1'000'000'000));
  refused("LANYARD_DEADLINE_S", {"", "-1", "1s", "nan", "inf", "1000001", " 1", "0x10"}, "seconds from 0 to 1000000");
}

// A deadline that was asked for is never rounded away: 0 means that there is none.
TEST_F(SettingsTest, AShortDeadlineIsStillADeadline) {
  EXPECT_GT(with("LANYARD_DEADLINE_S", "0.0001").deadline, milliseconds(0));
}

TEST_F(SettingsTest, Warn) {
  EXPECT_EQ(with("LANYARD_WARN_S", "0").warn_after, milliseconds(0));
  EXPECT_EQ(with("LANYARD_WARN_S", "1e1").warn_after, milliseconds(10'000));
  refused("LANYARD_WARN_S", {"", "never", "-0.1", "1,5"}, "seconds from 0 to 1000000");
}

TEST_F(SettingsTest, Fault) {
  EXPECT_EQ(with("LANYARD_SIM_FAULT", "stale-device-data").fault, "stale-device-data");
  refused("LANYARD_SIM_FAULT", {"", "stale", "all"}, "none or stale-device-data");
}

TEST_F(SettingsTest, Wire) {
  EXPECT_EQ(with("LANYARD_SIM_WIRE", "shm").wire, "shm");
  EXPECT_EQ(with("LANYARD_SIM_WIRE", "tcp").wire, "tcp");
  refused("LANYARD_SIM_WIRE", {"", "udp", "shm,tcp"}, "shm or tcp");
}

TEST_F(SettingsTest, Depth) {
  EXPECT_EQ(with("LANYARD_SIM_DWQ_DEPTH", "1").dwq_depth, 1u);
  EXPECT_EQ(with("LANYARD_SIM_DWQ_DEPTH", "65536").dwq_depth, 65'536u);
  refused("LANYARD_SIM_DWQ_DEPTH", {"", "0", "65537", "-1", "+5", "5.0", "5 ", "18446744073709551617", "4294967297"},
          "from 1 to 65536");
}

TEST_F(SettingsTest, CountersAndRegions) {
  EXPECT_EQ(with("LANYARD_SIM_COUNTERS", "1").counters, 1u);
  EXPECT_EQ(with("LANYARD_SIM_COUNTERS", "1000000").counters, 1'000'000u);
  refused("LANYARD_SIM_COUNTERS", {"", "0", "1000001", "-1", "2k"}, "from 1 to 1000000");
  EXPECT_EQ(with("LANYARD_SIM_REGIONS", "1").regions, 1u);
  EXPECT_EQ(with("LANYARD_SIM_REGIONS", "1000000").regions, 1'000'000u);
  refused("LANYARD_SIM_REGIONS", {"", "0", "1000001", "-1", "2k"}, "from 1 to 1000000");
}

TEST_F(SettingsTest, MaxMessage) {
  EXPECT_EQ(with("LANYARD_SIM_MAX_MESSAGE", "1").max_message_bytes, 1u);
  EXPECT_EQ(with("LANYARD_SIM_MAX_MESSAGE", "1099511627776").max_message_bytes, uint64_t{1} << 40);
  refused("LANYARD_SIM_MAX_MESSAGE", {"", "0", "1099511627777", "4k", "1e6"}, "from 1 to 1099511627776");
}

TEST_F(SettingsTest, Cma) {
  EXPECT_TRUE(with("LANYARD_SIM_CMA", "on").cma);
  EXPECT_FALSE(with("LANYARD_SIM_CMA", "off").cma);
  refused("LANYARD_SIM_CMA", {"", "yes"}, "on or off");
}

TEST_F(SettingsTest, Peer) {
  EXPECT_EQ(with("LANYARD_PEER", "off").peer, "off");
  EXPECT_EQ(with("LANYARD_PEER", "auto").peer, "auto");
  refused("LANYARD_PEER", {"", "on", "1"}, "off or auto");
}

TEST_F(SettingsTest, GpuShared) {
  EXPECT_EQ(with("LANYARD_GPU_SHARED", "yes").gpu_shared, "yes");
  EXPECT_EQ(with("LANYARD_GPU_SHARED", "no").gpu_shared, "no");
  EXPECT_EQ(with("LANYARD_GPU_SHARED", "auto").gpu_shared, "auto");
  refused("LANYARD_GPU_SHARED", {"", "on", "2"}, "auto or yes or no");
}

TEST_F(SettingsTest, GpuBlocking) {
  EXPECT_TRUE(with("LANYARD_GPU_BLOCKING", "on").gpu_blocking);
  EXPECT_FALSE(with("LANYARD_GPU_BLOCKING", "off").gpu_blocking);
  refused("LANYARD_GPU_BLOCKING", {"", "1"}, "on or off");
}

TEST_F(SettingsTest, GpuLinger) {
  EXPECT_EQ(with("LANYARD_GPU_LINGER_US", "0").gpu_linger, microseconds(0));
  EXPECT_EQ(with("LANYARD_GPU_LINGER_US", "50000").gpu_linger, microseconds(50'000));
  refused("LANYARD_GPU_LINGER_US", {"", "50001", "-1", "0.5", "on"}, "from 0 to 50000");
}

TEST_F(SettingsTest, Interface) {
  EXPECT_EQ(with("LANYARD_SIM_INTERFACE", "127.0.0.1").interface, "127.0.0.1");
  EXPECT_EQ(with("LANYARD_SIM_INTERFACE", "").interface, "");
}

// ---- Names

TEST_F(SettingsTest, AVariableThatNothingReadsIsAMistake) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"LANYARD_DEADLINE", "LANYARD_DEADLINE_S"}, {"LANYARD_DEADLINE_MS", "LANYARD_DEADLINE_S"},
      {"LANYARD_STRATGEY", "LANYARD_STRATEGY"},   {"LANYARD_SIM_DEPTH", "LANYARD_SIM_DWQ_DEPTH"},
      {"LANYARD_FI_POLL", "LANYARD_FI_POOL"},
  };
  for (const auto& [name, meant] : mistakes) {
    EXPECT_FALSE(Settings::is_known(name));
    setenv(name, "3", 1);
    const Result<Settings> settings = Settings::from_environment();
    unsetenv(name);
    ASSERT_FALSE(settings.ok()) << name;
    EXPECT_EQ(settings.status().code(), Code::kInvalidArgument);
    EXPECT_EQ(settings.status().message(), std::string(name) + " is not known: did you mean " + meant + "?");
  }
  EXPECT_TRUE(Settings::from_environment().ok());
}

TEST_F(SettingsTest, VariablesOfOthersAreNotLookedAt) {
  for (const char* name : {"LANYARD", "LANYARDS_DEADLINE", "MY_LANYARD_DEADLINE", "lanyard_deadline", "LANYARD_ROOT",
                           "LANYARD_TEST_PATIENCE_S"}) {
    const bool was_set = getenv(name) != nullptr;
    if (!was_set)
      setenv(name, "3", 1);
    EXPECT_TRUE(Settings::from_environment().ok()) << name;
    if (!was_set)
      unsetenv(name);
  }
}

// Whatever the drivers, the simulated card and its provider read, a program may set.
TEST_F(SettingsTest, EveryVariableOfTheSourcesIsKnown) {
  std::ifstream list("tests/api/environment_names.txt");
  std::string name;
  int names = 0;
  while (std::getline(list, name)) {
    EXPECT_TRUE(Settings::is_known(name)) << name << " is missing in api/settings.cc";
    ++names;
  }
  EXPECT_GT(names, 25);
}

// Each variable sets its own field and no other.
TEST_F(SettingsTest, AllAtOnce) {
  const char* values[] = {"sim",         "on",  "off",  "3",  "4",  "tcp", "off",  "17", "10.0.0.1", "4096",
                          "sender-flag", "off", "cxi3", "21", "23", "yes", "auto", "on", "24",       "25"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    setenv(kNames[i], values[i], 1);
  const Result<Settings> read = Settings::from_environment();
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  const Settings& settings = read.value();
  EXPECT_TRUE(settings.checked);
  EXPECT_FALSE(settings.overflow);
  EXPECT_EQ(settings.deadline, milliseconds(3'000));
  EXPECT_EQ(settings.warn_after, milliseconds(4'000));
  EXPECT_EQ(settings.wire, "tcp");
  EXPECT_FALSE(settings.cma);
  EXPECT_EQ(settings.dwq_depth, 17u);
  EXPECT_EQ(settings.interface, "10.0.0.1");
  EXPECT_EQ(settings.max_message_bytes, 4'096u);
  EXPECT_EQ(settings.strategy, core::Strategy::kSenderFlag);
  EXPECT_FALSE(settings.ofi_counts_both);
  EXPECT_EQ(settings.ofi_domain, "cxi3");
  EXPECT_EQ(settings.ofi_dwq_depth, 21u);
  EXPECT_EQ(settings.gpu_linger, microseconds(23));
  EXPECT_EQ(settings.gpu_shared, "yes");
  EXPECT_EQ(settings.peer, "auto");
  EXPECT_TRUE(settings.gpu_blocking);
  EXPECT_EQ(settings.counters, 24u);
  EXPECT_EQ(settings.regions, 25u);
}

}  // namespace
}  // namespace lanyard::api
