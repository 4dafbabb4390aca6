// Lanyard's performance variables among the MPI's.
#include <map>

#include "tests/conformance/conformance.h"
#include "tests/conformance/tools.h"

namespace lanyard::conformance {
namespace {

struct Variables : Exchange {
  Tools tools;

  // All of Lanyard's by name.
  static std::map<std::string, int> indices() {
    std::map<std::string, int> result;
    for (int index = 0; index < Tools::count(); ++index)
      if (const Variable variable(index); variable.code == MPI_SUCCESS && variable.is_lanyards())
        result[variable.name] = index;
    return result;
  }
  MPI_T_pvar_handle open(const std::string& name) {
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int count = 0;
    EXPECT_EQ(MPI_T_pvar_handle_alloc(tools.session, indices().at(name), nullptr, &handle, &count), MPI_SUCCESS);
    EXPECT_EQ(count, 1);
    EXPECT_NE(handle, MPI_T_PVAR_HANDLE_NULL);
    return handle;
  }
  uint64_t read(MPI_T_pvar_handle handle) const {
    unsigned long long value = 0;
    EXPECT_EQ(MPI_T_pvar_read(tools.session, handle, &value), MPI_SUCCESS);
    return value;
  }
  uint64_t read(const std::string& name) {
    MPI_T_pvar_handle handle = open(name);
    const uint64_t value = read(handle);
    EXPECT_EQ(MPI_T_pvar_handle_free(tools.session, &handle), MPI_SUCCESS);
    EXPECT_EQ(handle, MPI_T_PVAR_HANDLE_NULL);
    return value;
  }
};

TEST_F(Variables, AreListedAndFoundByName) {
  const std::map<std::string, int> classes = {
      {"lanyard_entries_posted", MPI_T_PVAR_CLASS_COUNTER},
      {"lanyard_entries_overflowed", MPI_T_PVAR_CLASS_COUNTER},
      {"lanyard_entries_by_software", MPI_T_PVAR_CLASS_COUNTER},
      {"lanyard_entries_in_use", MPI_T_PVAR_CLASS_LEVEL},
      {"lanyard_entries_depth", MPI_T_PVAR_CLASS_SIZE},
      {"lanyard_counters", MPI_T_PVAR_CLASS_LEVEL},
      {"lanyard_regions", MPI_T_PVAR_CLASS_LEVEL},
      {"lanyard_loans", MPI_T_PVAR_CLASS_LEVEL},
      {"lanyard_failures", MPI_T_PVAR_CLASS_COUNTER},
      {"lanyard_starts", MPI_T_PVAR_CLASS_COUNTER},
      {"lanyard_waits", MPI_T_PVAR_CLASS_COUNTER},
      {"lanyard_triggers", MPI_T_PVAR_CLASS_COUNTER},
      {"lanyard_bytes", MPI_T_PVAR_CLASS_AGGREGATE},
  };
  const std::map<std::string, int> found = indices();
  EXPECT_EQ(found.size(), classes.size());
  for (const auto& [name, var_class] : classes) {
    ASSERT_EQ(found.count(name), 1u) << name;
    const Variable variable(found.at(name));
    EXPECT_EQ(variable.var_class, var_class) << name;
    EXPECT_EQ(variable.name_length, static_cast<int>(name.size()) + 1);
    EXPECT_EQ(variable.description_length, static_cast<int>(variable.description.size()) + 1);
    EXPECT_GT(variable.description.size(), 10u);
    EXPECT_EQ(variable.verbosity, MPI_T_VERBOSITY_USER_BASIC);
    EXPECT_EQ(variable.binding, MPI_T_BIND_NO_OBJECT);
    EXPECT_EQ(variable.datatype, MPI_UNSIGNED_LONG_LONG);
    EXPECT_EQ(variable.enumeration, MPI_T_ENUM_NULL);
    EXPECT_EQ(variable.read_only, 1);
    EXPECT_EQ(variable.continuous, 1);
    EXPECT_EQ(variable.atomic, 0);
    int index = kUntouched;
    EXPECT_EQ(MPI_T_pvar_get_index(name.c_str(), var_class, &index), MPI_SUCCESS) << name;
    EXPECT_EQ(index, found.at(name));
    EXPECT_NE(MPI_T_pvar_get_index(name.c_str(), MPI_T_PVAR_CLASS_STATE, &index), MPI_SUCCESS) << name;
  }
}

TEST_F(Variables, NamesAreCutToTheRoomThatThereIs) {
  const int index = indices().at("lanyard_counters");
  char text[] = "xxxxxxxx";
  int room = 5;
  EXPECT_EQ(MPI_T_pvar_get_info(index, text, &room, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                nullptr, nullptr, nullptr),
            MPI_SUCCESS);
  EXPECT_STREQ(text, "lany");
  EXPECT_EQ(room, 17);
  room = 0;
  EXPECT_EQ(MPI_T_pvar_get_info(index, text, &room, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                                nullptr, nullptr, nullptr),
            MPI_SUCCESS);
  EXPECT_STREQ(text, "lany");
  EXPECT_EQ(room, 17);
}

TEST_F(Variables, TellWhatTheQueuesDo) {
  const uint64_t starts = read("lanyard_starts"), waits = read("lanyard_waits"), bytes = read("lanyard_bytes"),
                 triggers = read("lanyard_triggers"), posted = read("lanyard_entries_posted"),
                 counters = read("lanyard_counters"), regions = read("lanyard_regions");
  uint64_t rings = 0;
  {
    Stream other_stream;
    Queue other(other_stream);
    Requests pair;
    add_pair(pair);
    pair.match();
    EXPECT_GT(read("lanyard_counters"), counters + 1);  // the queue has one, too
    EXPECT_GT(read("lanyard_regions"), regions);
    verify_matched(pair);
    pair.start(other);
    pair.wait(other);
    other.wait();
    rings = queue.figure("triggers") + other.figure("triggers");
  }
  EXPECT_EQ(read("lanyard_starts"), starts + 6);  // those of a queue that is no more among them
  EXPECT_EQ(read("lanyard_waits"), waits + 6);
  EXPECT_EQ(read("lanyard_bytes"), bytes + 3 * sizeof out);
  EXPECT_EQ(read("lanyard_triggers"), triggers + rings);
  EXPECT_GT(read("lanyard_entries_posted"), posted);
  EXPECT_EQ(read("lanyard_counters"), counters);
}

TEST_F(Variables, AreWhatTheQueueInfoSays) {
  const std::map<std::string, std::string> info = queue.info();
  for (const char* name : {"entries_posted", "entries_overflowed", "entries_by_software", "entries_in_use",
                           "entries_depth", "counters", "regions", "loans", "failures"}) {
    ASSERT_EQ(info.count(name), 1u) << name;
    EXPECT_EQ(std::to_string(read(std::string("lanyard_") + name)), info.at(name)) << name;
  }
}

TEST_F(Variables, CannotBeStartedWrittenOrReset) {
  const MPI_T_pvar_handle handle = open("lanyard_starts");
  unsigned long long value = 5;
  EXPECT_EQ(MPI_T_pvar_start(tools.session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
  EXPECT_EQ(MPI_T_pvar_stop(tools.session, handle), MPI_T_ERR_PVAR_NO_STARTSTOP);
  EXPECT_EQ(MPI_T_pvar_write(tools.session, handle, &value), MPI_T_ERR_PVAR_NO_WRITE);
  EXPECT_EQ(MPI_T_pvar_reset(tools.session, handle), MPI_T_ERR_PVAR_NO_WRITE);
  EXPECT_EQ(MPI_T_pvar_readreset(tools.session, handle, &value), MPI_T_ERR_PVAR_NO_ATOMIC);
  EXPECT_EQ(value, 5u);
  // All handles of a session are those that can be.
  EXPECT_EQ(MPI_T_pvar_start(tools.session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
  EXPECT_EQ(MPI_T_pvar_stop(tools.session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
}

TEST_F(Variables, HandlesBelongToOneSessionAndGoWithIt) {
  const MPI_T_pvar_handle handle = open("lanyard_counters");
  MPI_T_pvar_session other = MPI_T_PVAR_SESSION_NULL;
  ASSERT_EQ(MPI_T_pvar_session_create(&other), MPI_SUCCESS);
  unsigned long long value = 5;
  MPI_T_pvar_handle same = handle;
  EXPECT_EQ(MPI_T_pvar_read(other, handle, &value), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(MPI_T_pvar_handle_free(other, &same), MPI_T_ERR_INVALID_HANDLE);
  EXPECT_EQ(same, handle);
  EXPECT_EQ(value, 5u);
  EXPECT_EQ(MPI_T_pvar_session_free(&other), MPI_SUCCESS);
  EXPECT_GT(read(handle), 0u);  // that session's handles were others
  EXPECT_EQ(MPI_T_pvar_session_free(&tools.session), MPI_SUCCESS);
}

TEST_F(Variables, CanBeReadByAnyThreadWhileQueuesWork) {
  if (mpi_suite::process().thread_level < MPI_THREAD_MULTIPLE)
    GTEST_SKIP() << "the MPI has no MPI_THREAD_MULTIPLE";
  const MPI_T_pvar_handle handle = open("lanyard_starts");
  std::atomic<bool> stop{false};
  uint64_t falls = 0;
  std::thread reader([&] {
    for (uint64_t last = 0; !stop.load();) {
      const uint64_t now = read(handle);
      falls += now < last ? 1 : 0;
      last = now;
    }
  });
  Requests pair;
  add_pair(pair);
  pair.match();
  for (int i = 0; i < 20; ++i)
    verify_matched(pair);
  stop = true;
  reader.join();
  EXPECT_EQ(falls, 0u);
}

}  // namespace
}  // namespace lanyard::conformance

int main(int argc, char** argv) { return lanyard::mpi_suite::run(&argc, &argv); }
