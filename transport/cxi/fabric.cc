#include "transport/cxi/fabric.h"

#include <hwloc.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "transport/cxi/cxi_extension.h"
#include "transport/cxi/library.h"

namespace lanyard::ofi {

namespace {

// The newest libfabric API whose rules the driver keeps. Older and newer libraries accept it.
constexpr uint32_t kApiVersion = FI_VERSION(1, 15);

// The capabilities that the driver needs: writes and atomics, counted on arrival and
// triggered by counters.
constexpr uint64_t kCapabilities = FI_RMA | FI_ATOMIC | FI_RMA_EVENT | FI_TRIGGER;

// Room for unread completions; some providers lose completions if it overflows.
constexpr size_t kLeastCompletions = 1024;

// The head of a nic::Address, to refuse foreign ones. The provider's own name follows.
struct AddressHead {
  uint32_t magic = 0x3149464f;  // "OFI1"
  uint32_t format = 0;          // FI_ADDR_CXI
  uint32_t bytes = 0;
};
constexpr size_t kMaxName = nic::Address::kMaxBytes - sizeof(AddressHead);

std::string_view domain_name(const fi_info& info) {
  return info.domain_attr->name == nullptr ? std::string_view() : std::string_view(info.domain_attr->name);
}

Result<AddressHead> head_of(const nic::Address& address) {
  AddressHead head;
  const Status alien(Code::kInvalidArgument, "the address is not of a NIC of libfabric");
  if (address.bytes.size() < sizeof head)
    return alien;
  std::memcpy(&head, address.bytes.data(), sizeof head);
  if (head.magic != AddressHead{}.magic || head.bytes == 0 || address.bytes.size() != sizeof head + head.bytes)
    return alien;
  return head;
}

struct FreeBitmap {
  void operator()(hwloc_bitmap_s* bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

// For example "0-3,8".
std::string list_of(hwloc_const_bitmap_t bitmap) {
  char* text = nullptr;
  if (bitmap == nullptr || hwloc_bitmap_list_asprintf(&text, bitmap) < 0)
    return {};
  std::string list(text);
  std::free(text);
  return list;
}

// Asks the system: hwloc does not if it describes another machine.
Bitmap cores_of_this_thread() {
  Bitmap mine(hwloc_bitmap_alloc());
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (mine == nullptr || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return mine;
  for (unsigned core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed))
      hwloc_bitmap_set(mine.get(), core);
  return mine;
}

}  // namespace

// ---- Which card is near

std::optional<PciAddress> PciAddress::of(const fi_info& info) {
  if (info.nic == nullptr || info.nic->bus_attr == nullptr || info.nic->bus_attr->bus_type != FI_BUS_PCI)
    return std::nullopt;
  const fi_pci_attr& pci = info.nic->bus_attr->attr.pci;
  return PciAddress{pci.domain_id, pci.bus_id, pci.device_id, pci.function_id};
}

std::string PciAddress::to_string() const {
  char text[48];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", domain, bus, device, function);
  return text;
}

void Locality::Destroy::operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }

Result<Locality> Locality::load() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0)
    return Status(Code::kFailed, "hwloc cannot be initialized");
  Locality locality(topology);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(topology) != 0)
    return Status(Code::kFailed, "hwloc cannot load this machine's topology");
  return locality;
}

std::optional<Locality::Place> Locality::place_of(PciAddress device) const {
  hwloc_obj_t object =
      hwloc_get_pcidev_by_busid(topology_.get(), device.domain, device.bus, device.device, device.function);
  if (object == nullptr)
    return std::nullopt;
  object = hwloc_get_non_io_ancestor_obj(topology_.get(), object);
  Place place{.numa_nodes = list_of(object->nodeset), .cores = list_of(object->cpuset)};
  if (const Bitmap mine = cores_of_this_thread(); mine != nullptr && object->cpuset != nullptr) {
    hwloc_bitmap_and(mine.get(), mine.get(), object->cpuset);
    place.shared_cores = static_cast<uint32_t>(std::max(hwloc_bitmap_weight(mine.get()), 0));
  }
  return place;
}

const fi_info* nearest(const fi_info* list, const Locality& locality) {
  const auto nearness = [&](const fi_info& info) -> uint32_t {
    const std::optional<PciAddress> card = PciAddress::of(info);
    const std::optional<Locality::Place> place = card ? locality.place_of(*card) : std::nullopt;
    return place ? place->shared_cores : 0;
  };
  const fi_info* best = list;
  for (const fi_info* info = list->next; info != nullptr; info = info->next)
    if (nearness(*info) > nearness(*best))
      best = info;
  return best;
}

// ---- The endpoint

Result<std::unique_ptr<Fabric>> Fabric::open(const std::string& domain, size_t operations, bool device_memory,
                                             const std::optional<Library>& given) {
  LANYARD_ASSIGN_OR_RETURN(const Library library, given ? Result<Library>(*given) : Library::load());
  std::unique_ptr<Fabric> fabric(new Fabric(library));
  LANYARD_RETURN_IF_ERROR(fabric->choose(domain, device_memory));
  LANYARD_RETURN_IF_ERROR(fabric->open_endpoint(operations));
  LANYARD_RETURN_IF_ERROR(fabric->name_endpoint());
  return fabric;
}

namespace {

// All cards of the provider that the driver can use.
Result<Info> find_cards(const Library& library, uint64_t more_capabilities) {
  const FreeInfo free_info{library.freeinfo};
  Info hints(library.dupinfo(nullptr), free_info);
  if (hints == nullptr)
    return Status(Code::kExhausted, "no memory for libfabric's hints");
  hints->caps = kCapabilities | more_capabilities;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;  // every operation has a fi_context2
  hints->ep_attr->type = FI_EP_RDM;
  // The driver chooses keys (N8); offsets, not addresses; counters are bound before a
  // region is enabled.
  hints->domain_attr->mr_mode = FI_MR_ENDPOINT | FI_MR_ALLOCATED;
  if ((more_capabilities & FI_HMEM) != 0)
    hints->domain_attr->mr_mode |= FI_MR_HMEM;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;  // one thread at a time drives
  hints->fabric_attr->prov_name = strdup(kProvider);
  fi_info* list = nullptr;
  const int found = library.getinfo(kApiVersion, nullptr, nullptr, 0, hints.get(), &list);
  if (found == 0 && list != nullptr)
    return Info(list, free_info);
  const char* allowed = std::getenv("FI_PROVIDER");
  const std::string filter =
      allowed == nullptr ? "" : "; FI_PROVIDER=" + std::string(allowed) + " in the environment may keep it away";
  return Status(Code::kUnsupported, "libfabric " + library.version() + " offers no provider \"" + kProvider +
                                        "\" here with remote writes, atomics and deferred work (fi_info -p " +
                                        kProvider + " shows what it offers): " +
                                        ofi_status(found == 0 ? -FI_ENODATA : found, "fi_getinfo").message() + filter);
}

}  // namespace

// Chooses the card by name, or the nearest.
Status Fabric::choose(const std::string& wanted, bool device_memory) {
  Result<Info> all = find_cards(library_, device_memory ? FI_HMEM : 0);
  if (!all.ok() && device_memory)
    all = find_cards(library_, 0);
  if (!all.ok())
    return all.status();
  const fi_info* best = wanted.empty() ? all.value().get() : nullptr;
  std::string known;
  for (const fi_info* info = all.value().get(); info != nullptr; info = info->next) {
    const std::string_view name = domain_name(*info);
    if ((" " + known + " ").find(" " + std::string(name) + " ") == std::string::npos)
      known += (known.empty() ? "" : " ") + std::string(name);
    if (best == nullptr && name == wanted)
      best = info;
  }
  if (best == nullptr)
    return {Code::kUnsupported,
            std::string("provider \"") + kProvider + "\" has no domain \"" + wanted + "\", but: " + known};
  // Without a topology all cards are equally near.
  if (wanted.empty() && best->next != nullptr)
    if (const Result<Locality> locality = Locality::load(); locality.ok())
      best = nearest(best, locality.value());
  const FreeInfo free_info{library_.freeinfo};
  info_ = Info(library_.dupinfo(best), free_info);
  return info_ == nullptr ? Status(Code::kExhausted, "no memory for libfabric's info") : Status();
}

Result<std::vector<std::string>> describe_cards() {
  LANYARD_ASSIGN_OR_RETURN(const Library library, Library::load());
  LANYARD_ASSIGN_OR_RETURN(const Info all, find_cards(library, 0));
  const Result<Locality> locality = Locality::load();
  std::vector<std::string> lines;
  for (const fi_info* info = all.get(); info != nullptr; info = info->next) {
    std::string line(domain_name(*info));
    const std::optional<PciAddress> address = PciAddress::of(*info);
    if (address)
      line += " at " + address->to_string();
    std::optional<Locality::Place> place;
    if (address && locality.ok())
      place = locality.value().place_of(*address);
    line += place ? ", NUMA node " + place->numa_nodes + ", cores " + place->cores + " (" +
                        std::to_string(place->shared_cores) + " of this process's)"
                  : ", no place known";
    if (std::find(lines.begin(), lines.end(), line) == lines.end())
      lines.push_back(std::move(line));
  }
  return lines;
}

namespace {

// Opens a libfabric object by `call`; `name` is for the error message.
template <typename T, typename Call>
Status open(Fid<T>& place, const char* name, Call call) {
  T* opened = nullptr;
  LANYARD_RETURN_IF_ERROR(ofi_status(call(&opened), name));
  place.reset(opened);
  return {};
}

}  // namespace

Result<Fid<fid_cntr>> open_provider_counter(fid_domain* domain) {
  fi_cntr_attr attributes{};
  attributes.events = FI_CNTR_EVENTS_COMP;
  attributes.wait_obj = FI_WAIT_NONE;
  Fid<fid_cntr> counter;
  LANYARD_RETURN_IF_ERROR(open(counter, "fi_cntr_open",
                               [&](fid_cntr** opened) { return fi_cntr_open(domain, &attributes, opened, nullptr); }));
  return counter;
}

Status Fabric::open_endpoint(size_t operations) {
  LANYARD_RETURN_IF_ERROR(ofi::open(fabric_, "fi_fabric", [&](fid_fabric** opened) {
    return library_.fabric(info_->fabric_attr, opened, library_.context);
  }));
  LANYARD_RETURN_IF_ERROR(ofi::open(domain_, "fi_domain", [&](fid_domain** opened) {
    return fi_domain(fabric_.get(), info_.get(), opened, nullptr);
  }));
  fi_av_attr table{};
  table.type = FI_AV_TABLE;
  LANYARD_RETURN_IF_ERROR(ofi::open(
      addresses_, "fi_av_open", [&](fid_av** opened) { return fi_av_open(domain_.get(), &table, opened, nullptr); }));
  fi_cq_attr queue{};
  queue.size = std::max(operations, kLeastCompletions);
  queue.format = FI_CQ_FORMAT_CONTEXT;
  queue.wait_obj = FI_WAIT_NONE;
  LANYARD_RETURN_IF_ERROR(ofi::open(
      completions_, "fi_cq_open", [&](fid_cq** opened) { return fi_cq_open(domain_.get(), &queue, opened, nullptr); }));
  LANYARD_ASSIGN_OR_RETURN(transfers_, open_provider_counter(domain_.get()));
  LANYARD_RETURN_IF_ERROR(ofi::open(endpoint_, "fi_endpoint", [&](fid_ep** opened) {
    return fi_endpoint(domain_.get(), info_.get(), opened, nullptr);
  }));
  const struct {
    fid* object;
    uint64_t flags;
  } bindings[] = {
      {&addresses_->fid, 0},
      {&completions_->fid, FI_TRANSMIT | FI_RECV},
      // Nobody reads it, but the CXI provider requires it for deferred atomics.
      {&transfers_->fid, FI_WRITE | FI_READ},
  };
  for (const auto& binding : bindings)
    LANYARD_RETURN_IF_ERROR(ofi_status(fi_ep_bind(endpoint_.get(), binding.object, binding.flags), "fi_ep_bind"));
  return ofi_status(fi_enable(endpoint_.get()), "fi_enable");
}

Status Fabric::name_endpoint() {
  std::byte name[kMaxName];
  size_t bytes = sizeof name;
  LANYARD_RETURN_IF_ERROR(ofi_status(fi_getname(&endpoint_->fid, name, &bytes), "fi_getname"));
  AddressHead head;
  head.format = info_->addr_format;
  head.bytes = static_cast<uint32_t>(bytes);
  address_.bytes.resize(sizeof head + bytes);
  std::memcpy(address_.bytes.data(), &head, sizeof head);
  std::memcpy(address_.bytes.data() + sizeof head, name, bytes);
  return {};
}

uint32_t Fabric::queried_depth() const {
  // All the trigger entries of a Cassini NIC.
  constexpr size_t kMost = 2048;
  for (const char* name : kCxiDomainOps) {
    CxiDomainOps* operations = nullptr;
    size_t depth = 0;
    if (fi_open_ops(&domain_->fid, name, 0, reinterpret_cast<void**>(&operations), nullptr) != 0 ||
        operations == nullptr)
      continue;
    // The provider converts an int, so a negative value becomes huge.
    if (operations->get_dwq_depth(&domain_->fid, &depth) == 0 && depth >= 1 && depth <= kMost)
      return static_cast<uint32_t>(depth);
  }
  return 0;
}

Status Fabric::set_peers(std::span<const nic::Address> peers) {
  std::vector<nic::Address> known;
  std::ranges::copy_if(peers, std::back_inserter(known), [](const nic::Address& peer) { return !peer.bytes.empty(); });
  LANYARD_ASSIGN_OR_RETURN(const std::vector<fi_addr_t> inserted, insert(known));
  auto next = inserted.begin();
  for (const nic::Address& peer : peers)
    peers_.push_back(peer.bytes.empty() ? FI_ADDR_NOTAVAIL : *next++);
  return {};
}

Status Fabric::add_peer(uint32_t peer, const nic::Address& address) {
  LANYARD_ASSIGN_OR_RETURN(const std::vector<fi_addr_t> inserted, insert({&address, 1}));
  peers_[peer] = inserted.front();
  return {};
}

// One call, in rank order: a provider that shares tables between processes may rely on it.
Result<std::vector<fi_addr_t>> Fabric::insert(std::span<const nic::Address> peers) {
  std::vector<std::byte> names;
  for (const nic::Address& peer : peers) {
    LANYARD_ASSIGN_OR_RETURN(const AddressHead head, head_of(peer));
    if (head.format != info_->addr_format || peer.bytes.size() != address_.bytes.size())
      return Status(Code::kInvalidArgument,
                    "a peer's address has another address format: use the same libfabric provider on all ranks");
    names.insert(names.end(), peer.bytes.begin() + sizeof(AddressHead), peer.bytes.end());
  }
  std::vector<fi_addr_t> inserted(peers.size(), FI_ADDR_NOTAVAIL);
  const int count = fi_av_insert(addresses_.get(), names.data(), peers.size(), inserted.data(), 0, nullptr);
  if (count != static_cast<int>(peers.size())) {
    std::erase(inserted, FI_ADDR_NOTAVAIL);
    (void)fi_av_remove(addresses_.get(), inserted.data(), inserted.size(), 0);
    return Status(Code::kInvalidArgument, "the provider refuses the peers' addresses (FI_LOG_LEVEL=warn may tell why)");
  }
  return inserted;
}

}  // namespace lanyard::ofi
