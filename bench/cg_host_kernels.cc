#include "bench/cg_host_kernels.h"

#include "bench/host_stream.h"

namespace lanyard::bench {
namespace {

void gather(const GatherKernel& what) {
  if (what.state->is_over)
    return;
  for (int64_t i = 0; i < what.count; ++i)
    what.to[i] = what.from[what.places[i]];
}

void multiply(const SpmvKernel& what) {
  if (what.state->is_over)
    return;
  for (int64_t r = 0; r < what.rows; ++r) {
    double sum = 0;
    for (int64_t k = what.starts[r]; k < what.starts[r + 1]; ++k)
      sum += what.values[k] * what.x[what.columns[k]];
    if (what.edge == nullptr)
      what.y[r] = sum;
    else
      what.y[what.edge[r]] += sum;
  }
}

// Eight sums side by side, which the compiler may keep in vector registers.
double product(const double* __restrict a, const double* __restrict b, int64_t count) {
  constexpr int kSums = 8;
  double sums[kSums] = {};
  int64_t i = 0;
  for (; i + kSums <= count; i += kSums)
    for (int k = 0; k < kSums; ++k)
      sums[k] += a[i + k] * b[i + k];
  for (; i < count; ++i)
    sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

void dot(const DotKernel& what) {
  if (what.state->is_over)
    return;
  for (int i = 0; i < what.products; ++i)
    *what.results[i] = product(what.a[i], what.b[i], what.count);
}

template <UpdateKernel::Kind kind>
void update_all(const UpdateKernel& u) {
  const double alpha = alpha_of(u), beta = beta_of(u);
  for (int64_t i = 0; i < u.count; ++i)
    update_element<kind>(u, i, alpha, beta);
}

void update(const UpdateKernel& what) {
  if (is_void(what))
    return;
  switch (what.kind) {
    case UpdateKernel::Kind::kResidual: return update_all<UpdateKernel::Kind::kResidual>(what);
    case UpdateKernel::Kind::kDirection: return update_all<UpdateKernel::Kind::kDirection>(what);
    case UpdateKernel::Kind::kPipelined: return update_all<UpdateKernel::Kind::kPipelined>(what);
  }
}

class HostCgKernels final : public CgKernels {
 public:
  explicit HostCgKernels(HostStream& stream) : stream_(stream) {}

  void launch(const GatherKernel& kernel) override { enqueue<GatherKernel, gather>(kernel); }
  void launch(const SpmvKernel& kernel) override { enqueue<SpmvKernel, multiply>(kernel); }
  void launch(const DotKernel& kernel) override { enqueue<DotKernel, dot>(kernel); }
  void launch(const UpdateKernel& kernel) override { enqueue<UpdateKernel, update>(kernel); }
  void launch(const StepKernel& kernel) override { enqueue<StepKernel, make_step>(kernel); }

 private:
  template <class Kernel, void (*function)(const Kernel&)>
  void enqueue(const Kernel& kernel) {
    stream_.launch([](void* argument) { function(*static_cast<const Kernel*>(argument)); },
                   const_cast<Kernel*>(&kernel));
  }

  HostStream& stream_;
};

}  // namespace

std::unique_ptr<CgKernels> make_cg_kernels(Stream& stream) {
  if (stream.kind() == Stream::Kind::kHost)
    return std::make_unique<HostCgKernels>(static_cast<HostStream&>(stream));
  return make_gpu_cg_kernels(stream);
}

}  // namespace lanyard::bench
