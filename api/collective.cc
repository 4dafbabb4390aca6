#include "api/collective.h"

#include <algorithm>
#include <map>
#include <utility>

#include "gpu/packing.h"

namespace lanyard::api {

namespace {

// Makes the members of one collective.
class Builder {
 public:
  Builder(Context& context, const char* name, const CollectiveScope& scope, RequestRecord& record)
      LANYARD_REQUIRES(context_locked)
      : context_(context), scope_(scope), record_(record) {
    PMPI_Comm_rank(scope.communicator, &rank_);
    PMPI_Comm_size(scope.communicator, &size_);
    record.communicator = *context.communicators().of_request(scope.communicator).ref;
    record.collective = std::make_shared<Collective>();
    record.collective->name =
        std::make_shared<std::string>(std::string(name) + " of " + std::to_string(size_) + " processes");
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  Collective& collective() { return *record_.collective; }

  RequestRecord& send(Edge to, const Block& block) LANYARD_REQUIRES(context_locked) {
    return add(LANYARD_SEND, to, block);
  }
  RequestRecord& receive(Edge from, const Block& block) LANYARD_REQUIRES(context_locked) {
    return add(LANYARD_RECEIVE, from, block);
  }
  // Sends to and receives from each other process, in two sets. The tag is the set.
  void exchange_with_all(const Block& to, const Block& from) LANYARD_REQUIRES(context_locked) {
    for (const int set : {0, 1})
      for (int peer = 0; peer < size_; ++peer) {
        if (peer == rank_)
          continue;
        send({peer, set}, to);
        receive({peer, set}, from);
      }
    collective().two_sets = size_ > 1;
  }
  void refuse(int error_class, const std::string& why) {
    record_.refuse(error_class, *record_.collective->name + ": " + why);
  }
  // A collective without messages gets one empty member, to count its starts and waits.
  void finish() LANYARD_REQUIRES(context_locked) {
    if (scope_.name == 0)
      refuse(MPI_ERR_UNSUPPORTED_OPERATION,
             "Lanyard supports only communicators made from MPI_COMM_WORLD or MPI_COMM_SELF");
    auto& members = record_.collective->members;
    if (members.empty()) {
      send({MPI_PROC_NULL, 0}, {nullptr, 0, MPI_BYTE});
      return;
    }
    // Also for a single member: if it fails, its clear-to-sends can be cancelled (protocol.md, P9).
    for (size_t set = 0; set < collective().sets(); ++set)
      for (const auto& member : collective().members_of(set)) {
        member->exchange = *record_.collective->name + " #" + std::to_string(scope_.name);
        member->exchange_set = collective().two_sets ? std::to_string(set) : "";
        member->transfer.in_turn = collective().two_sets;
      }
  }

 private:
  RequestRecord& add(lanyard_request_kind kind, Edge edge, const Block& block) LANYARD_REQUIRES(context_locked) {
    RequestRecord& member = *record_.collective->members.emplace_back(std::make_unique<RequestRecord>());
    resolve(context_, {kind, edge.peer, edge.tag, block.buffer, block.count, block.datatype, scope_.communicator},
            member);
    member.transfer.part_of = record_.collective->name;
    if (member.unusable_class != MPI_SUCCESS)
      refuse(member.unusable_class, member.unusable);
    else if (edge.peer != MPI_PROC_NULL)
      member.transfer.communicator = scope_.name;
    return member;
  }

  Context& context_;
  const CollectiveScope scope_;
  RequestRecord& record_;
  int rank_ = 0;
  int size_ = 1;
};

constexpr int kTag = 0;
constexpr uint64_t kLine = 64;  // bytes of a cache line
const Block kNothing{nullptr, 0, MPI_BYTE};

Block bytes_at(const void* memory, uint64_t bytes) {
  return {const_cast<void*>(memory), static_cast<MPI_Count>(bytes), MPI_BYTE};
}

}  // namespace

void follow_barrier(Context& context, const CollectiveScope& scope, RequestRecord& record) {
  Builder builder(context, "MPI_Barrier", scope, record);
  builder.exchange_with_all(kNothing, kNothing);
  builder.finish();
}

void follow_broadcast(Context& context, const Block& block, int root, const CollectiveScope& scope,
                      RequestRecord& record) {
  Builder builder(context, "MPI_Bcast", scope, record);
  if (builder.rank() != root)
    builder.receive({root, kTag}, block);
  else
    for (int peer = 0; peer < builder.size(); ++peer)
      if (peer != root)
        builder.send({peer, kTag}, block);
  builder.finish();
}

void follow_allreduce(Context& context, const void* from, const Block& into, MPI_Op operation,
                      const CollectiveScope& scope, RequestRecord& record) {
  Builder builder(context, "MPI_Allreduce", scope, record);
  const bool in_place = from == MPI_IN_PLACE;
  void* const to = into.buffer;
  const void* own = in_place ? to : from;
  const Reduction reduction = reduction_of(operation, into.datatype);
  if (reduction.error_class != MPI_SUCCESS) {
    builder.refuse(reduction.error_class, reduction.error);
    return builder.finish();
  }
  const auto elements = static_cast<size_t>(into.count);
  const uint64_t bytes = elements * reduction.size;
  if (elements > INT32_MAX / reduction.size) {
    builder.refuse(MPI_ERR_COUNT, "a stream combines at most 2^31 - 1 bytes");
    return builder.finish();
  }
  if (builder.size() == 1) {
    if (!in_place) {
      builder.send({0, kTag}, bytes_at(own, bytes));
      builder.receive({0, kTag}, bytes_at(to, bytes));
    }
    return builder.finish();
  }
  // At the match give_arithmetic() sets where the contributions of other ranks go.
  builder.exchange_with_all(bytes_at(own, bytes), bytes_at(to, bytes));
  std::vector<uint64_t> parts(static_cast<size_t>(builder.size()), 0);
  parts[static_cast<size_t>(builder.rank())] = reinterpret_cast<uint64_t>(own);
  builder.collective().arithmetic = {
      {reduction.element, reduction.operation, elements, std::move(parts)}, own, to, bytes};
  builder.finish();
}

void follow_allgather(Context& context, const char* name, const Block& from, const std::vector<Block>& to,
                      const CollectiveScope& scope, RequestRecord& record) {
  Builder builder(context, name, scope, record);
  const auto rank = static_cast<size_t>(builder.rank());
  const bool in_place = from.buffer == MPI_IN_PLACE;
  const Block& own = in_place ? to[rank] : from;
  for (size_t peer = 0; peer < to.size(); ++peer) {
    if (peer == rank && in_place)
      continue;
    builder.send({static_cast<int>(peer), kTag}, own);
    builder.receive({static_cast<int>(peer), kTag}, to[peer]);
  }
  builder.finish();
}

namespace {

// Numbers the edges to each peer: both sides count edges between the same two processes alike.
std::vector<Edge> numbered(const std::vector<int>& peers) {
  std::map<int, int> seen;
  std::vector<Edge> edges;
  for (const int peer : peers)
    edges.push_back({peer, seen[peer]++});
  return edges;
}

// A message towards lower coordinates arrives from higher ones, even if both are the same process.
Neighbourhood neighbours_in_grid(MPI_Comm communicator) {
  Neighbourhood result;
  int dimensions = 0;
  PMPI_Cartdim_get(communicator, &dimensions);
  for (int dimension = 0; dimension < dimensions; ++dimension) {
    int lower = MPI_PROC_NULL, higher = MPI_PROC_NULL;
    PMPI_Cart_shift(communicator, dimension, 1, &lower, &higher);
    const int downwards = 2 * dimension, upwards = 2 * dimension + 1;
    result.destinations.push_back({lower, downwards});
    result.destinations.push_back({higher, upwards});
    result.sources.push_back({lower, upwards});
    result.sources.push_back({higher, downwards});
  }
  return result;
}

}  // namespace

Neighbourhood neighbourhood_of(MPI_Comm communicator) {
  int topology = MPI_UNDEFINED;
  PMPI_Topo_test(communicator, &topology);
  if (topology == MPI_CART)
    return neighbours_in_grid(communicator);
  if (topology == MPI_GRAPH) {
    int rank = 0, count = 0;
    PMPI_Comm_rank(communicator, &rank);
    PMPI_Graph_neighbors_count(communicator, rank, &count);
    std::vector<int> peers(static_cast<size_t>(count));
    PMPI_Graph_neighbors(communicator, rank, count, peers.data());
    return {numbered(peers), numbered(peers)};
  }
  if (topology == MPI_DIST_GRAPH) {
    int sources = 0, destinations = 0, weighted = 0;
    PMPI_Dist_graph_neighbors_count(communicator, &sources, &destinations, &weighted);
    std::vector<int> from(static_cast<size_t>(sources)), to(static_cast<size_t>(destinations));
    std::vector<int> weights(std::max(from.size(), to.size()) + 1);
    std::vector<int> more_weights(weights.size());
    PMPI_Dist_graph_neighbors(communicator, sources, from.data(), weights.data(), destinations, to.data(),
                              more_weights.data());
    return {numbered(from), numbered(to)};
  }
  return {};
}

void follow_neighbor_alltoall(Context& context, const char* name, const Neighbourhood& neighbours,
                              const std::vector<Block>& from, const std::vector<Block>& to,
                              const CollectiveScope& scope, RequestRecord& record) {
  Builder builder(context, name, scope, record);
  for (size_t i = 0; i < neighbours.destinations.size(); ++i)
    if (neighbours.destinations[i].peer != MPI_PROC_NULL)
      builder.send(neighbours.destinations[i], from[i]);
  for (size_t i = 0; i < neighbours.sources.size(); ++i)
    if (neighbours.sources[i].peer != MPI_PROC_NULL)
      builder.receive(neighbours.sources[i], to[i]);
  builder.finish();
}

// ---- Parts

std::vector<RequestRecord*> parts_of(const std::vector<RequestRecord*>& records) {
  std::vector<RequestRecord*> parts;
  parts.reserve(records.size());
  for (RequestRecord* record : records)
    for_each_part(*record, [&](RequestRecord& part) { parts.push_back(&part); });
  return parts;
}

std::string describe(const RequestRecord& record) {
  if (record.collective != nullptr)
    return *record.collective->name;
  return record.core != nullptr ? record.core->describe() : record.transfer.describe();
}

Status match_error(const RequestRecord& record) {
  Status error;
  for_each_part(record, [&](const RequestRecord& part) {
    if (error.ok() && !part.matched())
      error = {part.core->match_error.code(), describe(record) + ": " + part.core->match_error.message()};
  });
  return error;
}

namespace {

// The device of both buffers.
Result<int> place_of(Context& context, const Collective::Arithmetic& arithmetic) LANYARD_REQUIRES(context_locked) {
  if (context.gpus() == nullptr)
    return DeviceMemory::kHost;
  const Result<int> own = context.gpus()->memory().device_of(arithmetic.own, arithmetic.bytes);
  if (!own.ok())
    return own;
  const Result<int> into = context.gpus()->memory().device_of(arithmetic.into, arithmetic.bytes);
  if (into.ok() && own.value() != into.value())
    return Status(Code::kUnsupported,
                  "the send and receive buffers must both be in host memory, or in memory of the same GPU");
  return into;
}

// For the members of one set. The last member does the arithmetic.
Status give_arithmetic(Context& context, const Collective::Arithmetic& arithmetic, Collective::Members members)
    LANYARD_REQUIRES(context_locked) {
  RequestRecord& last = *members.back();
  if (last.transfer.packing != nullptr)
    return {};
  const Result<int> device = place_of(context, arithmetic);
  if (!device.ok())
    return device.status();
  // Each contribution gets its own cache lines. They need no initial value: messages fill them.
  const uint64_t stride = (std::max<uint64_t>(1, arithmetic.bytes) + kLine - 1) / kLine * kLine;
  Result<std::shared_ptr<gpu::Packing>> packing =
      device.value() == DeviceMemory::kHost
          ? gpu::make_host_combining(arithmetic.combination, stride, arithmetic.into)
          : context.gpus()->make_combining(arithmetic.combination, stride, arithmetic.into, device.value());
  if (!packing.ok())
    return packing.status();
  std::byte* place = packing.value()->packed.get();
  for (const auto& member : members)
    if (member->transfer.direction == core::Direction::kReceive) {
      member->transfer.buffer = place;
      place += stride;
    }
  // It runs after the waits for all messages, like unpacking: all contributions have then arrived,
  // and the card no longer reads the own one.
  last.transfer.packing = std::move(packing.value());
  return {};
}

}  // namespace

Status give_arithmetic(Context& context, RequestRecord& record) {
  if (record.collective == nullptr || !record.collective->arithmetic)
    return {};
  for (size_t set = 0; set < record.collective->sets(); ++set)
    LANYARD_RETURN_IF_ERROR(
        give_arithmetic(context, *record.collective->arithmetic, record.collective->members_of(set)));
  return {};
}

bool RequestRecord::is_each_member(bool (RequestRecord::*is)() const) const {
  return std::all_of(collective->members.begin(), collective->members.end(),
                     [is](const auto& member) { return (member.get()->*is)(); });
}

bool RequestRecord::is_any_member(bool (RequestRecord::*is)() const) const {
  return std::any_of(collective->members.begin(), collective->members.end(),
                     [is](const auto& member) { return (member.get()->*is)(); });
}

}  // namespace lanyard::api
