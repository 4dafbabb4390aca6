#include "api/communicators.h"

#include <numeric>

namespace lanyard::api {

namespace {

constexpr uint64_t kWorldId = 1;
constexpr uint64_t kSelfId = 2;

// Two numbers to one, well mixed (the finalizer of splitmix64).
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9e3779b97f4a7c15u + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// Members as ranks of MPI_COMM_WORLD; those outside it become UINT32_MAX.
std::vector<uint32_t> world_ranks_of_group(MPI_Group group) {
  MPI_Group world;
  int size = 0;
  PMPI_Comm_group(MPI_COMM_WORLD, &world);
  PMPI_Group_size(group, &size);
  std::vector<int> ranks(static_cast<size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> translated(ranks.size());
  PMPI_Group_translate_ranks(group, size, ranks.data(), world, translated.data());
  PMPI_Group_free(&world);
  std::vector<uint32_t> result;
  for (const int rank : translated)
    result.push_back(rank == MPI_UNDEFINED ? UINT32_MAX : static_cast<uint32_t>(rank));
  return result;
}

std::vector<uint32_t> world_ranks_of(MPI_Comm communicator) {
  MPI_Group group;
  PMPI_Comm_group(communicator, &group);
  std::vector<uint32_t> ranks = world_ranks_of_group(group);
  PMPI_Group_free(&group);
  return ranks;
}

int delete_name(MPI_Comm, int, void* value, void*) {
  delete static_cast<CommunicatorName*>(value);
  return MPI_SUCCESS;
}

}  // namespace

Communicators::Communicators() {
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_name, &keyval_, nullptr);
  set(MPI_COMM_WORLD, kWorldId);
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  set(MPI_COMM_SELF, mix(kSelfId, static_cast<uint64_t>(rank)));
}

Communicators::~Communicators() {
  PMPI_Comm_delete_attr(MPI_COMM_SELF, keyval_);
  PMPI_Comm_delete_attr(MPI_COMM_WORLD, keyval_);
  PMPI_Comm_free_keyval(&keyval_);
}

CommunicatorName* Communicators::find(MPI_Comm communicator) {
  void* value = nullptr;
  int flag = 0;
  if (communicator == MPI_COMM_NULL)
    return nullptr;
  PMPI_Comm_get_attr(communicator, keyval_, &value, &flag);
  if (flag)
    return static_cast<CommunicatorName*>(value);
  const auto later = later_.find(communicator);
  if (later == later_.end())
    return nullptr;
  const uint64_t place = later->second;
  later_.erase(later);
  name_child(place, communicator);
  return find(communicator);
}

void Communicators::set(MPI_Comm communicator, uint64_t id) {
  PMPI_Comm_set_attr(communicator, keyval_, new CommunicatorName{.id = id, .children = 0, .world_ranks = {}});
}

uint64_t Communicators::next_child(MPI_Comm parent) {
  CommunicatorName* name = find(parent);
  return name == nullptr ? 0 : mix(name->id, ++name->children);
}

uint64_t Communicators::next_group(MPI_Comm parent, MPI_Group group, int tag) {
  const CommunicatorName* name = find(parent);
  if (name == nullptr)
    return 0;
  // Apart from the numbers of the children that next_child counts: those are small.
  uint64_t id = mix(name->id, uint64_t{1} << 63 | static_cast<uint32_t>(tag));
  for (const uint32_t rank : world_ranks_of_group(group))
    id = mix(id, rank);
  return mix(id, ++groups_[id]);
}

void Communicators::name_child(uint64_t place, MPI_Comm child) {
  if (place == 0 || child == MPI_COMM_NULL)
    return;
  int inter = 0;
  PMPI_Comm_test_inter(child, &inter);
  if (!inter)
    set(child, mix(place, world_ranks_of(child).front()));
}

Result<const CommunicatorName*> Communicators::name_of(MPI_Comm communicator) {
  CommunicatorName* name = find(communicator);
  if (name == nullptr)
    return Status(Code::kUnsupported,
                  "Lanyard follows intra-communicators made from MPI_COMM_WORLD or MPI_COMM_SELF, not this one");
  if (name->world_ranks.empty())
    name->world_ranks = world_ranks_of(communicator);
  return name;
}

}  // namespace lanyard::api
