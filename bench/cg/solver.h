// Solver: conjugate gradients and pipelined conjugate gradients on one stream, each written once
// over a few operations. Their kernels are in kernels.h; Communication moves data between ranks.
//
// Sources: Trotter et al., listing 2 (CG); Ghysels and Vanroose, algorithm 3 (pipelined CG).
#ifndef LANYARD_BENCH_CG_SOLVER_H_
#define LANYARD_BENCH_CG_SOLVER_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/cg/communication.h"
#include "bench/cg/kernels.h"
#include "bench/cg/matrix.h"
#include "bench/report.h"
#include "bench/stream.h"

namespace lanyard::bench::cg {

// What the stream spends its time on. kLook: it is empty, because the host looks for the end.
enum class Part { kProduct, kHalo, kDot, kSum, kAxpy, kLook };
constexpr std::array kPartNames = {"product", "halo", "dot", "sum", "axpy", "look"};

// One thread. Every rank makes the same calls in the same order; errors end the job.
class Solver {
 public:
  // Collective over MPI_COMM_WORLD. `way`: as in Communication. `most_iterations`: of any solve.
  // The matrix and the stream must outlive the solver. The stream has no queue yet.
  Solver(bool is_pipelined, const std::string& way, const LocalMatrix& matrix, int64_t most_iterations, Stream& stream)
      : matrix_(matrix),
        stream_(stream),
        communication_(way, matrix, is_pipelined, stream),
        r_(vector()),
        x_(vector()),
        state_({State()}, stream),
        history_(std::vector<double>(static_cast<size_t>(most_iterations) + 1, 0), stream),
        own_(part_of_matrix(matrix.own, nullptr)),
        others_(part_of_matrix(matrix.others, keep(matrix.edge))),
        sent_(keep(matrix.sent)),
        partial_(keep(std::vector<double>(kSums * DotKernel::kMostParts, 0))),
        parts_ready_(keep(std::vector<uint32_t>{0})),
        last_stamp_(keep(std::vector<int64_t>{0})),
        spent_(std::vector<int64_t>(kPartNames.size()), stream) {
    for (size_t part = 0; part < stamps_.size(); ++part)
      stamps_[part] = StampKernel{state_.data(), last_stamp_, spent_.data() + part};
    load_gpu_kernels();
    if (is_pipelined)
      make_pipelined();
    else
      make_cg();
  }

  // Solves A x = b from x = 0, until |r| <= tolerance |b| or after `most` iterations. `b`: own
  // rows. In stream and exchange the host checks for the end after every `check_every` iterations.
  // `progress` gets the number of iterations enqueued. Blocks.
  void solve(const std::vector<double>& b, double tolerance, int64_t most, int64_t check_every,
             const std::function<void(int64_t)>& progress) {
    const auto enqueue = [this](const Steps& steps) {
      for (const Step& step : steps) {
        step.enqueue();
        stamp(step.part);
      }
    };
    const std::vector<double> zeros(b.size(), 0);
    for (Vector& vector : vectors_)
      vector.write(&vector == &r_ ? b : zeros);
    State state;
    state.tolerance = tolerance;
    state.most_iterations = most;
    state_.write({state});
    if (is_measuring_) {
      stamp(Part::kLook);
      stream_.synchronize();
      spent_.write(std::vector<int64_t>(stamps_.size()));  // the time before the first stamp does not count
    }
    const int64_t batch = communication_.is_by_host() ? 1 : check_every;
    enqueue(begin_);
    for (int64_t done = 0; !state.is_over; progress(done)) {
      stamp(Part::kLook);
      for (int64_t end = done + batch; done < end; ++done)
        enqueue(iteration_);
      communication_.synchronize();
      state = this->state();
    }
  }

  State state() const { return state_.read()[0]; }
  // r.r after 0, 1, ... iterations.
  std::vector<double> history() const {
    std::vector<double> squares = history_.read();
    squares.resize(static_cast<size_t>(state().residuals));
    return squares;
  }
  // Of the own rows.
  std::vector<double> solution() const { return x_.read(); }
  Json info() const { return communication_.info(); }

  // From now on the stream records how long each step takes. spent(): ns in the last solve, by
  // part.
  void measure() { is_measuring_ = true; }
  std::vector<int64_t> spent() const { return spent_.read(); }

 private:
  struct Step {
    Part part;
    std::function<void()> enqueue;
  };
  using Vector = Array<double>;
  using Steps = std::vector<Step>;

  // ---- The algorithms: they add the steps of begin_, then of iteration_

  void make_cg() {
    Vector &p = vector(), &t = vector();
    const double *alpha = &state_.data()->alpha, *beta = &state_.data()->beta;

    product(x_, t);
    axpys({axpy(r_, -1, nullptr, t)});  // r = b - A x
    dot(kSquare, r_, r_);
    scalars(StepKernel::kResidual);

    steps_ = &iteration_;
    axpys({aypx(p, beta, r_)});  // beta is 0 in the first iteration
    product(p, t);
    dot(kProduct, p, t);
    scalars(StepKernel::kDirection);
    axpys({axpy(x_, 1, alpha, p), axpy(r_, -1, alpha, t)});
    dot(kSquare, r_, r_);
    scalars(StepKernel::kResidual);
  }

  void make_pipelined() {
    Vector &p = vector(), &w = vector(), &q = vector(), &s = vector(), &z = vector();
    const double *alpha = &state_.data()->alpha, *beta = &state_.data()->beta;

    product(x_, q);
    axpys({axpy(r_, -1, nullptr, q)});  // r = b - A x
    product(r_, w);

    steps_ = &iteration_;
    start_dots(kProduct, {{&r_, &w}, {&r_, &r_}});
    product(w, q);  // while the sums are in flight
    add(Part::kSum, [this] { communication_.wait_sum(); });
    scalars(StepKernel::kPipelined);
    axpys({aypx(z, beta, q), aypx(s, beta, w), aypx(p, beta, r_), axpy(x_, 1, alpha, p), axpy(r_, -1, alpha, s),
           axpy(w, -1, alpha, z)});
  }

  // ---- The operations: each adds steps to *steps_

  // y = A x
  void product(Vector& x, Vector& y) {
    const bool has_neighbours = !matrix_.neighbours.empty();
    if (has_neighbours) {
      add(Part::kHalo, GatherKernel{state_.data(), x.data(), sent_, communication_.out(),
                                    static_cast<int64_t>(matrix_.sent.size())});
      add(Part::kHalo, [this] { communication_.start_halo(); });
    }
    add(Part::kProduct, with(own_, x.data(), y.data()));
    if (!has_neighbours)
      return;
    add(Part::kHalo, [this] { set_ = communication_.wait_halo(); });
    std::vector<Kernel> by_set;
    for (int set = 0; set < communication_.sets(); ++set)
      by_set.push_back(with(others_, communication_.ghosts(set), y.data()));
    add(Part::kProduct, [this, kernels = std::make_shared<const std::vector<Kernel>>(std::move(by_set))] {
      launch(stream_, (*kernels)[static_cast<size_t>(set_)]);
    });
  }

  // One or two dot products, over all ranks, whose sums begin at `first`.
  void start_dots(int first, std::initializer_list<std::array<Vector*, 2>> factors) {
    DotKernel kernel{};
    kernel.state = state_.data();
    kernel.length = matrix_.size();
    for (const auto& [a, b] : factors) {
      kernel.a[kernel.count] = a->data();
      kernel.b[kernel.count++] = b->data();
    }
    kernel.results = communication_.own_sums() + first;
    kernel.partial = partial_;
    kernel.parts_ready = parts_ready_;
    add(Part::kDot, kernel);
    add(Part::kSum, [this] { communication_.start_sum(); });
  }
  void dot(int place, Vector& a, Vector& b) {
    start_dots(place, {{&a, &b}});
    add(Part::kSum, [this] { communication_.wait_sum(); });
  }

  void scalars(StepKernel::Kind kind) {
    add(Part::kSum, StepKernel{state_.data(), kind, communication_.sums(), history_.data()});
  }

  void axpys(std::initializer_list<Axpy> list) {
    AxpyKernel kernel{state_.data(), matrix_.size(), static_cast<int>(list.size()), {}};
    std::copy(list.begin(), list.end(), kernel.list);
    add(Part::kAxpy, kernel);
  }
  // y += sign a x, and y = x + b y.
  static Axpy axpy(Vector& y, double sign, const double* a, Vector& x) {
    return {y.data(), sign, a, x.data(), nullptr};
  }
  static Axpy aypx(Vector& y, const double* b, Vector& x) { return {y.data(), 1, nullptr, x.data(), b}; }

  void add(Part part, std::function<void()> enqueue) { steps_->push_back({part, std::move(enqueue)}); }
  // A kernel stays where it is for as long as the solver lives.
  void add(Part part, const Kernel& kernel) {
    add(part, [this, kept = std::make_shared<const Kernel>(kernel)] { launch(stream_, *kept); });
  }
  void stamp(Part part) {
    if (is_measuring_)
      launch(stream_, stamps_[static_cast<size_t>(part)]);
  }

  // ---- Memory

  Vector& vector() {  // a new one, of zeros
    return vectors_.emplace_back(std::vector<double>(static_cast<size_t>(matrix_.size()), 0), stream_);
  }

  // A copy in the stream's memory that lives as long as the solver.
  template <class T>
  T* keep(const std::vector<T>& values) {
    const auto kept = std::make_shared<Array<T>>(values, stream_);
    kept_.push_back(kept);
    return kept->data();
  }

  // Without vectors.
  ProductKernel part_of_matrix(const Csr& csr, const int32_t* edge) {
    // So many lanes that a row of mean length gives each two entries.
    const int64_t mean = csr.nonzeros() / std::max<int64_t>(csr.rows(), 1);
    int lanes = 1;
    while (lanes < 32 && 2 * lanes < mean)
      lanes *= 2;
    return {state_.data(), csr.rows(), keep(csr.starts), keep(csr.columns), keep(csr.values), nullptr, nullptr,
            edge,          lanes};
  }
  static ProductKernel with(ProductKernel part, const double* x, double* y) {
    part.x = x;
    part.y = y;
    return part;
  }

  const LocalMatrix& matrix_;
  Stream& stream_;
  Communication communication_;
  std::vector<std::shared_ptr<void>> kept_;
  std::list<Vector> vectors_;
  Vector &r_, &x_;
  Array<State> state_;
  Vector history_;
  const ProductKernel own_, others_;
  const int32_t* const sent_;
  double* const partial_;
  uint32_t* const parts_ready_;
  int set_ = 0;  // of the ghosts that came last
  Steps begin_, iteration_;
  Steps* steps_ = &begin_;
  bool is_measuring_ = false;
  int64_t* const last_stamp_;
  Array<int64_t> spent_;
  std::array<Kernel, kPartNames.size()> stamps_;
};

}  // namespace lanyard::bench::cg

#endif  // LANYARD_BENCH_CG_SOLVER_H_
