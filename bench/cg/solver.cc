#include "bench/cg/solver.h"

#include <algorithm>
#include <span>

namespace lanyard::bench::cg {
namespace {

constexpr SumRange kProductOnly{kProduct, 1}, kSquareOnly{kSquare, 1}, kBoth{kProduct, 2};

// So many that a row of mean length gives each two entries.
int lanes_for(const Csr& csr) {
  const int64_t mean = csr.nonzeros() / std::max<int64_t>(csr.rows(), 1);
  int lanes = 1;
  while (lanes < 32 && 2 * lanes < mean)
    lanes *= 2;
  return lanes;
}

}  // namespace

// ---- The algorithms

void Solver::make_cg() {
  Vector &p = vector(), &t = vector();
  const double *alpha = &state_.data()->alpha, *beta = &state_.data()->beta;

  product(x_, t);
  axpys({axpy(r_, -1, nullptr, t)});  // r = b - A x
  dot(kSquareOnly, r_, r_);
  scalars(StepKernel::kResidual);

  steps_ = &iteration_;
  axpys({aypx(p, beta, r_)});  // beta is 0 in the first iteration
  product(p, t);
  dot(kProductOnly, p, t);
  scalars(StepKernel::kDirection);
  axpys({axpy(x_, 1, alpha, p), axpy(r_, -1, alpha, t)});
  dot(kSquareOnly, r_, r_);
  scalars(StepKernel::kResidual);
}

void Solver::make_pipelined() {
  Vector &p = vector(), &w = vector(), &q = vector(), &s = vector(), &z = vector();
  const double *alpha = &state_.data()->alpha, *beta = &state_.data()->beta;

  product(x_, q);
  axpys({axpy(r_, -1, nullptr, q)});  // r = b - A x
  product(r_, w);

  steps_ = &iteration_;
  start_dots(kBoth, {{&r_, &w}, {&r_, &r_}});
  product(w, q);  // while the sums are in flight
  wait_dots(kBoth);
  scalars(StepKernel::kPipelined);
  axpys({aypx(z, beta, q), aypx(s, beta, w), aypx(p, beta, r_), axpy(x_, 1, alpha, p), axpy(r_, -1, alpha, s),
         axpy(w, -1, alpha, z)});
}

// ---- The operations

void Solver::product(Vector& x, Vector& y) {
  const bool has_neighbours = !matrix_.neighbours.empty();
  if (has_neighbours) {
    add(Part::kHalo,
        GatherKernel{state_.data(), x.data(), sent_, communication_->out(), static_cast<int64_t>(matrix_.sent.size())});
    add(Part::kHalo, [this] { communication_->start_halo(); });
  }
  ProductKernel own = own_;
  own.x = x.data();
  own.y = y.data();
  add(Part::kProduct, own);
  if (!has_neighbours)
    return;
  add(Part::kHalo, [this] { set_ = communication_->wait_halo(); });
  std::vector<Kernel> by_set;
  for (int set = 0; set < communication_->sets(); ++set) {
    ProductKernel others = others_;
    others.x = communication_->ghosts(set);
    others.y = y.data();
    by_set.push_back(others);
  }
  add(Part::kProduct, [this, kernels = std::make_shared<const std::vector<Kernel>>(std::move(by_set))] {
    launch(stream_, (*kernels)[static_cast<size_t>(set_)]);
  });
}

void Solver::start_dots(const SumRange& range, std::initializer_list<std::array<Vector*, 2>> factors) {
  DotKernel kernel{};
  kernel.state = state_.data();
  kernel.length = matrix_.size();
  for (const std::array<Vector*, 2>& factor : factors) {
    kernel.a[kernel.count] = factor[0]->data();
    kernel.b[kernel.count++] = factor[1]->data();
  }
  kernel.results = communication_->own_sums() + range.first;
  kernel.partial = partial_;
  kernel.parts_ready = parts_ready_;
  add(Part::kDot, kernel);
  add(Part::kSum, [this, range] { communication_->start_sum(range); });
}

void Solver::wait_dots(const SumRange& range) {
  add(Part::kSum, [this, range] { communication_->wait_sum(range); });
}

void Solver::axpys(std::initializer_list<Axpy> list) {
  AxpyKernel kernel{};
  kernel.state = state_.data();
  kernel.length = matrix_.size();
  kernel.count = static_cast<int>(list.size());
  std::copy(list.begin(), list.end(), kernel.list);
  add(Part::kAxpy, kernel);
}

void Solver::scalars(StepKernel::Kind kind) {
  add(Part::kSum, StepKernel{kind, state_.data(), communication_->sums(), history_.data()});
}

// A kernel stays where it is for as long as the solver lives.
void Solver::add(Part part, const Kernel& kernel) {
  add(part, [this, kept = std::make_shared<const Kernel>(kernel)] { launch(stream_, *kept); });
}

// ---- Memory, and the loop

template <class T>
T* Solver::keep(const std::vector<T>& values) {
  AlignedBuffer& buffer = kept_.emplace_back(values.size() * sizeof(T), stream_.gpu());
  buffer.write([&](std::span<std::byte> to) { std::memcpy(to.data(), values.data(), to.size()); });
  return reinterpret_cast<T*>(buffer.data());
}

Solver::Vector& Solver::vector() {
  return vectors_.emplace_back(std::vector<double>(static_cast<size_t>(matrix_.size()), 0), stream_);
}

ProductKernel Solver::part_of_matrix(const Csr& csr, const int32_t* edge) {
  return {state_.data(), csr.rows(), keep(csr.starts), keep(csr.columns), keep(csr.values), nullptr,
          nullptr,       edge,       lanes_for(csr)};
}

Solver::Solver(bool is_pipelined, const std::string& way, const LocalMatrix& matrix, int64_t most_iterations,
               Stream& stream)
    : matrix_(matrix),
      stream_(stream),
      communication_(make_communication(way, matrix,
                                        is_pipelined ? std::vector{kBoth} : std::vector{kProductOnly, kSquareOnly},
                                        is_pipelined, stream)),
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
      spent_(std::vector<int64_t>(kParts, 0), stream) {
  load_gpu_kernels();
  for (size_t part = 0; part < kParts; ++part)
    stamps_[part] = StampKernel{last_stamp_, spent_.data() + part};
  if (is_pipelined)
    make_pipelined();
  else
    make_cg();
}

void Solver::enqueue(const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    step.enqueue();
    if (is_measuring_)
      launch(stream_, stamps_[static_cast<size_t>(step.part)]);
  }
}

void Solver::solve(const std::vector<double>& b, double tolerance, int64_t most, int64_t check_every,
                   const std::function<void(int64_t)>& progress) {
  const std::vector<double> zeros(b.size(), 0);
  for (Vector& vector : vectors_)
    vector.write(&vector == &r_ ? b : zeros);
  State state;
  state.tolerance = tolerance;
  state.most_iterations = most;
  state_.write({state});
  if (is_measuring_) {
    launch(stream_, stamps_[static_cast<size_t>(Part::kLook)]);
    stream_.synchronize();
    spent_.write(std::vector<int64_t>(kParts, 0));  // what came before the stamp is nobody's
  }
  const int64_t batch = communication_->is_by_host() ? 1 : check_every;
  enqueue(begin_);
  for (int64_t done = 0; !state.is_over; progress(done)) {
    if (is_measuring_)
      launch(stream_, stamps_[static_cast<size_t>(Part::kLook)]);
    for (int64_t end = done + batch; done < end; ++done)
      enqueue(iteration_);
    communication_->synchronize();
    state = this->state();
  }
}

std::vector<double> Solver::history() const {
  std::vector<double> squares = history_.read();
  squares.resize(static_cast<size_t>(state().residuals));
  return squares;
}

}  // namespace lanyard::bench::cg
