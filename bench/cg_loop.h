// CgLoop: conjugate gradients, or pipelined ones, of a distributed matrix on a stream.
//
// Both are without preconditioner and begin at x = 0, so r = b. An iteration, where (+) is added up over all ranks:
//
//   CG (Hestenes, Stiefel)                     pipelined CG (Ghysels, Vanroose, algorithm 3)
//     t = A p                                    (r.w, r.r) (+) started
//     p.t (+)                                    q = A w
//     r -= alpha t,  alpha = r.r / p.t           (+) waited for: beta = r.r / r.r before,
//     r.r (+)                                      alpha = r.r / (r.w - beta r.r / alpha before)
//     x += alpha p                               z = q + beta z,  s = w + beta s,  p = r + beta p
//     p = r + beta p,  beta = r.r / r.r before   x += alpha p,  r -= alpha s,  w -= alpha z
//
// CG waits for two sums, each before it can go on; pipelined CG for one, which travels while the matrix is multiplied,
// and pays with four vectors more. The latter starts with w = A r, and knows that it has converged one multiplication
// later than CG.
//
// kMpi: the host synchronises the stream where it needs a sum, adds it up by MPI, and makes the steps of the scalars
// itself; kernels find them in a copy that a kernel makes. kStream and kNccl: everything is enqueued, kernels make the
// steps, and the host looks whether it is over when it likes to.
#ifndef LANYARD_BENCH_CG_LOOP_H_
#define LANYARD_BENCH_CG_LOOP_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/aligned_buffer.h"
#include "bench/cg_kernels.h"
#include "bench/global_sum.h"
#include "bench/local_matrix.h"
#include "bench/sparse_halo.h"
#include "bench/stream.h"
#include "bench/stream_queue.h"

namespace lanyard::bench {

enum class CgSolver { kCg, kPipelined };

struct CgMethod {
  CgSolver solver = CgSolver::kCg;
  CgMode mode = CgMode::kMpi;
  Merging merging = Merging::kSingle;
  bool is_captured = false;  // kStream, kNccl: graphs are replayed
};

// What the time of an iteration goes to.
enum class CgWork { kPack, kSpmv, kAxpy, kDot, kNorm, kScalars, kHalo, kSum };
constexpr int kCgWorks = 8;
using CgSeconds = std::array<double, kCgWorks>;

class CgLoop {
 public:
  // Collective over MPI_COMM_WORLD. The matrix, the stream, which has nothing enqueued and no queue yet, and `nccl`
  // (kNccl) outlive this object.
  CgLoop(const CgMethod& method, const LocalMatrix& matrix, int ranks, int64_t most_iterations, Stream& stream,
         Nccl* nccl);
  // Requires that everything has run.
  ~CgLoop() = default;
  CgLoop(const CgLoop&) = delete;
  CgLoop& operator=(const CgLoop&) = delete;

  // Why messages are not merged as asked for, on this rank; empty where they are.
  std::string why_not_merged() const { return halo_.why_not_merged(); }
  // Why graphs cannot be captured; empty where they can.
  std::string why_not_captured() { return halo_.why_not_captured(); }
  // Captures what begin() and iterate() then replay.
  void capture();

  // Ready for begin(), with the right-hand side `b` of the own rows. Requires that everything has run.
  void fill(const std::vector<double>& b, double tolerance, int64_t most_iterations);
  // What is before the first iteration, and an iteration; in kMpi none once it is over. Every rank calls them as often.
  void begin();
  void iterate();
  // Blocks until everything enqueued has run.
  void synchronize();
  // Whether it is over, on all ranks alike; in kMpi at once, else after synchronize().
  bool is_over() { return state().is_over != 0; }

  // Where time goes, once the host waits after each piece of work; which iterate() does from then on. Not captured.
  void measure() { seconds_.emplace(); }
  const CgSeconds& seconds() const { return *seconds_; }

  // After synchronize().
  CgState state();
  std::vector<double> history();
  std::vector<double> solution();
  QueueInfo info() const { return queue_ ? queue_->info() : QueueInfo(); }

 private:
  // A vector of the own rows, in the stream's memory.
  class Vector {
   public:
    Vector() = default;
    Vector(int64_t size, Stream& stream) : buffer_(static_cast<size_t>(size) * sizeof(double), stream.gpu()) {}
    double* data() { return reinterpret_cast<double*>(buffer_.data()); }
    void write(const std::vector<double>& values);
    std::vector<double> read() const;

   private:
    AlignedBuffer buffer_;
  };
  // The kernels of y = A x.
  struct Product {
    GatherKernel gather;
    SpmvKernel own;
    std::array<SpmvKernel, 2> others;  // by the halo's set
  };
  // A part of the matrix, in the stream's memory.
  struct Part {
    AlignedBuffer starts, columns, values, edge;
    SpmvKernel kernel;  // but for x, y and the state
  };

  Part part(const Csr& csr, const std::vector<int32_t>* edge);
  Product product(double* x, double* y);
  DotKernel dots(std::initializer_list<std::array<double*, 2>> factors, int first);
  void make_kernels();
  void make_sums();
  bool is_pipelined() const { return method_.solver == CgSolver::kPipelined; }
  bool is_by_host() const { return method_.mode == CgMode::kMpi; }

  void enqueue_begin();
  void enqueue_iteration();
  void multiply(const Product& product);
  void step(StepKernel::Kind kind);
  // Shows kernels the scalars of the host; kMpi, after a synchronisation and once till the next.
  void show_state();
  template <class F>
  void work(CgWork what, F&& f) {
    if (!seconds_)
      return f();
    stream_.synchronize();
    const auto begin = std::chrono::steady_clock::now();
    f();
    stream_.synchronize();
    (*seconds_)[static_cast<size_t>(what)] +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  const CgMethod method_;
  const LocalMatrix& matrix_;
  const bool is_alone_;
  const int64_t most_iterations_;
  Stream& stream_;
  const std::unique_ptr<CgKernels> kernels_;
  std::optional<StreamQueue> queue_;
  SparseHalo halo_;
  Part own_, others_;
  Vector r_, p_, x_, t_, w_, q_, s_, z_;
  AlignedBuffer state_, history_, partial_, blocks_done_;  // in the stream's memory
  // kMpi: the scalars of the host, and what show_state() shows of them, where a GPU can read and write.
  AlignedBuffer host_state_, shown_state_;
  CopyKernel show_;
  std::vector<double> host_history_;

  Product product_, first_product_;
  DotKernel dot_, norm_;
  UpdateKernel update_residual_, update_;
  std::map<StepKernel::Kind, StepKernel> steps_;
  std::optional<GlobalSum> sum_product_, sum_square_, sum_both_;
  std::optional<CgSeconds> seconds_;
  // After what is in them: destroyed before it.
  std::unique_ptr<Graph> begin_graph_, iteration_graph_;
};

}  // namespace lanyard::bench

#endif  // LANYARD_BENCH_CG_LOOP_H_
