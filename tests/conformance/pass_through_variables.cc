// The MPI's own performance variables: see pass_through.h. An MPI may have none, as Debian's MPICH 4.0.
#include "tests/conformance/pass_through.h"
#include "tests/conformance/tools.h"

namespace lanyard::conformance::variables {
namespace {

// The MPI's own, by their indices, and sessions of it.
struct PassThroughTools : conformance::PassThrough {
  Tools tools;
  int mpis = 0;

  PassThroughTools() { PMPI_T_pvar_get_num(&mpis); }

  // Those that can be bound, by the MPI's indices.
  template <typename Visit>
  void for_each(Visit visit) {
    for (int index = 0; index < mpis; ++index) {
      Variable variable(index, PMPI_T_pvar_get_info);
      if (void* object = nullptr; variable.has_object(&object))
        visit(index, object);
    }
  }
  template <typename Visit>
  void for_each_handle(Visit visit) {
    for_each([&](int index, void* object) {
      MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
      int count = 0;
      if (PMPI_T_pvar_handle_alloc(tools.session, index, object, &handle, &count) != MPI_SUCCESS)
        return;
      visit(handle, count);
      PMPI_T_pvar_handle_free(tools.session, &handle);
    });
  }
  static int number_of(const std::string& text) { return static_cast<int>(std::hash<std::string>()(text)); }
  // The index that Lanyard has for the MPI's.
  static int index_of(const Variable& variable) {
    int index = kUntouched;
    MPI_T_pvar_get_index(variable.name.c_str(), variable.var_class, &index);
    return index;
  }
  // What a call on each of them, and on all at once, returns.
  template <typename Function, typename Call>
  void same_on_handles(Function lanyards, Function mpis_own, Call call, bool on_all) {
    same(lanyards, mpis_own, [&](auto function) {
      Observed seen{mpis};
      for_each_handle([&](MPI_T_pvar_handle handle, int count) { call(function, handle, count, seen); });
      if (on_all)
        call(function, MPI_T_PVAR_ALL_HANDLES, 0, seen);
      return seen;
    });
  }
};

TEST_F(PassThroughTools, MPI_T_pvar_get_num) {
  same(MPI_T_pvar_get_num, PMPI_T_pvar_get_num, [&](auto get_num) {
    int count = -1;
    Observed seen{get_num(&count)};
    int lanyards = 0;
    for (int index = 0; index < count; ++index)
      lanyards += count > mpis && Variable(index).is_lanyards() ? 1 : 0;
    seen.push_back(count - lanyards);
    return seen;
  });
}

// By Lanyard's index its function tells what the MPI's does by its own.
TEST_F(PassThroughTools, MPI_T_pvar_get_info) {
  same(MPI_T_pvar_get_info, PMPI_T_pvar_get_info, [&](auto get_info) {
    Observed seen{mpis};
    for_each([&](int index, void*) {
      const bool ours = get_info == MPI_T_pvar_get_info;
      const Variable variable(ours ? index_of(Variable(index, PMPI_T_pvar_get_info)) : index, get_info);
      seen.insert(seen.end(), {variable.code, variable.name_length, variable.description_length, variable.verbosity,
                               variable.var_class, variable.binding, variable.read_only, variable.continuous,
                               variable.atomic, number_of(variable.name), number_of(variable.description)});
    });
    return seen;
  });
}

// The index is told whose variable has the name.
TEST_F(PassThroughTools, MPI_T_pvar_get_index) {
  same(MPI_T_pvar_get_index, PMPI_T_pvar_get_index, [&](auto get_index) {
    int index = kUntouched;
    Observed seen{get_index("there is none of this name", MPI_T_PVAR_CLASS_COUNTER, &index), index};
    for_each([&](int each, void*) {
      const Variable variable(each, PMPI_T_pvar_get_info);
      seen.push_back(get_index(variable.name.c_str(), variable.var_class, &index));
      const Variable found(index, get_index == MPI_T_pvar_get_index ? MPI_T_pvar_get_info : PMPI_T_pvar_get_info);
      seen.push_back(number_of(found.name));
    });
    return seen;
  });
}

TEST_F(PassThroughTools, MPI_T_pvar_session_free) {
  same(MPI_T_pvar_session_free, PMPI_T_pvar_session_free, [&](auto free) {
    MPI_T_pvar_session session = MPI_T_PVAR_SESSION_NULL;
    MPI_T_pvar_session_create(&session);
    return Observed{free(&session), session == MPI_T_PVAR_SESSION_NULL};
  });
}

TEST_F(PassThroughTools, MPI_T_pvar_handle_alloc) {
  same(MPI_T_pvar_handle_alloc, PMPI_T_pvar_handle_alloc, [&](auto alloc) {
    Observed seen{mpis};
    for_each([&](int index, void* object) {
      const bool ours = alloc == MPI_T_pvar_handle_alloc;
      MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
      int count = 0;
      const int code =
          alloc(tools.session, ours ? index_of(Variable(index, PMPI_T_pvar_get_info)) : index, object, &handle, &count);
      seen.insert(seen.end(), {code, count});
      if (code == MPI_SUCCESS)
        seen.push_back(PMPI_T_pvar_handle_free(tools.session, &handle));
    });
    return seen;
  });
}

TEST_F(PassThroughTools, MPI_T_pvar_handle_free) {
  same(MPI_T_pvar_handle_free, PMPI_T_pvar_handle_free, [&](auto free) {
    Observed seen{mpis};
    for_each([&](int index, void* object) {
      MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
      int count = 0;
      if (PMPI_T_pvar_handle_alloc(tools.session, index, object, &handle, &count) == MPI_SUCCESS)
        seen.insert(seen.end(), {free(tools.session, &handle), handle == MPI_T_PVAR_HANDLE_NULL});
    });
    return seen;
  });
}

TEST_F(PassThroughTools, MPI_T_pvar_read) {
  same_on_handles(
      MPI_T_pvar_read, PMPI_T_pvar_read,
      [&](auto read, MPI_T_pvar_handle handle, int count, Observed& seen) {
        std::vector<double> value(static_cast<size_t>(count), -1.0);  // the widest type that there is
        seen.push_back(read(tools.session, handle, value.data()));
        for (const double each : value)
          seen.push_back(each == -1.0);  // the value itself may have changed between two calls
      },
      false);
}

TEST_F(PassThroughTools, MPI_T_pvar_start) {
  same_on_handles(
      MPI_T_pvar_start, PMPI_T_pvar_start,
      [&](auto start, MPI_T_pvar_handle handle, int, Observed& seen) { seen.push_back(start(tools.session, handle)); },
      true);
}

TEST_F(PassThroughTools, MPI_T_pvar_stop) {
  same_on_handles(
      MPI_T_pvar_stop, PMPI_T_pvar_stop,
      [&](auto stop, MPI_T_pvar_handle handle, int, Observed& seen) { seen.push_back(stop(tools.session, handle)); },
      true);
}

TEST_F(PassThroughTools, MPI_T_pvar_write) {
  same_on_handles(
      MPI_T_pvar_write, PMPI_T_pvar_write,
      [&](auto write, MPI_T_pvar_handle handle, int count, Observed& seen) {
        const std::vector<double> value(static_cast<size_t>(count));
        seen.push_back(write(tools.session, handle, value.data()));
      },
      false);
}

TEST_F(PassThroughTools, MPI_T_pvar_reset) {
  same_on_handles(
      MPI_T_pvar_reset, PMPI_T_pvar_reset,
      [&](auto reset, MPI_T_pvar_handle handle, int, Observed& seen) { seen.push_back(reset(tools.session, handle)); },
      true);
}

TEST_F(PassThroughTools, MPI_T_pvar_readreset) {
  same_on_handles(
      MPI_T_pvar_readreset, PMPI_T_pvar_readreset,
      [&](auto readreset, MPI_T_pvar_handle handle, int count, Observed& seen) {
        std::vector<double> value(static_cast<size_t>(count));
        seen.push_back(readreset(tools.session, handle, value.data()));
      },
      false);
}

TEST_F(PassThroughTools, MPI_T_category_get_pvars) {
  same(MPI_T_category_get_pvars, PMPI_T_category_get_pvars, [&](auto get_pvars) {
    const auto get_info = get_pvars == MPI_T_category_get_pvars ? MPI_T_pvar_get_info : PMPI_T_pvar_get_info;
    int categories = 0;
    MPI_T_category_get_num(&categories);
    Observed seen{categories};
    for (int category = 0; category < categories; ++category) {
      std::array<int, 16> indices;
      indices.fill(kUntouched);
      seen.push_back(get_pvars(category, static_cast<int>(indices.size()), indices.data()));
      for (const int index : indices)
        seen.push_back(index == kUntouched ? index : number_of(Variable(index, get_info).name));
    }
    return seen;
  });
}

}  // namespace
}  // namespace lanyard::conformance::variables
