// Settings: every environment variable, with valid and invalid values.
#include "api/settings.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace lanyard::api {
namespace {

std::string text(const std::string& value) { return value; }
std::string text(bool value) { return value ? "on" : "off"; }
std::string text(uint32_t value) { return std::to_string(value); }
std::string text(uint64_t value) { return std::to_string(value); }
template <typename Unit>
std::string text(std::chrono::duration<int64_t, Unit> value) {
  return std::to_string(value.count());
}
std::string text(std::optional<core::Strategy> value) { return value ? strategy_name(*value) : "auto"; }

constexpr const char* kNotSeconds = "|-1|1s|nan|inf|1000001| 1|0x10|never|1,5";
constexpr const char* kSeconds = "seconds from 0 to 1000000";
constexpr const char* kNoDepth = "|0|65537|-1|+5|5.0|5 |all|18446744073709551617|4294967297";

// Values are separated by '|'. "VALUE=TEXT": the field's text differs from the value. The last
// valid one is not the default.
struct Row {
  const char* name;
  std::string (*field)(const Settings&);
  std::string by_default, good, bad{}, allowed{};  // `allowed` must be in the message
};
#define FIELD(name) [](const Settings& settings) { return text(settings.name); }

// A small deadline is never rounded to 0, which would mean no deadline.
const Row kRows[] = {
    {"LANYARD_NIC", FIELD(nic), "sim", "sim|cxi", "|Sim|cxi0|sim |ofi", "sim or cxi"},
    {"LANYARD_CHECK", FIELD(checked), "off", "off|on", "|1|true|ON|onn", "on or off"},
    {"LANYARD_OVERFLOW", FIELD(overflow), "on", "on|off", "|0|no|off ", "on or off"},
    {"LANYARD_STRATEGY", FIELD(strategy), "auto", "auto|target-counter|sender-flag", "|A|flag|auto ",
     "auto or target-c"},
    {"LANYARD_DEADLINE_S", FIELD(deadline), "0", "0|2.5=2500|1000000=1000000000|0.0001=1", kNotSeconds, kSeconds},
    {"LANYARD_WARN_S", FIELD(warn_after), "10000", "1e1=10000|0", kNotSeconds, kSeconds},
    {"LANYARD_SIM_FAULT", FIELD(fault), "", "stale-device-data", "|stale|all", "none or stale-device-data"},
    {"LANYARD_SIM_WIRE", FIELD(wire), "shm", "shm|tcp", "|udp|shm,tcp", "shm or tcp"},
    {"LANYARD_SIM_DWQ_DEPTH", FIELD(dwq_depth), "504", "1|65536", kNoDepth, "from 1 to 65536"},
    {"LANYARD_SIM_COUNTERS", FIELD(counters), "4096", "1|1000000", "|0|1000001|-1|2k", "from 1 to 1000000"},
    {"LANYARD_SIM_REGIONS", FIELD(regions), "16384", "1000000|1", "|0|1000001|-1|2k", "from 1 to 1000000"},
    {"LANYARD_SIM_MAX_MESSAGE", FIELD(max_message_bytes), "1073741824", "1|1099511627776", "|0|1099511627777|4k|1e6",
     "from 1 to 1099511627776"},
    {"LANYARD_SIM_CMA", FIELD(cma), "on", "on|off", "|yes", "on or off"},
    {"LANYARD_SIM_INTERFACE", FIELD(interface), "", "127.0.0.1"},
    {"LANYARD_OFI_COUNTS_BOTH", FIELD(ofi_counts_both), "on", "on|off", "|yes|1", "on or off"},
    {"LANYARD_OFI_DOMAIN", FIELD(ofi_domain), "", "cxi2"},
    {"LANYARD_OFI_DWQ_DEPTH", FIELD(ofi_dwq_depth), "0", "63", kNoDepth, "from 1 to 65536"},
    {"LANYARD_PEER", FIELD(peer), "off", "off|auto", "|on|1", "off or auto"},
    {"LANYARD_GPU_SHARED", FIELD(gpu_shared), "auto", "auto|no|yes", "|on|2", "auto or yes or no"},
    {"LANYARD_GPU_BLOCKING", FIELD(gpu_blocking), "off", "off|on", "|1", "on or off"},
    {"LANYARD_GPU_LINGER_US", FIELD(gpu_linger), "200", "0|50000", "|50001|-1|0.5|on", "from 0 to 50000"},
};
#undef FIELD

std::vector<std::pair<std::string, std::string>> values(const std::string& list) {
  std::vector<std::pair<std::string, std::string>> found;
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = list.find('|', begin);
    const std::string each = list.substr(begin, end == std::string::npos ? end : end - begin);
    const size_t equals = each.find('=');
    found.emplace_back(each.substr(0, equals), equals == std::string::npos ? each : each.substr(equals + 1));
  }
  return found;
}

class SettingsTest : public ::testing::Test {
 protected:
  void SetUp() override { clear(); }
  void TearDown() override { clear(); }
  static void clear() {
    for (const Row& row : kRows)
      unsetenv(row.name);
  }
};

TEST_F(SettingsTest, DefaultsAreThoseOfTheHeader) {
  const Result<Settings> read = Settings::from_environment();
  ASSERT_TRUE(read.ok());
  for (const Row& row : kRows)
    EXPECT_EQ(row.field(read.value()), row.by_default) << row.name;
}

TEST_F(SettingsTest, GoodValuesAreTaken) {
  for (const Row& row : kRows) {
    for (const auto& [value, field] : values(row.good)) {
      setenv(row.name, value.c_str(), 1);
      const Result<Settings> read = Settings::from_environment();
      ASSERT_TRUE(read.ok()) << read.status().to_string();
      EXPECT_EQ(row.field(read.value()), field) << row.name << "=" << value;
    }
    unsetenv(row.name);
  }
}

// The message names the variable, its value and the allowed values.
TEST_F(SettingsTest, BadValuesAreRefusedByName) {
  for (const Row& row : kRows) {
    for (const auto& [value, field] : values(row.bad)) {
      if (row.allowed.empty())
        continue;
      setenv(row.name, value.c_str(), 1);
      const Result<Settings> read = Settings::from_environment();
      ASSERT_FALSE(read.ok()) << row.name << "=" << value;
      EXPECT_EQ(read.status().code(), Code::kInvalidArgument);
      const std::string& message = read.status().message();
      EXPECT_EQ(message.find(std::string(row.name) + "=" + value), 0u) << message;
      EXPECT_NE(message.find(row.allowed), std::string::npos) << message;
    }
    unsetenv(row.name);
  }
}

// Each variable sets its own field and no other.
TEST_F(SettingsTest, AllAtOnce) {
  for (const Row& row : kRows)
    setenv(row.name, values(row.good).back().first.c_str(), 1);
  const Result<Settings> read = Settings::from_environment();
  ASSERT_TRUE(read.ok()) << read.status().to_string();
  for (const Row& row : kRows)
    EXPECT_EQ(row.field(read.value()), values(row.good).back().second) << row.name;
}

// ---- Names

TEST_F(SettingsTest, AnUnknownVariableIsAnError) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"LANYARD_DEADLINE", "LANYARD_DEADLINE_S"}, {"LANYARD_DEADLINE_MS", "LANYARD_DEADLINE_S"},
      {"LANYARD_STRATGEY", "LANYARD_STRATEGY"},   {"LANYARD_SIM_DEPTH", "LANYARD_SIM_DWQ_DEPTH"},
      {"LANYARD_FI_POLL", "LANYARD_FI_POOL"},     {"LANYARD_SIM_WIRES", "LANYARD_SIM_WIRE"},
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

TEST_F(SettingsTest, OtherVariablesAreIgnored) {
  for (const char* name :
       {"LANYARD", "LANYARDS_DEADLINE", "MY_LANYARD_DEADLINE", "lanyard_deadline", "LANYARD_TEST_PATIENCE_S",
        // Used by build systems and module files.
        "LANYARD_DIR", "LANYARD_ROOT", "LANYARD_HOME", "LANYARD_PREFIX", "LANYARD_VERSION", "LANYARD_LIB",
        "LANYARD_LIBDIR", "LANYARD_LIBRARY", "LANYARD_MPICH_LIBRARY", "LANYARD_LIBRARIES", "LANYARD_INC",
        "LANYARD_INCLUDE", "LANYARD_INCLUDE_DIR", "LANYARD_INCLUDE_DIRS", "LANYARD_BIN", "LANYARD_LIBRARY_PATH"}) {
    const bool was_set = getenv(name) != nullptr;
    if (!was_set)
      setenv(name, "3", 1);
    EXPECT_TRUE(Settings::from_environment().ok()) << name;
    if (!was_set)
      unsetenv(name);
  }
}

// A program may set every variable that the drivers, the simulated NIC and its provider read.
TEST_F(SettingsTest, EveryVariableInTheSourcesIsKnown) {
  std::ifstream list("tests/api/environment_names.txt");
  std::string name;
  int names = 0;
  while (std::getline(list, name)) {
    EXPECT_TRUE(Settings::is_known(name)) << name << " is missing in api/settings.cc";
    ++names;
  }
  EXPECT_GT(names, 25);
}

}  // namespace
}  // namespace lanyard::api
