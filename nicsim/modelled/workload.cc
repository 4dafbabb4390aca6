#include "nicsim/modelled/workload.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

namespace lanyard::modelled {

namespace {

constexpr uint64_t kCellBytes = 8;

using Offset = std::array<int, 3>;

// Offsets of the neighbours. The opposite of the k-th is the k-th from the end.
std::vector<Offset> directions(const Grid& grid) {
  std::vector<Offset> found;
  const int depth = grid.dimensions == 3 ? 1 : 0;
  for (int z = -depth; z <= depth; ++z)
    for (int y = -1; y <= 1; ++y)
      for (int x = -1; x <= 1; ++x) {
        const int away = (x != 0) + (y != 0) + (z != 0);
        if (away == 1 || (away > 1 && grid.corners))
          found.push_back({x, y, z});
      }
  return found;
}

uint32_t neighbour(const Grid& grid, uint32_t rank, const Offset& offset) {
  const std::array<uint32_t, 3> place = grid.place(rank);
  uint32_t number = 0;
  for (int d = 2; d >= 0; --d) {
    const uint32_t along = (place[d] + grid.ranks[d] + static_cast<uint32_t>(offset[d])) % grid.ranks[d];
    number = number * grid.ranks[d] + along;
  }
  return number;
}

// The bytes of a message to a neighbour. Both sides get the same result: their extents
// agree where the offset is 0.
uint64_t bytes(const std::array<uint64_t, 3>& extent, const Offset& offset) {
  uint64_t count = kCellBytes;
  for (int d = 0; d < 3; ++d)
    count *= offset[d] == 0 ? extent[d] : 1;
  return count;
}

}  // namespace

std::array<uint32_t, 3> Grid::place(uint32_t rank) const {
  return {rank % ranks[0], rank / ranks[0] % ranks[1], rank / (ranks[0] * ranks[1])};
}

std::array<uint64_t, 3> Grid::extent(uint32_t rank) const {
  const std::array<uint32_t, 3> at = place(rank);
  std::array<uint64_t, 3> extent = {};
  for (int d = 0; d < 3; ++d)
    extent[d] = cells[d] / ranks[d] + (at[d] < cells[d] % ranks[d] ? 1 : 0);
  return extent;
}

uint64_t Grid::cells_of(uint32_t rank) const {
  const std::array<uint64_t, 3> along = extent(rank);
  return along[0] * along[1] * along[2];
}

Halo add_halo(StepBuilder& builder, const Grid& grid, uint32_t rank, bool ready) {
  Halo halo;
  const std::vector<Offset> offsets = directions(grid);
  const uint32_t count = static_cast<uint32_t>(offsets.size());
  const std::array<uint64_t, 3> extent = grid.extent(rank);
  for (uint32_t k = 0; k < count; ++k) {
    halo.bytes.push_back(bytes(extent, offsets[k]));
    const Link link{neighbour(grid, rank, offsets[k]), count + (count - 1 - k)};
    halo.requests.push_back(builder.send(halo.bytes[k], ready, link));
  }
  for (uint32_t k = 0; k < count; ++k) {
    const Link link{neighbour(grid, rank, offsets[k]), count - 1 - k};
    halo.requests.push_back(builder.receive(halo.bytes[k], ready, link));
  }
  return halo;
}

namespace {

constexpr std::pair<Kind, const char*> kNames[] = {{Kind::kPingPong, "pingpong"},
                                                   {Kind::kHalo2d, "halo2d"},
                                                   {Kind::kHalo3d, "halo3d"},
                                                   {Kind::kAllreduce, "allreduce"},
                                                   {Kind::kCg, "cg"}};

// On one rank; a step then takes some 2 s. Products of this number with a cost fit into 63 bits.
constexpr double kMostCells = 1e11;

Status invalid(const std::string& what) { return {Code::kInvalidArgument, what}; }

// Builds the step of one rank at a time.
class Maker {
 public:
  Maker(const Workload& workload, const Machine& machine)
      : workload_(workload),
        fine_(workload.memory == Memory::kFine),
        copy_(machine.time(fine_ ? "kernel.copy_fine" : "kernel.copy")),
        halo_(machine.time(fine_ ? "kernel.halo_fine" : "kernel.halo")),
        edge_byte_(machine.each(fine_ ? "kernel.edge_byte_fine" : "kernel.edge_byte")),
        cell_(machine.each("kernel.cell")),
        byte_(machine.each("kernel.byte")) {
    grid_.dimensions = workload.kind == Kind::kHalo3d ? 3 : 2;
    grid_.corners = workload.kind != Kind::kCg;
    for (int d = 0; d < grid_.dimensions; ++d)
      grid_.cells[d] = workload.cells[d];
    grid_.ranks = split(std::max(1u, workload.ranks), grid_.dimensions);
  }

  Status check() const {
    if (workload_.ranks == 0 || workload_.ranks_per_node == 0)
      return invalid("a job needs at least one rank, and a node at least one rank");
    const bool on_grid = workload_.kind != Kind::kPingPong && workload_.kind != Kind::kAllreduce;
    if (workload_.kind == Kind::kPingPong && workload_.ranks != 2)
      return invalid("pingpong needs exactly 2 ranks");
    if (workload_.kind == Kind::kAllreduce && workload_.ranks < 2)
      return invalid("allreduce needs at least 2 ranks");
    const bool doubles = workload_.kind == Kind::kAllreduce || workload_.kind == Kind::kCg;
    if (doubles && !std::has_single_bit(workload_.ranks))
      return {Code::kUnsupported, kind_name(workload_.kind) + " is modelled for powers of two of ranks only"};
    if (doubles && workload_.ready)
      return invalid(kind_name(workload_.kind) + " cannot use ready sends: no receive is known to be started");
    for (int d = 0; on_grid && d < grid_.dimensions; ++d)
      if (workload_.cells[d] < grid_.ranks[d])
        return invalid("fewer cells than ranks along a dimension");
    // Use double: the number of cells may overflow.
    const std::array<uint64_t, 3> extent = grid_.extent(0);
    double cells = 1;
    for (const uint64_t along : extent)
      cells *= static_cast<double>(along);
    if (on_grid && cells > kMostCells)
      return invalid("more than 100 billion cells on a rank");
    return {};
  }

  StepBuilder step(uint32_t rank) const {
    StepBuilder builder(workload_.strategy, workload_.exchange);
    switch (workload_.kind) {
      case Kind::kPingPong: ping_pong(builder, rank); break;
      case Kind::kHalo2d:
      case Kind::kHalo3d: life(builder, rank); break;
      case Kind::kAllreduce: allreduce(builder, rank, workload_.bytes); break;
      case Kind::kCg: conjugate_gradients(builder, rank); break;
    }
    return builder;
  }

 private:
  void ping_pong(StepBuilder& builder, uint32_t rank) const {
    const uint32_t peer = 1 - rank;
    const uint32_t send = builder.send(workload_.bytes, workload_.ready, {peer, 1});
    const uint32_t receive = builder.receive(workload_.bytes, workload_.ready, {peer, 0});
    if (rank == 0) {
      builder.kernel(copy_);
      builder.start({send, receive});
      builder.wait({receive, send});
      builder.kernel(copy_);
    } else {
      builder.start({receive});
      builder.wait({receive});
      builder.kernel(copy_);
      builder.kernel(copy_);
      builder.start({send});
      builder.wait({send});
    }
  }

  // As in CabanaGhost: pack all edges, start everything, wait for everything, unpack all edges.
  void life(StepBuilder& builder, uint32_t rank) const {
    const Halo halo = add_halo(builder, grid_, rank, workload_.ready);
    copy_edges(builder, halo_, halo.bytes);
    builder.start(halo.requests);
    builder.wait(halo.requests);
    copy_edges(builder, halo_, halo.bytes);
    builder.kernel(halo_ + times(cell_, grid_.cells_of(rank)));
  }

  // One kernel for each edge, or one for all.
  void copy_edges(StepBuilder& builder, Picoseconds kernel, const std::vector<uint64_t>& edges) const {
    if (workload_.merged)
      return builder.kernel(kernel + times(edge_byte_, std::accumulate(edges.begin(), edges.end(), uint64_t{0})));
    for (const uint64_t bytes : edges)
      builder.kernel(kernel + times(edge_byte_, bytes));
  }

  void allreduce(StepBuilder& builder, uint32_t rank, uint64_t bytes) const {
    for (uint32_t distance = 1; distance < workload_.ranks; distance *= 2) {
      const uint32_t peer = rank ^ distance;
      const uint32_t next = static_cast<uint32_t>(builder.links().size());
      const uint32_t send = builder.send(bytes, false, {peer, next + 1});
      const uint32_t receive = builder.receive(bytes, false, {peer, next});
      builder.start({send, receive});
      builder.wait({send, receive});
      builder.kernel(copy_ + times(byte_, 3 * bytes));
    }
  }

  // Bytes a row: 20 (nnz + 1) for the product, 16 for a dot product, 24 for an update.
  void conjugate_gradients(StepBuilder& builder, uint32_t rank) const {
    constexpr uint64_t kProduct = 20 * (5 + 1), kDot = 16, kUpdate = 24, kNumber = 8;
    const uint64_t rows = grid_.cells_of(rank);
    const auto over_rows = [&](uint64_t bytes) { builder.kernel(copy_ + times(byte_, bytes * rows)); };
    const Halo halo = add_halo(builder, grid_, rank, false);
    copy_edges(builder, copy_, halo.bytes);
    builder.start(halo.requests);
    builder.wait(halo.requests);
    copy_edges(builder, copy_, halo.bytes);
    over_rows(kProduct);
    over_rows(kDot);
    allreduce(builder, rank, kNumber);
    over_rows(kUpdate);
    over_rows(kUpdate);
    over_rows(kDot);
    allreduce(builder, rank, kNumber);
    over_rows(kUpdate);
  }

  const Workload& workload_;
  const bool fine_;
  const Picoseconds copy_, halo_;
  const Femtoseconds edge_byte_, cell_, byte_;
  Grid grid_;
};

}  // namespace

Result<Kind> parse_kind(const std::string& name) {
  std::string known;
  for (const auto& [kind, text] : kNames) {
    if (name == text)
      return kind;
    known += (known.empty() ? "" : ", ") + std::string(text);
  }
  return invalid("there is no workload '" + name + "' (" + known + ")");
}

std::string kind_name(Kind kind) {
  for (const auto& [each, text] : kNames)
    if (each == kind)
      return text;
  return {};
}

std::array<uint32_t, 3> split(uint32_t ranks, int dimensions) {
  std::array<uint32_t, 3> parts = {1, 1, 1};
  uint32_t left = ranks;
  for (int d = dimensions - 1; d > 0; --d) {
    // The largest divisor that is not larger than an even share.
    uint32_t part = 1;
    for (uint32_t candidate = 1; candidate <= left; ++candidate) {
      uint64_t power = 1;
      for (int i = 0; i <= d; ++i)
        power *= candidate;
      if (power > left)
        break;
      if (left % candidate == 0)
        part = candidate;
    }
    parts[d] = part;
    left /= part;
  }
  parts[0] = left;
  return parts;
}

namespace {

// A typical job has the ranks of one NIC, each like rank 0 and its own neighbour.
Result<Job> make(const Workload& workload, const Machine& machine, bool typical) {
  if (workload.ranks_per_node > machine["node.ranks"])
    return invalid("a node of " + machine.name() + " has room for " +
                   std::to_string(static_cast<uint32_t>(machine["node.ranks"])) + " ranks");
  const Maker maker(workload, machine);
  LANYARD_RETURN_IF_ERROR(maker.check());
  Placement placement = machine.placement(workload.ranks_per_node);
  const uint32_t ranks = typical ? placement.ranks_per_nic() : workload.ranks;
  if (typical)
    placement = {.ranks_per_node = ranks, .nics_per_node = 1, .nodes_per_group = 1};
  JobBuilder builder(machine.costs(workload.memory, workload.ranks_per_node), placement);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    StepBuilder step = maker.step(typical ? 0 : rank);
    if (typical)
      step.set_peer_rank(rank);
    LANYARD_RETURN_IF_ERROR(builder.add(step));
  }
  return builder.take();
}

}  // namespace

Result<Job> make_job(const Workload& workload, const Machine& machine) { return make(workload, machine, false); }

Result<Job> make_typical_job(const Workload& workload, const Machine& machine) {
  return make(workload, machine, workload.kind != Kind::kPingPong);
}

}  // namespace lanyard::modelled
