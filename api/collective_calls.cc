// The persistent collectives that can be matched: the MPI makes the request, and Lanyard
// records the call. They have Lanyard_ names, and MPI 4's names if the MPI has them, also
// with large counts.

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/collective.h"
#include "api/context.h"
#include "api/datatype.h"
#include "api/errors.h"
#include <lanyard/lanyard.h>

#if MPI_VERSION < 4 && defined(OPEN_MPI)
#include <mpi-ext.h>
#endif

namespace lanyard::api {

namespace {

// The result of the MPI's call: its code, communicator and request.
struct Made {
  int code;
  MPI_Comm communicator;
  const MPI_Request* request;
};

// The data sent to, or received from, one process.
struct Block {
  void* buffer = nullptr;
  MPI_Count count = 0;
  MPI_Datatype datatype = MPI_DATATYPE_NULL;
};

// Makes the members of one collective.
class Builder {
 public:
  // `id` names the messages of this collective (Communicators::next_collective).
  Builder(Context& context, const char* name, MPI_Comm communicator, uint64_t id, RequestRecord& record)
      LANYARD_REQUIRES(context_locked)
      : context_(context), communicator_(communicator), id_(id), record_(record) {
    PMPI_Comm_rank(communicator, &rank_);
    PMPI_Comm_size(communicator, &size_);
    record.communicator = *context.communicators().of_request(communicator).ref;
    record.collective = std::make_shared<Collective>();
    record.collective->name =
        std::make_shared<std::string>(std::string(name) + " of " + std::to_string(size_) + " processes");
  }

  MPI_Comm communicator() const { return communicator_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  Collective& collective() { return *record_.collective; }

  void send(Edge to, const Block& block) LANYARD_REQUIRES(context_locked) { add(LANYARD_SEND, to, block); }
  void receive(Edge from, const Block& block) LANYARD_REQUIRES(context_locked) { add(LANYARD_RECEIVE, from, block); }
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
    if (id_ == 0)
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
        member->exchange = *record_.collective->name + " #" + std::to_string(id_);
        member->exchange_set = collective().two_sets ? std::to_string(set) : "";
        member->transfer.in_turn = collective().two_sets;
      }
  }

 private:
  void add(lanyard_request_kind kind, Edge edge, const Block& block) LANYARD_REQUIRES(context_locked) {
    RequestRecord& member = *record_.collective->members.emplace_back(std::make_unique<RequestRecord>());
    resolve(context_, {kind, edge.peer, edge.tag, block.buffer, block.count, block.datatype, communicator_}, member);
    member.transfer.part_of = record_.collective->name;
    if (member.unusable_class != MPI_SUCCESS)
      refuse(member.unusable_class, member.unusable);
    else if (edge.peer != MPI_PROC_NULL)
      member.transfer.communicator = id_;
  }

  Context& context_;
  const MPI_Comm communicator_;
  const uint64_t id_;
  RequestRecord& record_;
  int rank_ = 0;
  int size_ = 1;
};

bool all_named(const std::vector<MPI_Datatype>& datatypes) {
  return std::all_of(datatypes.begin(), datatypes.end(), is_named);
}

// Counts the collective, and fills its record by build(builder). That is done only when the record
// is needed, but at once if a datatype is not predefined: the program may free it. If the
// collective cannot be matched, the record says why.
template <typename Build>
int remember(const Made& made, const char* name, const std::vector<MPI_Datatype>& datatypes, Build build) {
  Context* context = Context::get();
  if (made.code != MPI_SUCCESS || context == nullptr)
    return made.code;
  int inter = 0;
  PMPI_Comm_test_inter(made.communicator, &inter);
  const ContextLock lock(*context);
  RequestRecord& record = context->requests().insert(*made.request);
  if (inter != 0) {
    record.communicator = *context->communicators().of_request(made.communicator).ref;
    record.refuse(MPI_ERR_UNSUPPORTED_OPERATION, "collectives of an inter-communicator cannot be matched");
    return made.code;
  }
  const uint64_t id = context->communicators().next_collective(made.communicator);
  const auto fill = [=, communicator = made.communicator](RequestRecord& empty) LANYARD_REQUIRES(context_locked) {
    Builder builder(*context, name, communicator, id, empty);
    build(builder);
    builder.finish();
  };
  if (all_named(datatypes)) {
    record.collective_over = made.communicator;
    record.make_collective = fill;
  } else {
    fill(record);
  }
  return made.code;
}

// 0 for an inter-communicator: its arrays have the size of the remote group, and are not read.
size_t size_of(MPI_Comm communicator) {
  int size = 0, inter = 0;
  PMPI_Comm_size(communicator, &size);
  PMPI_Comm_test_inter(communicator, &inter);
  return inter != 0 ? 0 : static_cast<size_t>(size);
}

MPI_Aint extent_of(MPI_Datatype datatype) {
  MPI_Aint lower = 0, extent = 0;
  PMPI_Type_get_extent(datatype, &lower, &extent);
  return extent;
}

// The block at an offset of `bytes` in the buffer. The buffer may be MPI_BOTTOM, so it
// adds integers.
Block block_at(const void* buffer, MPI_Aint bytes, MPI_Count count, MPI_Datatype datatype) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(buffer) + static_cast<uintptr_t>(bytes);
  return {reinterpret_cast<void*>(begin), count, datatype};
}

// Contiguous blocks of `count` elements.
std::vector<Block> equal_blocks(const void* buffer, size_t blocks, MPI_Count count, MPI_Datatype datatype) {
  const MPI_Aint bytes = static_cast<MPI_Aint>(count) * extent_of(datatype);
  std::vector<Block> result;
  for (size_t i = 0; i < blocks; ++i)
    result.push_back(block_at(buffer, static_cast<MPI_Aint>(i) * bytes, count, datatype));
  return result;
}

// `Types`: one datatype, of whose extents the displacements are; or an array of one for each block,
// with displacements in bytes.
template <typename Count, typename Displacement, typename Types>
std::vector<Block> blocks(const void* buffer, size_t blocks, const Count counts[], const Displacement displacements[],
                          Types types) {
  std::vector<Block> result;
  for (size_t i = 0; i < blocks; ++i)
    if constexpr (std::is_same_v<Types, MPI_Datatype>)
      result.push_back(block_at(buffer, displacements[i] * extent_of(types), counts[i], types));
    else
      result.push_back(block_at(buffer, displacements[i], counts[i], types[i]));
  return result;
}

// Rejects communicators without a topology, for which MPICH 4.0 reads uninitialised neighbour
// counts. The MPI reports all other errors.
int check_topology(const char* call, MPI_Comm communicator) {
  if (communicator == MPI_COMM_NULL)
    return MPI_SUCCESS;
  int topology = MPI_UNDEFINED;
  const int code = PMPI_Topo_test(communicator, &topology);
  if (code != MPI_SUCCESS || topology != MPI_UNDEFINED)
    return code;
  return raise(call, communicator, MPI_ERR_TOPOLOGY,
               "the communicator has no topology: use one of MPI_Cart_create or its like");
}

constexpr int kTag = 0;

Block bytes_at(const void* memory, uint64_t bytes) {
  return {const_cast<void*>(memory), static_cast<MPI_Count>(bytes), MPI_BYTE};
}

void build_allreduce(Builder& builder, const void* from, const Block& into, MPI_Op operation)
    LANYARD_REQUIRES(context_locked) {
  const bool in_place = from == MPI_IN_PLACE;
  void* const to = into.buffer;
  const void* own = in_place ? to : from;
  const Reduction reduction = reduction_of(operation, into.datatype);
  if (reduction.error_class != MPI_SUCCESS)
    return builder.refuse(reduction.error_class, reduction.error);
  const auto elements = static_cast<size_t>(into.count);
  const uint64_t bytes = elements * reduction.size;
  if (elements > INT32_MAX / reduction.size)
    return builder.refuse(MPI_ERR_COUNT, "a stream combines at most 2^31 - 1 bytes");
  if (builder.size() == 1) {
    if (!in_place) {
      builder.send({0, kTag}, bytes_at(own, bytes));
      builder.receive({0, kTag}, bytes_at(to, bytes));
    }
    return;
  }
  // At the match give_arithmetic() sets where the contributions of other ranks go.
  builder.exchange_with_all(bytes_at(own, bytes), bytes_at(to, bytes));
  std::vector<uint64_t> parts(static_cast<size_t>(builder.size()), 0);
  parts[static_cast<size_t>(builder.rank())] = reinterpret_cast<uint64_t>(own);
  builder.collective().arithmetic = {
      {reduction.element, reduction.operation, elements, std::move(parts)}, own, to, bytes};
}

// `to` has a block for each rank. If the buffer of `from` is MPI_IN_PLACE, the rest of it is
// ignored.
void build_allgather(Builder& builder, const Block& from, const std::vector<Block>& to)
    LANYARD_REQUIRES(context_locked) {
  const auto rank = static_cast<size_t>(builder.rank());
  const bool in_place = from.buffer == MPI_IN_PLACE;
  const Block& own = in_place ? to[rank] : from;
  for (size_t peer = 0; peer < to.size(); ++peer) {
    if (peer == rank && in_place)
      continue;
    builder.send({static_cast<int>(peer), kTag}, own);
    builder.receive({static_cast<int>(peer), kTag}, to[peer]);
  }
}

// `from` has a block for each destination, `to` for each source.
void build_neighbor_alltoall(Builder& builder, const Neighbourhood& near, const std::vector<Block>& from,
                             const std::vector<Block>& to) LANYARD_REQUIRES(context_locked) {
  for (size_t i = 0; i < near.destinations.size(); ++i)
    if (near.destinations[i].peer != MPI_PROC_NULL)
      builder.send(near.destinations[i], from[i]);
  for (size_t i = 0; i < near.sources.size(); ++i)
    if (near.sources[i].peer != MPI_PROC_NULL)
      builder.receive(near.sources[i], to[i]);
}

// Each of these gets the result of the MPI's call, and its arguments.

int barrier(const Made& made) {
  return remember(made, "MPI_Barrier", {}, [](Builder& builder) LANYARD_REQUIRES(context_locked) {
    const Block nothing{nullptr, 0, MPI_BYTE};
    builder.exchange_with_all(nothing, nothing);
  });
}

int broadcast(const Made& made, const Block& block, int root) {
  return remember(made, "MPI_Bcast", {block.datatype}, [=](Builder& builder) LANYARD_REQUIRES(context_locked) {
    if (builder.rank() != root) {
      builder.receive({root, kTag}, block);
      return;
    }
    for (int peer = 0; peer < builder.size(); ++peer)
      if (peer != root)
        builder.send({peer, kTag}, block);
  });
}

// The program may free its own operation: the record rejects it anyway, even if the
// handle is stale.
int allreduce(const Made& made, const void* from, const Block& to, MPI_Op operation) {
  return remember(made, "MPI_Allreduce", {to.datatype}, [=](Builder& builder) LANYARD_REQUIRES(context_locked) {
    build_allreduce(builder, from, to, operation);
  });
}

int allgather(const Made& made, const Block& from, const Block& to) {
  return remember(made, "MPI_Allgather", {from.buffer == MPI_IN_PLACE ? to.datatype : from.datatype, to.datatype},
                  [=](Builder& builder) LANYARD_REQUIRES(context_locked) {
                    const auto size = static_cast<size_t>(builder.size());
                    build_allgather(builder, from, equal_blocks(to.buffer, size, to.count, to.datatype));
                  });
}

template <typename Count, typename Displacement>
int allgatherv(const Made& made, const Block& from, const void* to, const Count to_counts[],
               const Displacement displacements[], MPI_Datatype to_type) {
  if (made.code != MPI_SUCCESS)
    return made.code;
  const std::vector<Block> all = blocks(to, size_of(made.communicator), to_counts, displacements, to_type);
  return remember(made, "MPI_Allgatherv", {from.buffer == MPI_IN_PLACE ? to_type : from.datatype, to_type},
                  [=](Builder& builder) LANYARD_REQUIRES(context_locked) { build_allgather(builder, from, all); });
}

int neighbor_alltoall(const Made& made, const Block& from, const Block& to) {
  return remember(made, "MPI_Neighbor_alltoall", {from.datatype, to.datatype},
                  [=](Builder& builder) LANYARD_REQUIRES(context_locked) {
                    const Neighbourhood near = neighbourhood_of(builder.communicator());
                    build_neighbor_alltoall(
                        builder, near, equal_blocks(from.buffer, near.destinations.size(), from.count, from.datatype),
                        equal_blocks(to.buffer, near.sources.size(), to.count, to.datatype));
                  });
}

// `Types`: as for blocks().
template <typename Count, typename Displacement, typename Types>
int neighbor_alltoallv(const Made& made, const char* name, const void* from, const Count from_counts[],
                       const Displacement from_displacements[], Types from_types, const void* to,
                       const Count to_counts[], const Displacement to_displacements[], Types to_types) {
  if (made.code != MPI_SUCCESS)
    return made.code;
  const Neighbourhood near = neighbourhood_of(made.communicator);
  const std::vector<Block> out = blocks(from, near.destinations.size(), from_counts, from_displacements, from_types);
  const std::vector<Block> in = blocks(to, near.sources.size(), to_counts, to_displacements, to_types);
  std::vector<MPI_Datatype> datatypes;
  for (const std::vector<Block>* side : {&out, &in})
    for (const Block& block : *side)
      datatypes.push_back(block.datatype);
  return remember(made, name, datatypes, [=](Builder& builder) LANYARD_REQUIRES(context_locked) {
    build_neighbor_alltoall(builder, near, out, in);
  });
}

#if MPI_VERSION < 4 && !defined(OPEN_MPI)
// This MPI has no persistent collectives, so the calls fail.
#define LANYARD_MISSING(name)                                                          \
  template <typename... Arguments>                                                     \
  int missing_##name(const Arguments&...) {                                            \
    return raise("MPIX_" #name, MPI_COMM_WORLD, MPI_ERR_UNSUPPORTED_OPERATION,         \
                 "this MPI has no persistent collectives: use Open MPI, or an MPI 4"); \
  }
LANYARD_MISSING(Barrier_init)
LANYARD_MISSING(Bcast_init)
LANYARD_MISSING(Allreduce_init)
LANYARD_MISSING(Allgather_init)
LANYARD_MISSING(Allgatherv_init)
LANYARD_MISSING(Neighbor_alltoall_init)
LANYARD_MISSING(Neighbor_alltoallv_init)
LANYARD_MISSING(Neighbor_alltoallw_init)
#endif

}  // namespace

}  // namespace lanyard::api

using namespace lanyard::api;

extern "C" {

// `of_mpi` is the prefix of the MPI's own names; `suffix` is that of names with large counts. All
// calls have the last parameters in common.
#define LANYARD_LAST MPI_Comm communicator, MPI_Info info, MPI_Request *request
#define LANYARD_MADE(call, ...) \
  { call(__VA_ARGS__, communicator, info, request), communicator, request }
#define LANYARD_CHECK_TOPOLOGY(name)                                                    \
  if (const int code = check_topology("MPI_" #name, communicator); code != MPI_SUCCESS) \
  return code
#define LANYARD_COLLECTIVES(prefix, of_mpi, suffix, Count, Displacement)                                               \
  int prefix##_Bcast_init##suffix(void* buffer, Count count, MPI_Datatype datatype, int root, LANYARD_LAST) {          \
    return broadcast(LANYARD_MADE(of_mpi##_Bcast_init##suffix, buffer, count, datatype, root),                         \
                     {buffer, count, datatype}, root);                                                                 \
  }                                                                                                                    \
  int prefix##_Allreduce_init##suffix(const void* from, void* to, Count count, MPI_Datatype datatype,                  \
                                      MPI_Op operation, LANYARD_LAST) {                                                \
    return allreduce(LANYARD_MADE(of_mpi##_Allreduce_init##suffix, from, to, count, datatype, operation), from,        \
                     {to, count, datatype}, operation);                                                                \
  }                                                                                                                    \
  int prefix##_Allgather_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,            \
                                      Count to_count, MPI_Datatype to_type, LANYARD_LAST) {                            \
    return allgather(                                                                                                  \
        LANYARD_MADE(of_mpi##_Allgather_init##suffix, from, from_count, from_type, to, to_count, to_type),             \
        {const_cast<void*>(from), from_count, from_type}, {to, to_count, to_type});                                    \
  }                                                                                                                    \
  int prefix##_Allgatherv_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,           \
                                       const Count to_counts[], const Displacement displacements[],                    \
                                       MPI_Datatype to_type, LANYARD_LAST) {                                           \
    return allgatherv(LANYARD_MADE(of_mpi##_Allgatherv_init##suffix, from, from_count, from_type, to, to_counts,       \
                                   displacements, to_type),                                                            \
                      {const_cast<void*>(from), from_count, from_type}, to, to_counts, displacements, to_type);        \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoall_init##suffix(const void* from, Count from_count, MPI_Datatype from_type, void* to,    \
                                              Count to_count, MPI_Datatype to_type, LANYARD_LAST) {                    \
    LANYARD_CHECK_TOPOLOGY(Neighbor_alltoall_init##suffix);                                                            \
    return neighbor_alltoall(                                                                                          \
        LANYARD_MADE(of_mpi##_Neighbor_alltoall_init##suffix, from, from_count, from_type, to, to_count, to_type),     \
        {const_cast<void*>(from), from_count, from_type}, {to, to_count, to_type});                                    \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoallv_init##suffix(                                                                        \
      const void* from, const Count from_counts[], const Displacement from_displacements[], MPI_Datatype from_type,    \
      void* to, const Count to_counts[], const Displacement to_displacements[], MPI_Datatype to_type, LANYARD_LAST) {  \
    LANYARD_CHECK_TOPOLOGY(Neighbor_alltoallv_init##suffix);                                                           \
    return neighbor_alltoallv(LANYARD_MADE(of_mpi##_Neighbor_alltoallv_init##suffix, from, from_counts,                \
                                           from_displacements, from_type, to, to_counts, to_displacements, to_type),   \
                              "MPI_Neighbor_alltoallv", from, from_counts, from_displacements, from_type, to,          \
                              to_counts, to_displacements, to_type);                                                   \
  }                                                                                                                    \
  int prefix##_Neighbor_alltoallw_init##suffix(const void* from, const Count from_counts[],                            \
                                               const MPI_Aint from_displacements[], const MPI_Datatype from_types[],   \
                                               void* to, const Count to_counts[], const MPI_Aint to_displacements[],   \
                                               const MPI_Datatype to_types[], LANYARD_LAST) {                          \
    LANYARD_CHECK_TOPOLOGY(Neighbor_alltoallw_init##suffix);                                                           \
    return neighbor_alltoallv(LANYARD_MADE(of_mpi##_Neighbor_alltoallw_init##suffix, from, from_counts,                \
                                           from_displacements, from_types, to, to_counts, to_displacements, to_types), \
                              "MPI_Neighbor_alltoallw", from, from_counts, from_displacements, from_types, to,         \
                              to_counts, to_displacements, to_types);                                                  \
  }

#define LANYARD_BARRIER(prefix, of_mpi)                                                          \
  int prefix##_Barrier_init(LANYARD_LAST) {                                                      \
    return barrier({of_mpi##_Barrier_init(communicator, info, request), communicator, request}); \
  }

#if MPI_VERSION >= 4
LANYARD_BARRIER(Lanyard, PMPI)
LANYARD_BARRIER(MPI, PMPI)
LANYARD_COLLECTIVES(Lanyard, PMPI, , int, int)
LANYARD_COLLECTIVES(MPI, PMPI, , int, int)
LANYARD_COLLECTIVES(MPI, PMPI, _c, MPI_Count, MPI_Aint)
#elif defined(OPEN_MPI)
LANYARD_BARRIER(Lanyard, PMPIX)
LANYARD_COLLECTIVES(Lanyard, PMPIX, , int, int)
#else
LANYARD_BARRIER(Lanyard, missing)
LANYARD_COLLECTIVES(Lanyard, missing, , int, int)
#endif

}  // extern "C"
