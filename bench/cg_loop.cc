#include "bench/cg_loop.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "bench/cg_host_kernels.h"

namespace lanyard::bench {
namespace {

template <class T>
AlignedBuffer filled(const std::vector<T>& values, Stream& stream) {
  AlignedBuffer buffer(values.size() * sizeof(T), stream.gpu());
  buffer.write([&](std::span<std::byte> to) { std::memcpy(to.data(), values.data(), to.size()); });
  return buffer;
}
template <class T>
T* address(AlignedBuffer& buffer) {
  return reinterpret_cast<T*>(buffer.data());
}

// So many that a row of mean length keeps them busy.
int lanes_for(const Csr& csr) {
  constexpr int64_t kMost = 32, kEntriesEach = 2;
  const int64_t mean = csr.nonzeros() / std::max<int64_t>(csr.rows(), 1);
  int lanes = 1;
  while (lanes < kMost && lanes * kEntriesEach < mean)
    lanes *= 2;
  return lanes;
}

}  // namespace

void CgLoop::Vector::write(const std::vector<double>& values) {
  buffer_.write([&](std::span<std::byte> to) { std::memcpy(to.data(), values.data(), to.size()); });
}

std::vector<double> CgLoop::Vector::read() const {
  return buffer_.read([](std::span<const std::byte> from) {
    std::vector<double> values(from.size() / sizeof(double));
    std::memcpy(values.data(), from.data(), from.size());
    return values;
  });
}

CgLoop::CgLoop(const CgMethod& method, const LocalMatrix& matrix, int ranks, int64_t most_iterations, Stream& stream,
               Nccl* nccl)
    : method_(method),
      matrix_(matrix),
      is_alone_(ranks == 1),
      most_iterations_(most_iterations),
      stream_(stream),
      kernels_(make_cg_kernels(stream)),
      queue_(method.mode == CgMode::kStream ? std::make_optional<StreamQueue>(stream) : std::nullopt),
      halo_(method.mode, method.merging, matrix, stream, queue_ ? &*queue_ : nullptr, nccl),
      own_(part(matrix.own, nullptr)),
      others_(part(matrix.others, &matrix.edge)),
      state_(sizeof(CgState), stream.gpu()),
      history_(static_cast<size_t>(most_iterations + 1) * sizeof(double), stream.gpu()),
      partial_(kCgSums * kDotBlocks * sizeof(double), stream.gpu()),
      blocks_done_(filled(std::vector<uint32_t>{0}, stream)) {
  for (Vector* vector : {&r_, &p_, &x_})
    *vector = Vector(matrix.size(), stream);
  if (is_pipelined())
    for (Vector* vector : {&w_, &q_, &s_, &z_})
      *vector = Vector(matrix.size(), stream);
  else
    t_ = Vector(matrix.size(), stream);
  if (is_by_host()) {
    const auto allocate = [&] {
      return stream.gpu() != nullptr ? AlignedBuffer::pinned(sizeof(CgState), *stream.gpu())
                                     : AlignedBuffer(sizeof(CgState), nullptr);
    };
    host_state_ = allocate();
    shown_state_ = allocate();
    show_ = {state_.data(), shown_state_.data(), sizeof(CgState)};
    host_history_.resize(static_cast<size_t>(most_iterations) + 1);
  }
  make_kernels();
  make_sums();
}

CgLoop::Part CgLoop::part(const Csr& csr, const std::vector<int32_t>* edge) {
  Part result;
  result.starts = filled(csr.starts, stream_);
  result.columns = filled(csr.columns, stream_);
  result.values = filled(csr.values, stream_);
  result.kernel.rows = csr.rows();
  result.kernel.starts = address<int64_t>(result.starts);
  result.kernel.columns = address<int32_t>(result.columns);
  result.kernel.values = address<double>(result.values);
  result.kernel.lanes = lanes_for(csr);
  if (edge != nullptr) {
    result.edge = filled(*edge, stream_);
    result.kernel.edge = address<int32_t>(result.edge);
  }
  return result;
}

CgLoop::Product CgLoop::product(double* x, double* y) {
  const CgState* const state = address<CgState>(state_);
  Product result;
  result.gather = {state, x, halo_.places(), halo_.out(), halo_.sent()};
  result.own = own_.kernel;
  result.own.state = state;
  result.own.x = x;
  result.own.y = y;
  for (int set = 0; set < halo_.sets(); ++set) {
    SpmvKernel& others = result.others[static_cast<size_t>(set)];
    others = others_.kernel;
    others.state = state;
    others.x = halo_.ghosts(set);
    others.y = y;
  }
  return result;
}

DotKernel CgLoop::dots(std::initializer_list<std::array<double*, 2>> factors, int first) {
  CgState* const sums = address<CgState>(is_by_host() ? host_state_ : state_);
  DotKernel kernel;
  kernel.state = address<CgState>(state_);
  kernel.products = 0;
  for (const std::array<double*, 2>& factor : factors) {
    kernel.a[kernel.products] = factor[0];
    kernel.b[kernel.products] = factor[1];
    kernel.results[kernel.products] = (is_alone_ ? sums->totals : sums->own) + first + kernel.products;
    ++kernel.products;
  }
  kernel.count = matrix_.size();
  kernel.partial = address<double>(partial_);
  kernel.blocks_done = address<uint32_t>(blocks_done_);
  return kernel;
}

void CgLoop::make_kernels() {
  UpdateKernel update;
  update.state = address<CgState>(state_);
  update.count = matrix_.size();
  update.x = x_.data();
  update.r = r_.data();
  update.p = p_.data();
  update_residual_ = update_ = update;
  if (is_pipelined()) {
    first_product_ = product(r_.data(), w_.data());
    product_ = product(w_.data(), q_.data());
    static_assert(kProduct == 0 && kSquare == 1);
    dot_ = dots({{r_.data(), w_.data()}, {r_.data(), r_.data()}}, kProduct);
    update_.kind = UpdateKernel::Kind::kPipelined;
    update_.q = q_.data();
    update_.w = w_.data();
    update_.s = s_.data();
    update_.z = z_.data();
  } else {
    product_ = product(p_.data(), t_.data());
    dot_ = dots({{p_.data(), t_.data()}}, kProduct);
    norm_ = dots({{r_.data(), r_.data()}}, kSquare);
    update_residual_.kind = UpdateKernel::Kind::kResidual;
    update_residual_.t = t_.data();
    update_.kind = UpdateKernel::Kind::kDirection;
  }
  for (const auto kind : {StepKernel::Kind::kBegin, StepKernel::Kind::kIterate, StepKernel::Kind::kPipelined})
    steps_[kind] = {kind, address<CgState>(is_by_host() ? host_state_ : state_),
                    is_by_host() ? host_history_.data() : address<double>(history_)};
}

void CgLoop::make_sums() {
  CgState* const sums = address<CgState>(is_by_host() ? host_state_ : state_);
  StreamQueue* const queue = queue_ ? &*queue_ : nullptr;
  const auto make = [&](std::optional<GlobalSum>& sum, int first, int count) {
    double* const totals = sums->totals + first;
    sum.emplace(method_.mode, is_alone_ ? totals : sums->own + first, totals, count, method_.is_captured, stream_,
                queue, halo_.nccl());
  };
  if (is_pipelined())
    return make(sum_both_, kProduct, kCgSums);
  make(sum_product_, kProduct, 1);
  make(sum_square_, kSquare, 1);
}

void CgLoop::fill(const std::vector<double>& b, double tolerance, int64_t most_iterations) {
  const std::vector<double> zeros(b.size(), 0);
  r_.write(b);
  x_.write(zeros);
  p_.write(is_pipelined() ? zeros : b);
  if (is_pipelined())
    for (Vector* vector : {&s_, &z_})
      vector->write(zeros);
  CgState state;
  state.tolerance = tolerance;
  state.most_iterations = std::min(most_iterations, most_iterations_);
  state_.write([&](std::span<std::byte> to) { std::memcpy(to.data(), &state, sizeof state); });
  if (is_by_host())
    *address<CgState>(host_state_) = state;
}

void CgLoop::multiply(const Product& product) {
  work(CgWork::kHalo, [&] { halo_.start_receives(); });
  if (!halo_.is_empty())
    work(CgWork::kPack, [&] { kernels_->launch(product.gather); });
  work(CgWork::kHalo, [&] { halo_.send(); });
  work(CgWork::kSpmv, [&] { kernels_->launch(product.own); });
  const SpmvKernel& others = product.others[static_cast<size_t>(halo_.set())];
  work(CgWork::kHalo, [&] { halo_.wait(); });
  if (others.rows > 0)
    work(CgWork::kSpmv, [&] { kernels_->launch(others); });
}

void CgLoop::show_state() {
  if (!is_by_host())
    return;
  *address<CgState>(shown_state_) = *address<CgState>(host_state_);
  stream_.launch(show_);
}

void CgLoop::step(StepKernel::Kind kind) {
  work(CgWork::kScalars, [&] {
    if (is_by_host())
      make_step(steps_.at(kind));
    else
      kernels_->launch(steps_.at(kind));
  });
}

void CgLoop::enqueue_begin() {
  if (is_pipelined())
    return multiply(first_product_);
  work(CgWork::kNorm, [&] { kernels_->launch(norm_); });
  work(CgWork::kSum, [&] { sum_square_->sum(); });
  step(StepKernel::Kind::kBegin);
}

void CgLoop::enqueue_iteration() {
  if (is_pipelined()) {
    work(CgWork::kDot, [&] { kernels_->launch(dot_); });
    work(CgWork::kSum, [&] { sum_both_->start(); });
    multiply(product_);
    work(CgWork::kSum, [&] { sum_both_->wait(); });
    step(StepKernel::Kind::kPipelined);
    work(CgWork::kScalars, [&] { show_state(); });
    work(CgWork::kAxpy, [&] { kernels_->launch(update_); });
    return;
  }
  multiply(product_);
  work(CgWork::kDot, [&] { kernels_->launch(dot_); });
  work(CgWork::kSum, [&] { sum_product_->sum(); });
  work(CgWork::kScalars, [&] { show_state(); });
  work(CgWork::kAxpy, [&] { kernels_->launch(update_residual_); });
  work(CgWork::kNorm, [&] { kernels_->launch(norm_); });
  work(CgWork::kSum, [&] { sum_square_->sum(); });
  work(CgWork::kScalars, [&] { show_state(); });
  work(CgWork::kAxpy, [&] { kernels_->launch(update_); });
  step(StepKernel::Kind::kIterate);
}

void CgLoop::capture() {
  // NCCL's first operations make connections, which no capture may.
  if (method_.mode == CgMode::kNccl) {
    enqueue_begin();
    enqueue_iteration();
    stream_.synchronize();
  }
  stream_.gpu()->begin_capture();
  enqueue_begin();
  begin_graph_ = stream_.gpu()->end_capture();
  stream_.gpu()->begin_capture();
  enqueue_iteration();
  iteration_graph_ = stream_.gpu()->end_capture();
}

void CgLoop::begin() { begin_graph_ ? stream_.gpu()->replay(*begin_graph_) : enqueue_begin(); }

void CgLoop::iterate() { iteration_graph_ ? stream_.gpu()->replay(*iteration_graph_) : enqueue_iteration(); }

void CgLoop::synchronize() {
  if (queue_)
    queue_->drain();  // it reports failures better
  else
    stream_.synchronize();
}

CgState CgLoop::state() {
  if (is_by_host())
    return *address<CgState>(host_state_);
  return state_.read([](std::span<const std::byte> from) {
    CgState state;
    std::memcpy(static_cast<void*>(&state), from.data(), sizeof state);
    return state;
  });
}

std::vector<double> CgLoop::history() {
  const auto numbers = static_cast<size_t>(state().iterations) + 1;
  if (is_by_host())
    return {host_history_.begin(), host_history_.begin() + static_cast<std::ptrdiff_t>(numbers)};
  return history_.read([&](std::span<const std::byte> from) {
    std::vector<double> values(numbers);
    std::memcpy(values.data(), from.data(), numbers * sizeof(double));
    return values;
  });
}

std::vector<double> CgLoop::solution() { return x_.read(); }

}  // namespace lanyard::bench
