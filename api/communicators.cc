#include "api/communicators.h"

#include <numeric>
#include <utility>
#include <vector>

#include "api/context.h"
#include "api/followed_calls.h"

namespace lanyard::api {

namespace {

constexpr uint64_t kWorldId = 1;
constexpr uint64_t kSelfId = 2;

// A hash of two numbers (the finalizer of splitmix64).
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

int delete_name(MPI_Comm, int, void* value, void*) {
  delete static_cast<CommunicatorName*>(value);
  return MPI_SUCCESS;
}

}  // namespace

Communicators::Communicators() {
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_name, &keyval_, nullptr);
  PMPI_Comm_group(MPI_COMM_WORLD, &world_);
  set(MPI_COMM_WORLD, kWorldId);
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  self_.id = mix(kSelfId, static_cast<uint64_t>(rank));
}

Communicators::~Communicators() {
  PMPI_Comm_delete_attr(MPI_COMM_WORLD, keyval_);
  PMPI_Comm_free_keyval(&keyval_);
  PMPI_Group_free(&world_);
}

CommunicatorName* Communicators::find(MPI_Comm communicator) {
  void* value = nullptr;
  int flag = 0;
  if (communicator == MPI_COMM_NULL)
    return nullptr;
  if (communicator == MPI_COMM_SELF)
    return &self_;
  PMPI_Comm_get_attr(communicator, keyval_, &value, &flag);
  if (flag)
    return static_cast<CommunicatorName*>(value);
  const auto unnamed = unnamed_.find(communicator);
  if (unnamed == unnamed_.end())
    return nullptr;
  const uint64_t place = unnamed->second;
  unnamed_.erase(unnamed);
  name_child(place, communicator);
  return find(communicator);
}

CommunicatorName* Communicators::set(MPI_Comm communicator, uint64_t id) {
  auto* name = new CommunicatorName;
  name->id = id;
  PMPI_Comm_set_attr(communicator, keyval_, name);
  return name;
}

uint64_t Communicators::next_child(MPI_Comm parent) {
  CommunicatorName* name = find(parent);
  return name == nullptr || name->id == 0 ? 0 : mix(name->id, ++name->children);
}

void Communicators::add_child(MPI_Comm parent, MPI_Comm child) {
  const uint64_t place = next_child(parent);
  if (place != 0 && child != MPI_COMM_NULL)
    unnamed_[child] = place;
}

void Communicators::add_group(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm child) {
  const CommunicatorName* name = find(parent);
  if (name == nullptr || name->id == 0)
    return;
  int size = 0;
  PMPI_Group_size(group, &size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> translated(ranks.size());
  PMPI_Group_translate_ranks(group, size, ranks.data(), world_, translated.data());
  // The top bit keeps these numbers apart from the small ones of next_child().
  uint64_t id = mix(name->id, uint64_t{1} << 63 | static_cast<uint32_t>(tag));
  for (const int rank : translated)
    id = mix(id, static_cast<uint32_t>(rank));
  const uint64_t place = mix(id, ++groups_[id]);
  if (child != MPI_COMM_NULL)
    unnamed_[child] = place;
}

int Communicators::translate(MPI_Comm communicator, int member) const {
  MPI_Group group;
  int rank = MPI_UNDEFINED;
  PMPI_Comm_group(communicator, &group);
  PMPI_Group_translate_ranks(group, 1, &member, world_, &rank);
  PMPI_Group_free(&group);
  return rank;
}

void Communicators::name_child(uint64_t place, MPI_Comm child) {
  int inter = 0;
  PMPI_Comm_test_inter(child, &inter);
  if (!inter)
    set(child, mix(place, static_cast<uint32_t>(translate(child, 0))));
}

Communicators::Leaving Communicators::leave(MPI_Comm communicator) {
  Leaving leaving;
  if (const auto unnamed = unnamed_.find(communicator); unnamed != unnamed_.end()) {
    leaving.place = unnamed->second;
    unnamed_.erase(unnamed);
  }
  if (const auto ref = refs_.find(communicator); ref != refs_.end())
    leaving.ref = ref->second;
  return leaving;
}

// Another thread may already have a new communicator with the same handle.
void Communicators::left(MPI_Comm communicator, Leaving leaving, bool freed) {
  if (!freed) {
    if (leaving.place)
      unnamed_[communicator] = *leaving.place;
    return;
  }
  if (!leaving.ref)
    return;
  leaving.ref->freed();
  if (const auto ref = refs_.find(communicator); ref != refs_.end() && same(ref->second, *leaving.ref))
    refs_.erase(ref);
}

CommunicatorName& Communicators::of_request(MPI_Comm communicator) {
  CommunicatorName* name = find(communicator);
  if (name == nullptr)
    name = set(communicator, 0);
  if (!name->ref) {
    PMPI_Comm_rank(communicator, &name->rank);
    PMPI_Comm_size(communicator, &name->size);
    name->ref.emplace(communicator);
    refs_.insert_or_assign(communicator, *name->ref);
  }
  return *name;
}

uint64_t Communicators::next_collective(MPI_Comm communicator) {
  CommunicatorName& name = of_request(communicator);
  // Bit 62 keeps these numbers apart from those of children and groups.
  return name.id == 0 ? 0 : mix(name.id, uint64_t{1} << 62 | ++name.collectives);
}

Result<uint32_t> Communicators::world_rank(CommunicatorName& name, int member) {
  if (name.id == kWorldId)
    return static_cast<uint32_t>(member);
  auto known = name.world_ranks.find(member);
  if (known == name.world_ranks.end()) {
    const int rank = translate(*name.ref, member);
    if (rank == MPI_UNDEFINED)
      return Status(Code::kUnsupported,
                    "the peer is not in MPI_COMM_WORLD: Lanyard matches only requests between its processes");
    known = name.world_ranks.emplace(member, static_cast<uint32_t>(rank)).first;
  }
  return known->second;
}

}  // namespace lanyard::api

// ---- The constructors of communicators. Each is collective over its first argument, except
// MPI_Comm_create_group: other ranks of the parent do not call it. So its child is not counted
// among the children of the parent; tag and group identify it.

using namespace lanyard::api;

namespace {

// Counts the new communicator if the constructor succeeded. Returns its code.
int follow(int code, MPI_Comm parent, const MPI_Comm* child) {
  if (code == MPI_SUCCESS)
    lanyard_follow_child(parent, *child);
  return code;
}

int free_by(int (*call)(MPI_Comm*), MPI_Comm* communicator) {
  Context* context = Context::get();
  if (context == nullptr || communicator == nullptr)
    return call(communicator);
  const MPI_Comm handle = *communicator;
  Communicators::Leaving leaving;
  {
    const ContextLock lock(*context);
    context->requests().make_collectives_of(handle);
    leaving = context->communicators().leave(handle);
  }
  const int code = call(communicator);
  if (leaving.ref || (leaving.place && code != MPI_SUCCESS)) {
    const ContextLock lock(*context);
    context->communicators().left(handle, std::move(leaving), code == MPI_SUCCESS);
  }
  return code;
}

}  // namespace

extern "C" {

void lanyard_follow_child(MPI_Comm parent, MPI_Comm child) {
  Context* context = Context::get();
  if (context == nullptr)
    return;
  const ContextLock lock(*context);
  context->communicators().add_child(parent, child);
}

void lanyard_follow_group_child(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm child) {
  Context* context = Context::get();
  if (context == nullptr)
    return;
  const ContextLock lock(*context);
  context->communicators().add_group(parent, group, tag, child);
}

int MPI_Comm_create_group(MPI_Comm parent, MPI_Group group, int tag, MPI_Comm* child) {
  const int code = PMPI_Comm_create_group(parent, group, tag, child);
  if (code == MPI_SUCCESS)
    lanyard_follow_group_child(parent, group, tag, *child);
  return code;
}

// `call` is the list of the argument names.
#define LANYARD_CONSTRUCTOR(name, parameters, call) \
  int name parameters { return follow(P##name call, parent, child); }

LANYARD_CONSTRUCTOR(MPI_Comm_dup, (MPI_Comm parent, MPI_Comm* child), (parent, child))
LANYARD_CONSTRUCTOR(MPI_Comm_dup_with_info, (MPI_Comm parent, MPI_Info info, MPI_Comm* child), (parent, info, child))
LANYARD_CONSTRUCTOR(MPI_Comm_idup, (MPI_Comm parent, MPI_Comm* child, MPI_Request* request), (parent, child, request))
#if MPI_VERSION >= 4 || (defined(OPEN_MPI) && OMPI_MAJOR_VERSION >= 5)
LANYARD_CONSTRUCTOR(MPI_Comm_idup_with_info, (MPI_Comm parent, MPI_Info info, MPI_Comm* child, MPI_Request* request),
                    (parent, info, child, request))
#endif
LANYARD_CONSTRUCTOR(MPI_Comm_create, (MPI_Comm parent, MPI_Group group, MPI_Comm* child), (parent, group, child))
LANYARD_CONSTRUCTOR(MPI_Comm_split, (MPI_Comm parent, int color, int key, MPI_Comm* child), (parent, color, key, child))
LANYARD_CONSTRUCTOR(MPI_Comm_split_type, (MPI_Comm parent, int type, int key, MPI_Info info, MPI_Comm* child),
                    (parent, type, key, info, child))
LANYARD_CONSTRUCTOR(MPI_Cart_create,
                    (MPI_Comm parent, int dimensions, const int sizes[], const int periods[], int reorder,
                     MPI_Comm* child),
                    (parent, dimensions, sizes, periods, reorder, child))
LANYARD_CONSTRUCTOR(MPI_Cart_sub, (MPI_Comm parent, const int remain[], MPI_Comm* child), (parent, remain, child))
LANYARD_CONSTRUCTOR(MPI_Graph_create,
                    (MPI_Comm parent, int nodes, const int index[], const int edges[], int reorder, MPI_Comm* child),
                    (parent, nodes, index, edges, reorder, child))
LANYARD_CONSTRUCTOR(MPI_Dist_graph_create,
                    (MPI_Comm parent, int edges, const int sources[], const int degrees[], const int destinations[],
                     const int weights[], MPI_Info info, int reorder, MPI_Comm* child),
                    (parent, edges, sources, degrees, destinations, weights, info, reorder, child))
LANYARD_CONSTRUCTOR(MPI_Dist_graph_create_adjacent,
                    (MPI_Comm parent, int indegree, const int sources[], const int source_weights[], int outdegree,
                     const int destinations[], const int destination_weights[], MPI_Info info, int reorder,
                     MPI_Comm* child),
                    (parent, indegree, sources, source_weights, outdegree, destinations, destination_weights, info,
                     reorder, child))

int MPI_Comm_free(MPI_Comm* communicator) { return free_by(PMPI_Comm_free, communicator); }

int MPI_Comm_disconnect(MPI_Comm* communicator) { return free_by(PMPI_Comm_disconnect, communicator); }

}  // extern "C"
