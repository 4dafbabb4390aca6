// Address vectors.
#include <cstring>

#include "tests/cxi_rules/node.h"

namespace lanyard::cxi_rules {

namespace {

constexpr char kOpen[] = "cxip_av.c: cxip_av_open_validate_args()";
constexpr char kInsert[] = "cxip_av.c: cxip_av_insert_validate_args()";

int opening(Node& node, const fi_av_attr& given) {
  fi_av_attr attributes = given;
  fid_av* vector = nullptr;
  const int code = fi_av_open(node.domain.get(), &attributes, &vector, nullptr);
  if (code == 0)
    node.trial.code("closing it", fi_close(&vector->fid), 0);
  return code;
}

struct Name {
  explicit Name(Node& node) { node.trial.need("fi_getname()", fi_getname(&node.ep->fid, bytes.data(), &size)); }
  std::array<std::byte, 256> bytes = {};
  size_t size = 256;
};

void types(Trial& t) {
  Node node(t, {.enable = false});
  for (const fi_av_type type : {FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE}) {
    fi_av_attr attributes = {};
    attributes.type = type;
    t.code("type " + std::to_string(type), opening(node, attributes), 0);
  }
  fi_av_attr attributes = {};
  attributes.type = static_cast<fi_av_type>(99);
  t.code("type 99", opening(node, attributes), -FI_EINVAL);
}

void attributes(Trial& t) {
  Node node(t, {.enable = false});
  fid_av* vector = nullptr;
  t.code("none", node.domain->ops->av_open(node.domain.get(), nullptr, &vector, nullptr), -FI_EINVAL);
  fi_av_attr contexts = {};
  contexts.type = FI_AV_TABLE;
  contexts.rx_ctx_bits = 1;
  t.code("rx_ctx_bits", opening(node, contexts), -FI_EINVAL);
  fi_av_attr named = {};
  named.type = FI_AV_TABLE;
  named.name = "shared";
  t.code("a name", opening(node, named), -FI_EINVAL);
  for (const auto& [name, flag] : {std::pair("FI_EVENT", FI_EVENT), std::pair("FI_READ", FI_READ)}) {
    fi_av_attr flagged = {};
    flagged.type = FI_AV_TABLE;
    flagged.flags = flag;
    t.code(name, opening(node, flagged), -FI_EINVAL);
  }
}

void symmetric(Trial& t) {
  Node node(t, {.enable = false});
  fi_av_attr attributes = {};
  attributes.type = FI_AV_TABLE;
  attributes.flags = FI_SYMMETRIC;
  t.code("FI_SYMMETRIC", opening(node, attributes), 0);
}

void same_place(Trial& t) {
  Node node(t);
  Name name(node);
  fi_addr_t again = FI_ADDR_NOTAVAIL;
  t.code("inserting an address again", fi_av_insert(node.av.get(), name.bytes.data(), 1, &again, 0, nullptr), 1);
  t.value("its place", again, node.self);
}

void removed_once(Trial& t) {
  Node node(t);
  Name name(node);
  fi_addr_t again = FI_ADDR_NOTAVAIL;
  t.need("inserting again", fi_av_insert(node.av.get(), name.bytes.data(), 1, &again, 0, nullptr), 1);
  t.code("removing it once", fi_av_remove(node.av.get(), &again, 1, 0), 0);
  uint64_t from = 3, to = 0;
  const auto region = node.region(&to, sizeof to);
  t.code("a write to it then", node.write(&from, 8, node.here(region), FI_COMPLETION), 0);
  node.next_entry("it");
}

void places(Trial& t) {
  Node node(t);
  const auto second = node.endpoint(), third = node.endpoint();
  node.enable(second);
  node.enable(third);
  t.value("the first", node.self, 0);
  t.value("the second", node.know(second), 1);
  t.value("the third", node.know(third), 2);
}

void many_at_once(Trial& t) {
  Node node(t, {.enable = false});
  node.enable(node.ep);
  const auto second = node.endpoint();
  node.enable(second);
  std::vector<std::byte> names;
  size_t size = 0;
  for (fid_ep* ep : {node.ep.get(), second.get()}) {
    std::array<std::byte, 256> name;
    size = name.size();
    t.need("fi_getname()", fi_getname(&ep->fid, name.data(), &size));
    names.insert(names.end(), name.begin(), name.begin() + static_cast<ptrdiff_t>(size));
  }
  fi_addr_t found[2] = {FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL};
  t.code("two at once", fi_av_insert(node.av.get(), names.data(), 2, found, FI_MORE, nullptr), 2);
  t.value("the first place", found[0], 0);
  t.value("the second", found[1], 1);
}

void without_places(Trial& t) {
  Node node(t);
  Name name(node);
  t.code("no array for places", fi_av_insert(node.av.get(), name.bytes.data(), 1, nullptr, 0, nullptr), 1);
}

void insert_arguments(Trial& t) {
  Node node(t);
  Name name(node);
  fi_addr_t place = 0;
  t.code("no addresses", fi_av_insert(node.av.get(), nullptr, 1, &place, 0, nullptr), -FI_EINVAL);
  t.code("FI_SYNC_ERR", fi_av_insert(node.av.get(), name.bytes.data(), 1, &place, FI_SYNC_ERR, nullptr), -FI_EINVAL);
  t.code("none of none", fi_av_insert(node.av.get(), nullptr, 0, &place, 0, nullptr), 0);
}

void looks_up(Trial& t) {
  Node node(t);
  Name name(node);
  std::array<std::byte, 256> found = {};
  size_t size = found.size();
  t.code("fi_av_lookup()", fi_av_lookup(node.av.get(), node.self, found.data(), &size), 0);
  t.value("bytes", size, name.size);
  t.holds("the address", std::memcmp(found.data(), name.bytes.data(), size) == 0);
  size = 1;
  t.code("into one byte", fi_av_lookup(node.av.get(), node.self, found.data(), &size), 0);
  t.value("bytes told", size, name.size);
}

void prints(Trial& t) {
  Node node(t);
  Name name(node);
  char text[256];
  size_t size = sizeof text;
  const char* printed = fi_av_straddr(node.av.get(), name.bytes.data(), text, &size);
  t.holds(std::string("fi_av_straddr(): ") + (printed == nullptr ? "" : printed),
          printed == text && std::string(text).substr(0, 11) == "fi_addr_cxi");
}

void services(Trial& t) {
  Node node(t);
  fi_addr_t place = FI_ADDR_NOTAVAIL;
  t.code("number and port", fi_av_insertsvc(node.av.get(), "0x12", "7", &place, 0, nullptr), 1);
  t.holds("a place", place != FI_ADDR_NOTAVAIL && place != node.self);
  t.code("no node", fi_av_insertsvc(node.av.get(), nullptr, "7", &place, 0, nullptr), -FI_EINVAL);
  t.code("no service", fi_av_insertsvc(node.av.get(), "0x12", nullptr, &place, 0, nullptr), -FI_EINVAL);
  t.code("no number", fi_av_insertsvc(node.av.get(), "x", "7", &place, 0, nullptr), -FI_ENODATA);
}

void no_sequences(Trial& t) {
  Node node(t);
  fi_addr_t place = 0;
  t.code("fi_av_insertsym()", fi_av_insertsym(node.av.get(), "node", 1, "7", 1, &place, 0, nullptr), -FI_ENOSYS);
}

void remove_flags(Trial& t) {
  Node node(t);
  fi_addr_t place = node.self;
  t.code("FI_MORE", fi_av_remove(node.av.get(), &place, 1, FI_MORE), -FI_EINVAL);
}

void no_binding(Trial& t) {
  Node node(t, {.enable = false});
  t.code("fi_av_bind()", fi_av_bind(node.av.get(), &node.cq->fid, 0), -FI_ENOSYS);
}

}  // namespace

Group address_rules() {
  return {
      "address vectors",
      {
          {"VectorTypes", "Both types are there, and one without a type.", kOpen, kAll, types},
          {"VectorAttributes", "Names, events, contexts and missing attributes are refused.", kOpen, kAll, attributes},
          {"VectorSymmetric", "FI_SYMMETRIC is taken.", "cxip_av.c: cxip_av_open()", kAll, symmetric},
          {"VectorSamePlace", "An address that is there keeps its place.", "cxip_av.c: cxip_av_insert_addr()", kAll,
           same_place},
          {"VectorCountsUses", "It goes when it has been removed as often as inserted.",
           "cxip_av.c: cxip_av_remove_addr()", kAll, removed_once},
          {"VectorPlaces", "Places are 0, 1, 2.", "cxip_av.c: cxip_av_insert_addr()", kAll, places},
          {"VectorManyAtOnce", "Several addresses are inserted at once, in order.", "cxip_av.c: cxip_av_insert()", kAll,
           many_at_once},
          {"VectorWithoutPlaces", "The places need not be asked for.", "cxip_av.c: cxip_av_insert()", kAll,
           without_places},
          {"VectorArguments", "Addresses must be there, and flags other than FI_MORE are refused.", kInsert, kAll,
           insert_arguments},
          {"VectorLooksUp", "An address is found by its place, cut off where there is no room.",
           "cxip_av.c: cxip_av_lookup()", kAll, looks_up},
          {"VectorPrints", "Addresses are printed as fi_addr_cxi://...", "cxip_av.c: cxip_av_straddr()", kAll, prints},
          {"VectorServices", "An address may be given as a number and a port.", "cxip_av.c: cxip_av_insertsvc()", kAll,
           services},
          {"VectorNoSequences", "fi_av_insertsym() is -FI_ENOSYS.", "cxip_av.c: cxip_av_fid_ops", kAll, no_sequences},
          {"VectorRemoveFlags", "Removing takes no flags.", "cxip_av.c: cxip_av_remove()", kAll, remove_flags},
          {"VectorNoBinding", "Nothing is bound to a vector.", "cxip_av.c: cxip_av_fi_ops", kAll, no_binding},
      }};
}

}  // namespace lanyard::cxi_rules
