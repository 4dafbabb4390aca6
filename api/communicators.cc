#include "api/communicators.h"

#include <numeric>
#include <utility>
#include <vector>

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
  auto* name = new CommunicatorName{
      .id = id, .children = 0, .collectives = 0, .rank = 0, .size = 0, .ref = {}, .world_ranks = {}};
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
