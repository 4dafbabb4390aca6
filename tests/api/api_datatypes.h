// What the tests of datatypes with gaps share.
#ifndef LANYARD_TESTS_API_DATATYPES_H_
#define LANYARD_TESTS_API_DATATYPES_H_

#include <array>
#include <chrono>
#include <numeric>

#include "tests/api/api_objects.h"

namespace lanyard::api_test {

inline constexpr int kTag = 11;

class Type {
 public:
  template <typename Make>
  explicit Type(Make make) {
    make(&type_);
    MPI_Type_commit(&type_);
  }
  ~Type() { free(); }
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  operator MPI_Datatype() const { return type_; }
  void free() {
    if (type_ != MPI_DATATYPE_NULL)
      MPI_Type_free(&type_);
  }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

// Every third int, ten of them.
struct Thirds : Type {
  Thirds() : Type([](MPI_Datatype* type) { MPI_Type_vector(10, 1, 3, MPI_INT, type); }) {}
};

struct Gaps : ::testing::Test {
  Stream stream;
  Queue queue{stream};
  Thirds thirds;
  std::array<int, 32> out{}, in{};
  Requests requests;

  void SetUp() override {
    std::iota(out.begin(), out.end(), 100);
    in.fill(-1);
  }
  void exchange() {
    requests.match();
    requests.start(queue);
    requests.wait(queue);
    queue.wait();
  }
  // Until the call is refused with this fact; what else it says is for a moment only.
  template <typename Call>
  static ::testing::AssertionResult comes_to_say(Call call, const std::string& fact) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      const int code = call();
      if (code == MPI_SUCCESS)
        return ::testing::AssertionFailure() << "no error";
      if (error_text(code).find(fact) != std::string::npos)
        return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "it never says " << fact;
  }
};

}  // namespace lanyard::api_test

#endif  // LANYARD_TESTS_API_DATATYPES_H_
