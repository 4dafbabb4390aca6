// Solver: conjugate gradients and pipelined conjugate gradients on one stream, each written once
// over a few operations. Their kernels are in kernels.h; Communication moves data between ranks.
//
// Sources: Trotter et al., listing 2 (CG); Ghysels and Vanroose, algorithm 3 (pipelined CG).
#ifndef LANYARD_BENCH_CG_SOLVER_H_
#define LANYARD_BENCH_CG_SOLVER_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cg/communication.h"
#include "bench/cg/kernels.h"
#include "bench/cg/local_matrix.h"
#include "bench/report.h"
#include "bench/stream.h"

namespace lanyard::bench::cg {

// What the stream spends its time on. kLook: it is empty, because the host looks for the end.
enum class Part { kProduct, kHalo, kDot, kSum, kAxpy, kLook };
constexpr std::array kPartNames = {"product", "halo", "dot", "sum", "axpy", "look"};
constexpr size_t kParts = kPartNames.size();

// Values in a stream's memory.
template <class T>
class Array {
 public:
  Array(const std::vector<T>& values, Stream& stream)
      : count_(values.size()), buffer_(count_ * sizeof(T), stream.gpu()) {
    write(values);
  }
  T* data() { return reinterpret_cast<T*>(buffer_.data()); }
  // Both require that the stream is empty.
  void write(const std::vector<T>& values) {
    buffer_.write([&](std::span<std::byte> to) { std::memcpy(to.data(), values.data(), to.size()); });
  }
  std::vector<T> read() const {
    return buffer_.read([&](std::span<const std::byte> from) {
      std::vector<T> values(count_);
      std::memcpy(static_cast<void*>(values.data()), from.data(), from.size());
      return values;
    });
  }

 private:
  size_t count_;
  AlignedBuffer buffer_;
};

// One thread. Every rank makes the same calls in the same order; errors end the job.
class Solver {
 public:
  // Collective over MPI_COMM_WORLD. `way`: as `name` in make_communication(). `most_iterations`: of
  // any solve. The matrix and the stream must outlive the solver. The stream has no queue yet.
  Solver(bool is_pipelined, const std::string& way, const LocalMatrix& matrix, int64_t most_iterations, Stream& stream);

  // Solves A x = b from x = 0, until |r| <= tolerance |b| or after `most` iterations. `b`: own
  // rows. In stream and exchange the host checks for the end after every `check_every` iterations.
  // `progress` gets the number of iterations enqueued. Blocks.
  void solve(const std::vector<double>& b, double tolerance, int64_t most, int64_t check_every,
             const std::function<void(int64_t)>& progress);

  State state() const { return state_.read()[0]; }
  // r.r after 0, 1, ... iterations.
  std::vector<double> history() const;
  // Of the own rows.
  std::vector<double> solution() const { return x_.read(); }
  Json info() const { return communication_->info(); }

  // From now on the stream records how long each step takes. spent(): ns in the last
  // solve, by part.
  void measure() { is_measuring_ = true; }
  std::vector<int64_t> spent() const { return spent_.read(); }

 private:
  struct Step {
    Part part;
    std::function<void()> enqueue;
  };
  using Vector = Array<double>;

  // The algorithms: they add the steps of begin_, then of iteration_.
  void make_cg();
  void make_pipelined();

  // The operations. Each adds steps to *steps_.
  void product(Vector& x, Vector& y);  // y = A x
  // One or two dot products, over all ranks.
  void start_dots(const SumRange& range, std::initializer_list<std::array<Vector*, 2>> factors);
  void wait_dots(const SumRange& range);
  void dot(const SumRange& range, Vector& a, Vector& b) {
    start_dots(range, {{&a, &b}});
    wait_dots(range);
  }
  void scalars(StepKernel::Kind kind);
  void axpys(std::initializer_list<Axpy> list);
  // y += sign a x, and y = x + b y.
  static Axpy axpy(Vector& y, double sign, const double* a, Vector& x) {
    return {y.data(), sign, a, x.data(), nullptr};
  }
  static Axpy aypx(Vector& y, const double* b, Vector& x) { return {y.data(), 1, nullptr, x.data(), b}; }

  void add(Part part, std::function<void()> enqueue) { steps_->push_back({part, std::move(enqueue)}); }
  void add(Part part, const Kernel& kernel);
  void enqueue(const std::vector<Step>& steps);

  Vector& vector();  // a new one, of zeros
  // A copy in the stream's memory that lives as long as the solver.
  template <class T>
  T* keep(const std::vector<T>& values);
  ProductKernel part_of_matrix(const Csr& csr, const int32_t* edge);  // without vectors

  const LocalMatrix& matrix_;
  Stream& stream_;
  const std::unique_ptr<Communication> communication_;
  std::list<AlignedBuffer> kept_;
  std::list<Vector> vectors_;
  Vector &r_, &x_;
  Array<State> state_;
  Vector history_;
  const ProductKernel own_, others_;
  const int32_t* const sent_;
  double* const partial_;
  uint32_t* const parts_ready_;
  int set_ = 0;  // of the ghosts that came last
  std::vector<Step> begin_, iteration_;
  std::vector<Step>* steps_ = &begin_;
  bool is_measuring_ = false;
  int64_t* const last_stamp_;
  Array<int64_t> spent_;
  std::array<Kernel, kParts> stamps_;
};

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_SOLVER_H_
