// Every function of the provider's tables, by the calls of libfabric's that reach it.
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_trigger.h>

#include <cstring>
#include <string_view>

#include "tests/fi_fuzz_world.h"

namespace lanyard {

namespace {

using World = FuzzWorld;

// fi_cxi(7)'s tables, as far as the provider has them.
struct CounterExtensions {
  int (*set_wb_buffer)(struct fid* counter, void* buffer, size_t bytes);
  int (*get_mmio_addr)(struct fid* counter, void** address, size_t* bytes);
};
struct DomainExtensions {
  int (*cntr_read)(struct fid* domain, unsigned counter, uint64_t* value, struct timespec* when);
  int (*topology)(struct fid* domain, unsigned* group, unsigned* node_switch, unsigned* port);
  int (*enable_hybrid_mr_desc)(struct fid* domain, bool enable);
  size_t (*ep_get_unexp_msgs)(struct fid_ep* ep, struct fi_cq_tagged_entry* entries, size_t count, fi_addr_t* sources,
                              size_t* waiting);
  int (*get_dwq_depth)(struct fid* domain, size_t* depth);
  int (*enable_mr_match_events)(struct fid* domain, bool enable);
  int (*enable_optimized_mrs)(struct fid* domain, bool enable);
};

// Memory of exactly so many bytes, where a sanitizer sees every access beyond.
std::unique_ptr<std::byte[]> exactly(size_t bytes) { return std::make_unique<std::byte[]>(bytes); }

// ---- The provider and its fabric

void getinfo(World& w) {
  Info hints(fi_allocinfo());
  hints->fabric_attr->prov_name = ::strdup("cxi");
  for (uint64_t changes = w.below(4); changes > 0; --changes) {
    switch (w.below(14)) {
      case 0: hints->caps = w.flags() | w.flags(); break;
      case 1: hints->mode = w.flags(); break;
      case 2: hints->addr_format = static_cast<uint32_t>(w.number()); break;
      case 3: hints->ep_attr->type = w.enumeration<fi_ep_type>(FI_EP_SOCK_DGRAM); break;
      case 4: hints->ep_attr->protocol = static_cast<uint32_t>(w.number()); break;
      case 5: hints->ep_attr->max_msg_size = w.size(); break;
      case 6: hints->tx_attr->caps = w.flags() | w.flags(); break;
      case 7: hints->tx_attr->size = w.size(); break;
      case 8: hints->tx_attr->inject_size = w.size(); break;
      case 9: hints->tx_attr->msg_order = w.flags(); break;
      case 10: hints->rx_attr->caps = w.flags() | w.flags(); break;
      case 11: hints->rx_attr->size = w.size(); break;
      case 12: hints->domain_attr->av_type = w.enumeration<fi_av_type>(FI_AV_TABLE); break;
      default: hints->domain_attr->mr_mode = static_cast<int>(w.random() & 0xfff); break;
    }
  }
  fi_info* info = nullptr;
  const char* const nodes[] = {nullptr, "cxi0", "cxi1", "", "127.0.0.1"};
  const char* const services[] = {nullptr, "", "7", "no number"};
  if (w.call("fi_getinfo", fi_getinfo, FI_VERSION(1, 15), w.pick(nodes), w.pick(services), w.one_in(4) ? w.flags() : 0,
             w.or_null(hints.get(), 8), &info) == 0)
    fi_freeinfo(info);
}

void open_fabric(World& w) {
  if (w.fabrics.size() >= 2)
    return;
  const fi_info* const info = w.info();
  if (info == nullptr)
    return;
  fi_fabric_attr attributes = *info->fabric_attr;  // libfabric itself looks at its provider's name
  const auto open = [&](fid_fabric** out) {
    return out == nullptr ? -FI_EINVAL : w.call("fi_fabric", fi_fabric, &attributes, out, w.wild_pointer());
  };
  w.keep(w.fabrics, w.opened<fid_fabric>(open), nullptr, "fabric");
}

void open_domain(World& w) {
  fid_fabric* const fabric = w.fabric();
  if (fabric == nullptr || w.domains.size() >= 3)
    return;
  fid_domain* const domain = w.opened<fid_domain>([&](fid_domain** out) {
    return w.one_in(8) ? w.call("fi_domain2", fi_domain2, fabric, w.info(), out, w.flags(), w.wild_pointer())
                       : w.call("fi_domain", fi_domain, fabric, w.info(), out, w.wild_pointer());
  });
  w.keep(w.domains, domain, fabric, "domain");
}

void open_event_queue(World& w) {
  fid_fabric* const fabric = w.fabric();
  if (fabric == nullptr || w.event_queues.size() >= 2)
    return;
  fi_eq_attr attributes = {w.number(), w.one_in(2) ? w.flags() : 0, w.enumeration<fi_wait_obj>(FI_WAIT_POLLFD), 0,
                           nullptr};
  w.note("attributes", attributes.size, attributes.flags, attributes.wait_obj);
  w.keep(w.event_queues, w.opened<fid_eq>([&](fid_eq** out) {
    return w.call("fi_eq_open", fi_eq_open, fabric, w.or_null(&attributes), out, w.wild_pointer());
  }),
         fabric, "eq");
}

void use_event_queue(World& w) {
  fid_eq* const eq = w.event_queue();
  if (eq == nullptr)
    return;
  const size_t bytes = w.below(200);
  const auto buffer = exactly(bytes);
  uint32_t event = static_cast<uint32_t>(w.number());
  fi_eq_err_entry error = {};
  switch (w.below(6)) {
    case 0: w.call("fi_eq_read", fi_eq_read, eq, w.or_null(&event), w.or_null(buffer.get()), bytes, w.flags()); break;
    case 1: w.call("fi_eq_readerr", fi_eq_readerr, eq, w.or_null(&error), w.flags()); break;
    case 2: w.call("fi_eq_write", fi_eq_write, eq, event, w.or_null(buffer.get()), bytes, w.flags()); break;
    case 3:
      w.call("fi_eq_sread", fi_eq_sread, eq, w.or_null(&event), w.or_null(buffer.get()), bytes,
             static_cast<int>(w.below(3)), w.flags());
      break;
    case 4:
      w.call("fi_eq_strerror", fi_eq_strerror, eq, static_cast<int>(w.number()), nullptr,
             w.or_null(reinterpret_cast<char*>(buffer.get())), bytes);
      break;
    default: w.call("fi_control", fi_control, &eq->fid, w.enumeration<int>(FI_EXPORT_FID), nullptr); break;
  }
}

// What nobody opens here: it would be kept by nobody.
void open_others(World& w) {
  fid_fabric* const fabric = w.fabric();
  fid_domain* const domain = w.domain();
  if (fabric == nullptr || domain == nullptr)
    return;
  void* opened = nullptr;
  int error = 0;
  fi_wait_attr wait = {w.enumeration<fi_wait_obj>(FI_WAIT_POLLFD), w.flags()};
  fi_poll_attr poll = {w.flags()};
  fid* fids[2] = {w.object(), w.object()};
  switch (w.below(8)) {
    case 0: error = w.call("fi_wait_open", fi_wait_open, fabric, &wait, reinterpret_cast<fid_wait**>(&opened)); break;
    case 1: error = w.call("fi_poll_open", fi_poll_open, domain, &poll, reinterpret_cast<fid_poll**>(&opened)); break;
    case 2:
      error = w.call("fi_passive_ep", fi_passive_ep, fabric, w.info(), reinterpret_cast<fid_pep**>(&opened), nullptr);
      break;
    case 3:
      error = w.call("fi_scalable_ep", fi_scalable_ep, domain, w.info(), reinterpret_cast<fid_ep**>(&opened), nullptr);
      break;
    case 4:
      error = w.call("fi_stx_context", fi_stx_context, domain, nullptr, reinterpret_cast<fid_stx**>(&opened), nullptr);
      break;
    case 5:
      error = w.call("fi_srx_context", fi_srx_context, domain, nullptr, reinterpret_cast<fid_ep**>(&opened), nullptr);
      break;
    case 6:
      if (fids[0] != nullptr && fids[1] != nullptr)
        w.call("fi_trywait", fi_trywait, fabric, fids, static_cast<int>(w.below(3)));
      return;
    default:
      fi_collective_attr collective = {};
      w.call("fi_query_collective", fi_query_collective, domain, w.enumeration<fi_collective_op>(FI_GATHER),
             w.or_null(&collective), w.flags());
      return;
  }
  EXPECT_LT(error, 0) << "this test does not know what to do with it";
}

// ---- The domain

void open_vector(World& w) {
  fid_domain* const domain = w.domain();
  if (domain == nullptr || w.vectors.size() >= 5)
    return;
  fi_av_attr attributes = {};
  attributes.type = w.enumeration<fi_av_type>(FI_AV_TABLE);
  attributes.count = w.number();
  if (w.one_in(6))
    attributes.flags = w.flags();
  if (w.one_in(12))
    attributes.rx_ctx_bits = static_cast<int>(w.number());
  if (w.one_in(12))
    attributes.name = "a name";
  w.note("attributes", attributes.type, attributes.count, attributes.flags, attributes.rx_ctx_bits);
  fid_av* const vector = w.opened<fid_av>([&](fid_av** out) {
    return w.call("fi_av_open", fi_av_open, domain, w.or_null(&attributes), out, w.wild_pointer());
  });
  w.keep(w.vectors, vector, domain, "av");
}

void open_queue(World& w) {
  fid_domain* const domain = w.domain();
  if (domain == nullptr || w.queues.size() >= 6)
    return;
  fi_cq_attr attributes = {};
  attributes.size = w.number();
  attributes.format = w.enumeration<fi_cq_format>(FI_CQ_FORMAT_TAGGED);
  if (w.one_in(4))
    attributes.wait_obj = w.enumeration<fi_wait_obj>(FI_WAIT_POLLFD);
  if (w.one_in(8))
    attributes.flags = w.flags();
  if (w.one_in(16))
    attributes.wait_cond = w.enumeration<fi_cq_wait_cond>(FI_CQ_COND_THRESHOLD);
  w.note("attributes", attributes.size, attributes.flags, attributes.format, attributes.wait_obj);
  const size_t bytes[] = {sizeof(fi_cq_tagged_entry), sizeof(fi_cq_entry), sizeof(fi_cq_msg_entry),
                          sizeof(fi_cq_data_entry), sizeof(fi_cq_tagged_entry)};
  const auto format = static_cast<size_t>(static_cast<unsigned>(attributes.format));
  fid_cq* const queue = w.opened<fid_cq>([&](fid_cq** out) {
    return w.call("fi_cq_open", fi_cq_open, domain, w.or_null(&attributes), out, w.wild_pointer());
  });
  w.keep(w.queues, queue, domain, "cq", format < std::size(bytes) ? bytes[format] : sizeof(fi_cq_tagged_entry));
}

void open_counter(World& w) {
  fid_domain* const domain = w.domain();
  if (domain == nullptr || w.counters.size() >= 12)
    return;
  fi_cntr_attr attributes = {};
  attributes.events = w.one_in(8) ? w.enumeration<fi_cntr_events>(FI_CNTR_EVENTS_COMP) : FI_CNTR_EVENTS_COMP;
  if (w.one_in(4))
    attributes.wait_obj = w.enumeration<fi_wait_obj>(FI_WAIT_POLLFD);
  if (w.one_in(8))
    attributes.flags = w.flags();
  w.note("attributes", attributes.events, attributes.wait_obj, attributes.flags);
  fid_cntr* const counter = w.opened<fid_cntr>([&](fid_cntr** out) {
    return w.call("fi_cntr_open", fi_cntr_open, domain, w.or_null(&attributes, 3), out, w.wild_pointer());
  });
  w.keep(w.counters, counter, domain, "cntr");
}

void open_endpoint(World& w) {
  fid_domain* const domain = w.domain();
  if (domain == nullptr || w.endpoints.size() >= 6)
    return;
  fid_ep* const endpoint = w.opened<fid_ep>([&](fid_ep** out) {
    return w.one_in(8) ? w.call("fi_endpoint2", fi_endpoint2, domain, w.info(), out, w.flags(), w.wild_pointer())
                       : w.call("fi_endpoint", fi_endpoint, domain, w.info(), out, w.wild_pointer());
  });
  w.keep(w.endpoints, endpoint, domain, "ep");
}

// A usable endpoint, so that what follows comes further than to "not enabled".
void open_whole_endpoint(World& w) {
  fid_domain* const domain = w.domain();
  fi_info* const info = w.info();
  if (domain == nullptr || info == nullptr || w.endpoints.size() >= 6 || w.queues.size() >= 6 || w.vectors.size() >= 5)
    return;
  fid_av* vector = nullptr;
  if (w.call("fi_av_open", fi_av_open, domain, nullptr, &vector, nullptr) != 0)
    return;
  w.keep(w.vectors, vector, domain, "av");
  fid_cq* queue = nullptr;
  if (w.call("fi_cq_open", fi_cq_open, domain, nullptr, &queue, nullptr) != 0)
    return;
  w.keep(w.queues, queue, domain, "cq", sizeof(fi_cq_tagged_entry));
  fid_ep* endpoint = nullptr;
  if (w.call("fi_endpoint", fi_endpoint, domain, info, &endpoint, nullptr) != 0)
    return;
  w.keep(w.endpoints, endpoint, domain, "ep");
  w.call("fi_ep_bind", fi_ep_bind, endpoint, &vector->fid, uint64_t{0});
  w.call("fi_ep_bind", fi_ep_bind, endpoint, &queue->fid,
         FI_TRANSMIT | FI_RECV | (w.one_in(2) ? FI_SELECTIVE_COMPLETION : 0));
  if (fid_cntr* const counter = w.counter(); counter != nullptr && w.one_in(2))
    w.call("fi_ep_bind", fi_ep_bind, endpoint, &counter->fid, FI_WRITE | FI_READ);
  if (w.call("fi_enable", fi_enable, endpoint) != 0)
    return;
  size_t bytes = 256;
  std::vector<std::byte> name(bytes);
  if (w.call("fi_getname", fi_getname, &endpoint->fid, name.data(), &bytes) != 0)
    return;
  name.resize(bytes);
  if (w.addresses.size() < 8)
    w.addresses.push_back(name);
  if (!w.one_in(4))
    w.call("fi_av_insert", fi_av_insert, vector, name.data(), size_t{1}, nullptr, uint64_t{0}, nullptr);
}

void use_domain(World& w) {
  fid_domain* const domain = w.domain();
  if (domain == nullptr)
    return;
  fi_atomic_attr attributes = {};
  uint64_t words[4] = {};
  size_t bytes = w.below(32);
  switch (w.below(6)) {
    case 0: {
      const uint64_t forms[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC, w.flags()};
      w.call("fi_query_atomic", fi_query_atomic, domain, w.datatype(), w.op(), w.or_null(&attributes), w.pick(forms));
      break;
    }
    case 1:
      if (fid* const other = w.object())
        w.call("fi_domain_bind", fi_domain_bind, domain, other, w.flags());
      break;
    case 2:
      w.call("fi_mr_map_raw", fi_mr_map_raw, domain, w.number(), reinterpret_cast<uint8_t*>(words), bytes, &words[3],
             w.flags());
      break;
    case 3: w.call("fi_mr_unmap_key", fi_mr_unmap_key, domain, w.key()); break;
    case 4:
      if (w.one_in(8))
        w.call("fi_control(FI_FLUSH_WORK)", fi_control, &domain->fid, static_cast<int>(FI_FLUSH_WORK), nullptr);
      break;
    default: {
      const int command = w.enumeration<int>(FI_EXPORT_FID);
      if (command != FI_FLUSH_WORK)
        w.call("fi_control", fi_control, &domain->fid, command, nullptr);
      break;
    }
  }
}

void open_tables(World& w) {
  fid* const object = w.object();
  if (object == nullptr)
    return;
  const char* const names[] = {"cxi_counter_ops", "dom_ops_v1", "dom_ops_v6", "dom_ops_v7", "dom_ops_v", "", nullptr};
  const char* const name = w.pick(names);
  void* table = nullptr;
  const uint64_t flags = w.one_in(4) ? w.flags() : 0;
  const bool opened =
      w.call("fi_open_ops", fi_open_ops, object, name, flags, w.or_null(&table), nullptr) == 0 && table != nullptr;
  w.call("fi_set_ops", fi_set_ops, object, name, flags, table, nullptr);
  char text[256];
  fi_tostr_r(text, sizeof text, w.info(), FI_TYPE_INFO);
  if (!opened)
    return;
  if (std::string_view(name) == "cxi_counter_ops") {
    auto& ops = *static_cast<CounterExtensions*>(table);
    auto& details = *w.details_of(reinterpret_cast<fid_cntr*>(object));
    void* address = nullptr;
    size_t bytes = 0;
    if (w.one_in(2))
      w.call("set_wb_buffer", ops.set_wb_buffer, object, static_cast<void*>(w.local()), w.one_in(2) ? w.size() : 8);
    else if (w.call("get_mmio_addr", ops.get_mmio_addr, object, w.or_null(&address), w.or_null(&bytes)) == 0)
      details.registers = static_cast<volatile std::byte*>(address);
    return;
  }
  auto& ops = *static_cast<DomainExtensions*>(table);
  fid* const from = w.one_in(8) ? w.object() : object;
  if (from == nullptr)
    return;
  uint64_t value = 0;
  unsigned numbers[3] = {};
  timespec when = {};
  size_t depth = 0;
  fi_addr_t sources[2] = {};
  fi_cq_tagged_entry entries[2] = {};
  switch (w.below(7)) {
    case 0:
      w.call("cntr_read", ops.cntr_read, from, static_cast<unsigned>(w.number()), w.or_null(&value), w.or_null(&when));
      break;
    case 1:
      w.call("topology", ops.topology, from, w.or_null(&numbers[0]), w.or_null(&numbers[1]), w.or_null(&numbers[2]));
      break;
    case 2: w.call("enable_hybrid_mr_desc", ops.enable_hybrid_mr_desc, from, w.one_in(2)); break;
    case 3:
      if (fid_ep* const endpoint = w.endpoint())
        w.call("ep_get_unexp_msgs", ops.ep_get_unexp_msgs, endpoint, w.or_null(entries), w.below(3), w.or_null(sources),
               w.or_null(&depth));
      break;
    case 4: w.call("get_dwq_depth", ops.get_dwq_depth, from, w.or_null(&depth)); break;
    case 5: w.call("enable_mr_match_events", ops.enable_mr_match_events, from, w.one_in(2)); break;
    default: w.call("enable_optimized_mrs", ops.enable_optimized_mrs, from, w.one_in(2)); break;
  }
}

// ---- Address vectors

void use_vector(World& w) {
  fid_av* const vector = w.vector();
  if (vector == nullptr)
    return;
  fi_addr_t places[World::kListed] = {w.address(), w.address(), w.address(), w.address()};
  const size_t count = w.below(World::kListed + 1);
  const uint64_t flags = w.one_in(6) ? w.flags() : 0;
  switch (w.below(10)) {
    case 0:
    case 1:
    case 2: {
      std::vector<std::byte> names;
      for (size_t i = 0; i < count && !w.addresses.empty(); ++i) {
        const std::vector<std::byte>& name = w.addresses[w.below(w.addresses.size())];
        names.insert(names.end(), name.begin(), name.end());
      }
      if (names.empty())
        return;
      if (w.one_in(6))
        names[w.below(names.size())] ^= static_cast<std::byte>(1 << w.below(8));
      if (w.one_in(20))
        names[w.below(names.size())] = static_cast<std::byte>(w.random());
      w.call("fi_av_insert", fi_av_insert, vector, w.or_null(names.data()), count, w.or_null(places, 3), flags,
             w.wild_pointer());
      break;
    }
    case 3:
      w.call("fi_av_insertsvc", fi_av_insertsvc, vector, w.or_null("cxi0"), w.or_null("1"), w.or_null(places), flags,
             w.wild_pointer());
      break;
    case 4:
      w.call("fi_av_insertsym", fi_av_insertsym, vector, w.or_null("cxi0"), w.below(3), w.or_null("1"), w.below(3),
             w.or_null(places), flags, w.wild_pointer());
      break;
    case 5: w.call("fi_av_remove", fi_av_remove, vector, w.or_null(places), w.one_in(4) ? count : 0, flags); break;
    case 6: {
      size_t bytes = w.below(160);
      const auto buffer = exactly(bytes);
      w.call("fi_av_lookup", fi_av_lookup, vector, w.address(), static_cast<void*>(w.or_null(buffer.get())),
             w.or_null(&bytes));
      break;
    }
    case 7: {
      if (w.addresses.empty())
        return;
      std::vector<std::byte> name = w.addresses[w.below(w.addresses.size())];
      if (w.one_in(4))
        name[w.below(8)] ^= std::byte{0x81};
      size_t bytes = w.below(64);
      const auto buffer = exactly(bytes);
      w.call("fi_av_straddr", fi_av_straddr, vector, static_cast<const void*>(w.or_null(name.data())),
             w.or_null(reinterpret_cast<char*>(buffer.get())), w.or_null(&bytes));
      break;
    }
    case 8:
      if (fid* const other = w.object())
        w.call("fi_av_bind", fi_av_bind, vector, other, w.flags());
      break;
    default: {
      fid_av_set* set = nullptr;
      fi_av_set_attr attributes = {};
      EXPECT_NE(w.call("fi_av_set", fi_av_set, vector, w.or_null(&attributes), &set, nullptr), 0);
      break;
    }
  }
}

// ---- Queues and counters

void use_queue(World& w) {
  fid_cq* const queue = w.queue();
  if (queue == nullptr)
    return;
  const size_t count = w.below(6);
  const auto entries = exactly(count * w.details_of(queue)->entry_bytes);
  void* const buffer = w.or_null(entries.get());
  fi_addr_t sources[6] = {};
  const int timeout = static_cast<int>(w.below(3));
  switch (w.below(9)) {
    case 0:
    case 1:
    case 2: w.call("fi_cq_read", fi_cq_read, queue, buffer, count); break;
    case 3: w.call("fi_cq_readfrom", fi_cq_readfrom, queue, buffer, count, w.or_null(sources)); break;
    case 4: {
      fi_cq_err_entry error = {};
      w.call("fi_cq_readerr", fi_cq_readerr, queue, w.or_null(&error), w.one_in(2) ? w.flags() : 0);
      break;
    }
    case 5: w.call("fi_cq_sread", fi_cq_sread, queue, buffer, count, nullptr, timeout); break;
    case 6:
      w.call("fi_cq_sreadfrom", fi_cq_sreadfrom, queue, buffer, count, w.or_null(sources), nullptr, timeout);
      break;
    case 7: w.call("fi_cq_signal", fi_cq_signal, queue); break;
    default: {
      const size_t bytes = w.below(20);
      const auto text = exactly(bytes);
      w.call("fi_cq_strerror", fi_cq_strerror, queue, static_cast<int>(w.number()), nullptr,
             w.or_null(reinterpret_cast<char*>(text.get())), bytes);
      break;
    }
  }
}

void use_counter(World& w) {
  fid_cntr* const counter = w.counter();
  if (counter == nullptr)
    return;
  switch (w.below(12)) {
    case 0:
    case 1: w.call("fi_cntr_read", fi_cntr_read, counter); break;
    case 2: w.call("fi_cntr_readerr", fi_cntr_readerr, counter); break;
    case 3:
    case 4:
    case 5: w.call("fi_cntr_add", fi_cntr_add, counter, w.number()); break;
    case 6: w.call("fi_cntr_set", fi_cntr_set, counter, w.number()); break;
    case 7: w.call("fi_cntr_adderr", fi_cntr_adderr, counter, w.number()); break;
    case 8: w.call("fi_cntr_seterr", fi_cntr_seterr, counter, w.number()); break;
    case 9: w.call("fi_cntr_wait", fi_cntr_wait, counter, w.number(), static_cast<int>(w.below(3))); break;
    default:
      // Within the page that is the counter's.
      if (volatile std::byte* const registers = w.details_of(counter)->registers) {
        const size_t offset = w.one_in(4) ? w.below(512) * 8 : w.below(4) * 64;
        const uint64_t value = w.number();
        w.note("offset", offset, "value", value);
        w.call(
            "store",
            [](volatile std::byte* to, uint64_t stored) {
              *reinterpret_cast<volatile uint64_t*>(to) = stored;
              return 0;
            },
            registers + offset, value);
      }
      break;
  }
}

void control(World& w) {
  fid* const object = w.object();
  if (object == nullptr || object->fclass == FI_CLASS_DOMAIN)
    return;
  // Room for whatever the command wants to read or write.
  const auto argument = std::make_unique<uint64_t[]>(64);
  const int command = w.enumeration<int>(FI_EXPORT_FID);
  // An alias is an object of its own, that this test would have to close.
  if (command != FI_ALIAS && command != FI_DUP)
    w.call("fi_control", fi_control, object, command, static_cast<void*>(w.or_null(argument.get(), 3)));
}

// ---- Endpoints

void use_endpoint(World& w) {
  fid_ep* const endpoint = w.endpoint();
  if (endpoint == nullptr)
    return;
  size_t bytes = w.below(160);
  const auto buffer = exactly(bytes);
  fid_ep* opened = nullptr;
  switch (w.below(14)) {
    case 0:
    case 1:
    case 2:
      if (fid* const other = w.object())
        w.call("fi_ep_bind", fi_ep_bind, endpoint, w.or_null(other),
               w.flags() | (w.one_in(2) ? FI_TRANSMIT | FI_RECV : 0));
      break;
    case 3: w.call("fi_enable", fi_enable, endpoint); break;
    case 4:
      w.call("fi_getname", fi_getname, &endpoint->fid, static_cast<void*>(w.or_null(buffer.get())), w.or_null(&bytes));
      break;
    case 5: w.call("fi_setname", fi_setname, &endpoint->fid, static_cast<void*>(buffer.get()), bytes); break;
    case 6: w.call("fi_getpeer", fi_getpeer, endpoint, static_cast<void*>(buffer.get()), w.or_null(&bytes)); break;
    case 7: w.call("fi_connect", fi_connect, endpoint, buffer.get(), nullptr, size_t{0}); break;
    case 8: w.call("fi_accept", fi_accept, endpoint, nullptr, size_t{0}); break;
    case 9: w.call("fi_shutdown", fi_shutdown, endpoint, w.flags()); break;
    case 10: w.call("fi_cancel", fi_cancel, &endpoint->fid, w.wild_pointer()); break;
    case 11:
      w.call("fi_getopt", fi_getopt, &endpoint->fid, static_cast<int>(w.number()), static_cast<int>(w.number()),
             static_cast<void*>(w.or_null(buffer.get())), w.or_null(&bytes));
      break;
    case 12:
      w.call("fi_setopt", fi_setopt, &endpoint->fid, static_cast<int>(w.number()), static_cast<int>(w.number()),
             static_cast<const void*>(w.or_null(buffer.get())), bytes);
      break;
    default:
      w.call("tx_size_left", endpoint->ops->tx_size_left, endpoint);
      w.call("rx_size_left", endpoint->ops->rx_size_left, endpoint);
      EXPECT_NE(w.call("fi_tx_context", fi_tx_context, endpoint, 0, nullptr, &opened, nullptr), 0);
      EXPECT_NE(w.call("fi_rx_context", fi_rx_context, endpoint, 0, nullptr, &opened, nullptr), 0);
      break;
  }
}

void use_messages(World& w) {
  fid_ep* const ep = w.endpoint();
  if (ep == nullptr)
    return;
  void* const context = w.wild_pointer();
  void* const desc = w.wild_pointer();
  switch (w.below(9)) {
    case 0: w.call("fi_recv", fi_recv, ep, w.local(), w.size(), desc, w.address(), context); break;
    case 1: w.call("fi_recvv", fi_recvv, ep, w.pieces(), w.descriptors(), w.count(), w.address(), context); break;
    case 2: w.call("fi_recvmsg", fi_recvmsg, ep, w.message(), w.flags()); break;
    case 3: w.call("fi_send", fi_send, ep, w.local(), w.size(), desc, w.address(), context); break;
    case 4: w.call("fi_sendv", fi_sendv, ep, w.pieces(), w.descriptors(), w.count(), w.address(), context); break;
    case 5: w.call("fi_sendmsg", fi_sendmsg, ep, w.message(), w.flags()); break;
    case 6: w.call("fi_inject", fi_inject, ep, w.local(), w.size(), w.address()); break;
    case 7: w.call("fi_senddata", fi_senddata, ep, w.local(), w.size(), desc, w.number(), w.address(), context); break;
    default: w.call("fi_injectdata", fi_injectdata, ep, w.local(), w.size(), w.number(), w.address()); break;
  }
}

void use_tagged_messages(World& w) {
  fid_ep* const ep = w.endpoint();
  if (ep == nullptr)
    return;
  void* const context = w.wild_pointer();
  void* const desc = w.wild_pointer();
  const uint64_t tag = w.number(), ignored = w.number();
  switch (w.below(9)) {
    case 0: w.call("fi_trecv", fi_trecv, ep, w.local(), w.size(), desc, w.address(), tag, ignored, context); break;
    case 1:
      w.call("fi_trecvv", fi_trecvv, ep, w.pieces(), w.descriptors(), w.count(), w.address(), tag, ignored, context);
      break;
    case 2: w.call("fi_trecvmsg", fi_trecvmsg, ep, w.tagged_message(), w.flags()); break;
    case 3: w.call("fi_tsend", fi_tsend, ep, w.local(), w.size(), desc, w.address(), tag, context); break;
    case 4:
      w.call("fi_tsendv", fi_tsendv, ep, w.pieces(), w.descriptors(), w.count(), w.address(), tag, context);
      break;
    case 5: w.call("fi_tsendmsg", fi_tsendmsg, ep, w.tagged_message(), w.flags()); break;
    case 6: w.call("fi_tinject", fi_tinject, ep, w.local(), w.size(), w.address(), tag); break;
    case 7:
      w.call("fi_tsenddata", fi_tsenddata, ep, w.local(), w.size(), desc, w.number(), w.address(), tag, context);
      break;
    default: w.call("fi_tinjectdata", fi_tinjectdata, ep, w.local(), w.size(), w.number(), w.address(), tag); break;
  }
}

void use_remote_memory(World& w) {
  fid_ep* const ep = w.endpoint();
  if (ep == nullptr)
    return;
  void* const context = w.wild_pointer();
  void* const desc = w.wild_pointer();
  const fi_addr_t to = w.address();
  const uint64_t at = w.offset(), key = w.key(), data = w.number();
  switch (w.below(11)) {
    case 0: w.call("fi_read", fi_read, ep, w.local(), w.size(), desc, to, at, key, context); break;
    case 1: w.call("fi_readv", fi_readv, ep, w.pieces(), w.descriptors(), w.count(), to, at, key, context); break;
    case 2: w.call("fi_readmsg", fi_readmsg, ep, w.rma_message(), w.flags()); break;
    case 3:
    case 4: w.call("fi_write", fi_write, ep, w.local(), w.size(), desc, to, at, key, context); break;
    case 5: w.call("fi_writev", fi_writev, ep, w.pieces(), w.descriptors(), w.count(), to, at, key, context); break;
    case 6:
    case 7: w.call("fi_writemsg", fi_writemsg, ep, w.rma_message(), w.flags()); break;
    case 8: w.call("fi_inject_write", fi_inject_write, ep, w.local(), w.size(), to, at, key); break;
    case 9: w.call("fi_writedata", fi_writedata, ep, w.local(), w.size(), desc, data, to, at, key, context); break;
    default: w.call("fi_inject_writedata", fi_inject_writedata, ep, w.local(), w.size(), data, to, at, key); break;
  }
}

void use_atomics(World& w) {
  fid_ep* const ep = w.endpoint();
  if (ep == nullptr)
    return;
  void* const context = w.wild_pointer();
  void* const desc = w.wild_pointer();
  const fi_addr_t to = w.address();
  const uint64_t at = w.offset(), key = w.key();
  const fi_datatype type = w.datatype();
  const fi_op op = w.op();
  size_t count = 0;
  switch (w.below(13)) {
    case 0: w.call("fi_atomic", fi_atomic, ep, w.local(), w.count(), desc, to, at, key, type, op, context); break;
    case 1:
      w.call("fi_atomicv", fi_atomicv, ep, w.operands(), w.descriptors(), w.count(), to, at, key, type, op, context);
      break;
    case 2: w.call("fi_atomicmsg", fi_atomicmsg, ep, w.atomic_message(), w.flags()); break;
    case 3: w.call("fi_inject_atomic", fi_inject_atomic, ep, w.local(), w.count(), to, at, key, type, op); break;
    case 4:
      w.call("fi_fetch_atomic", fi_fetch_atomic, ep, w.local(), w.count(), desc, w.local(), desc, to, at, key, type, op,
             context);
      break;
    case 5:
      w.call("fi_fetch_atomicv", fi_fetch_atomicv, ep, w.operands(), w.descriptors(), w.count(), w.operands(),
             w.descriptors(), w.count(), to, at, key, type, op, context);
      break;
    case 6:
      w.call("fi_fetch_atomicmsg", fi_fetch_atomicmsg, ep, w.atomic_message(), w.operands(), w.descriptors(), w.count(),
             w.flags());
      break;
    case 7:
      w.call("fi_compare_atomic", fi_compare_atomic, ep, w.local(), w.count(), desc, w.local(), desc, w.local(), desc,
             to, at, key, type, op, context);
      break;
    case 8:
      w.call("fi_compare_atomicv", fi_compare_atomicv, ep, w.operands(), w.descriptors(), w.count(), w.operands(),
             w.descriptors(), w.count(), w.operands(), w.descriptors(), w.count(), to, at, key, type, op, context);
      break;
    case 9:
      w.call("fi_compare_atomicmsg", fi_compare_atomicmsg, ep, w.atomic_message(), w.operands(), w.descriptors(),
             w.count(), w.operands(), w.descriptors(), w.count(), w.flags());
      break;
    case 10: w.call("fi_atomicvalid", fi_atomicvalid, ep, type, op, w.or_null(&count)); break;
    case 11: w.call("fi_fetch_atomicvalid", fi_fetch_atomicvalid, ep, type, op, w.or_null(&count)); break;
    default: w.call("fi_compare_atomicvalid", fi_compare_atomicvalid, ep, type, op, w.or_null(&count)); break;
  }
}

void use_collectives(World& w) {
  fid_ep* const ep = w.endpoint();
  if (ep == nullptr)
    return;
  void* const context = w.wild_pointer();
  std::byte* const from = w.local();
  std::byte* const to = w.local();
  const size_t count = w.size();
  const fi_addr_t group = w.address(), root = w.address();
  const fi_datatype type = w.datatype();
  const fi_op op = w.op();
  const uint64_t flags = w.flags();
  fid_mc* joined = nullptr;
  switch (w.below(11)) {
    case 0: w.call("fi_barrier", fi_barrier, ep, group, context); break;
    case 1: w.call("fi_barrier2", fi_barrier2, ep, group, flags, context); break;
    case 2: w.call("fi_broadcast", fi_broadcast, ep, from, count, nullptr, group, root, type, flags, context); break;
    case 3:
      w.call("fi_alltoall", fi_alltoall, ep, from, count, nullptr, to, nullptr, group, type, flags, context);
      break;
    case 4:
      w.call("fi_allreduce", fi_allreduce, ep, from, count, nullptr, to, nullptr, group, type, op, flags, context);
      break;
    case 5:
      w.call("fi_allgather", fi_allgather, ep, from, count, nullptr, to, nullptr, group, type, flags, context);
      break;
    case 6:
      w.call("fi_reduce_scatter", fi_reduce_scatter, ep, from, count, nullptr, to, nullptr, group, type, op, flags,
             context);
      break;
    case 7:
      w.call("fi_reduce", fi_reduce, ep, from, count, nullptr, to, nullptr, group, root, type, op, flags, context);
      break;
    case 8:
      w.call("fi_scatter", fi_scatter, ep, from, count, nullptr, to, nullptr, group, root, type, flags, context);
      break;
    case 9:
      w.call("fi_gather", fi_gather, ep, from, count, nullptr, to, nullptr, group, root, type, flags, context);
      break;
    default:
      EXPECT_NE(w.call("fi_join", fi_join, ep, w.local(), flags, &joined, context), 0);
      EXPECT_NE(w.call("fi_join_collective", fi_join_collective, ep, group, nullptr, flags, &joined, context), 0);
      break;
  }
}

// ---- Regions

void open_region(World& w) {
  fid_domain* const domain = w.domain();
  if (domain == nullptr || w.regions.size() >= 10)
    return;
  // What is not there wraps around: nothing that is registered may reach it.
  const size_t sizes[] = {0, 8, 4096, World::kMaxMessage, SIZE_MAX, SIZE_MAX - 8};
  const iovec piece = {w.or_null(w.target()), w.one_in(4) ? w.pick(sizes) : World::kMaxMessage};
  iovec pieces[World::kListed] = {piece, piece, piece, piece};
  const uint64_t access = w.one_in(4) ? w.flags() : FI_REMOTE_WRITE | FI_REMOTE_READ | FI_WRITE | FI_READ;
  const uint64_t offset = w.one_in(8) ? w.number() : 0, key = w.number();
  const uint64_t flags = w.one_in(8) ? w.flags() : 0;
  fi_mr_attr attributes = {};
  attributes.mr_iov = w.or_null(pieces);
  attributes.iov_count = w.count();
  attributes.access = access;
  attributes.offset = offset;
  attributes.requested_key = key;
  if (w.one_in(6))
    attributes.iface = w.enumeration<fi_hmem_iface>(FI_HMEM_SYNAPSEAI);
  w.note("memory", piece.iov_base, piece.iov_len, "count", attributes.iov_count, "iface", attributes.iface);
  fid_mr* const region = w.opened<fid_mr>([&](fid_mr** out) {
    switch (w.below(4)) {
      case 0:
        return w.call("fi_mr_regv", fi_mr_regv, domain, attributes.mr_iov, attributes.iov_count, access, offset, key,
                      flags, out, w.wild_pointer());
      case 1: return w.call("fi_mr_regattr", fi_mr_regattr, domain, w.or_null(&attributes), flags, out);
      default:
        return w.call("fi_mr_reg", fi_mr_reg, domain, piece.iov_base, piece.iov_len, access, offset, key, flags, out,
                      w.wild_pointer());
    }
  });
  w.keep(w.regions, region, domain, "mr");
}

// In CXI's order.
void open_whole_region(World& w) {
  fid_domain* const domain = w.domain();
  fid_ep* const endpoint = w.endpoint();
  fid_cntr* const counter = w.counter();
  if (domain == nullptr || endpoint == nullptr || w.regions.size() >= 10)
    return;
  fid_mr* region = nullptr;
  if (w.call("fi_mr_reg", fi_mr_reg, domain, w.target(), World::kMaxMessage, FI_REMOTE_WRITE | FI_REMOTE_READ,
             uint64_t{0}, w.below(100), uint64_t{0}, &region, nullptr) != 0)
    return;
  w.keep(w.regions, region, domain, "mr");
  w.call("fi_mr_bind", fi_mr_bind, region, &endpoint->fid, uint64_t{0});
  if (counter != nullptr && w.one_in(2))
    w.call("fi_mr_bind", fi_mr_bind, region, &counter->fid, FI_REMOTE_WRITE);
  w.call("fi_mr_enable", fi_mr_enable, region);
}

void use_region(World& w) {
  fid_mr* const region = w.region();
  if (region == nullptr)
    return;
  uint64_t base = 0;
  size_t bytes = w.below(40);
  const auto key = exactly(bytes);
  switch (w.below(6)) {
    case 0:
    case 1:
      if (fid* const other = w.object())
        w.call("fi_mr_bind", fi_mr_bind, region, w.or_null(other), w.one_in(2) ? w.flags() : FI_REMOTE_WRITE);
      break;
    case 2: w.call("fi_mr_enable", fi_mr_enable, region); break;
    case 3: w.call("fi_mr_refresh", fi_mr_refresh, region, w.pieces(), w.count(), w.flags()); break;
    case 4:
      w.call("fi_mr_raw_attr", fi_mr_raw_attr, region, w.or_null(&base),
             w.or_null(reinterpret_cast<uint8_t*>(key.get())), w.or_null(&bytes), w.flags());
      break;
    default:
      w.call("fi_mr_key", fi_mr_key, region);
      w.call("fi_mr_desc", fi_mr_desc, region);
      break;
  }
}

// ---- Deferred work

void queue_work(World& w) {
  if (!w.has(w.counters))
    open_counter(w);
  if (!w.has(w.endpoints))
    open_whole_endpoint(w);
  if (!w.has(w.regions))
    open_whole_region(w);
  fid_domain* const domain = w.domain();
  if (domain == nullptr)
    return;
  fi_deferred_work work = {};
  work.threshold = w.number();
  work.triggering_cntr = w.or_null(w.counter());
  if (w.one_in(2))
    work.completion_cntr = w.counter();
  // An object of another kind says so by its class.
  if (w.one_in(60) && w.queue() != nullptr)
    work.triggering_cntr = reinterpret_cast<fid_cntr*>(w.queue());
  work.op_type = w.one_in(3) ? w.enumeration<fi_op_type>(FI_OP_CNTR_ADD)
                             : w.pick({FI_OP_WRITE, FI_OP_WRITE, FI_OP_ATOMIC, FI_OP_FETCH_ATOMIC, FI_OP_COMPARE_ATOMIC,
                                       FI_OP_CNTR_ADD, FI_OP_CNTR_SET});
  fid_ep* ep = w.or_null(w.endpoint());
  if (w.one_in(60))
    ep = reinterpret_cast<fid_ep*>(w.counter());
  const uint64_t flags = w.flags();

  fi_op_msg message = {ep, {}, flags};
  fi_op_tagged tagged = {ep, {}, flags};
  fi_op_rma rma = {ep, {}, flags};
  fi_op_compare_atomic compare = {ep, {}, {}, {}, flags};
  fi_op_cntr counter = {w.or_null(w.counter()), w.number()};
  switch (static_cast<int>(work.op_type)) {
    case FI_OP_RECV:
    case FI_OP_SEND:
      if (const fi_msg* drawn = w.message())
        message.msg = *drawn;
      work.op.msg = w.or_null(&message);
      break;
    case FI_OP_TRECV:
    case FI_OP_TSEND:
      if (const fi_msg_tagged* drawn = w.tagged_message())
        tagged.msg = *drawn;
      work.op.tagged = w.or_null(&tagged);
      break;
    case FI_OP_CNTR_SET:
    case FI_OP_CNTR_ADD:
      w.note("counter", counter.cntr, counter.value);
      work.op.cntr = w.or_null(&counter);
      break;
    case FI_OP_ATOMIC:
    case FI_OP_FETCH_ATOMIC:
    case FI_OP_COMPARE_ATOMIC: break;
    default:
      if (const fi_msg_rma* drawn = w.rma_message())
        rma.msg = *drawn;
      work.op.rma = w.or_null(&rma);
      break;
  }
  if (const fi_msg_atomic* drawn = w.atomic_message())
    compare.msg = *drawn;
  compare.fetch = {w.operands(), w.descriptors(), w.count()};
  compare.compare = {w.operands(), w.descriptors(), w.count()};
  fi_op_fetch_atomic fetch = {ep, compare.msg, compare.fetch, flags};
  fi_op_atomic atomic = {ep, compare.msg, flags};
  if (work.op_type == FI_OP_ATOMIC)
    work.op.atomic = w.or_null(&atomic);
  else if (work.op_type == FI_OP_FETCH_ATOMIC)
    work.op.fetch_atomic = w.or_null(&fetch);
  else if (work.op_type == FI_OP_COMPARE_ATOMIC)
    work.op.compare_atomic = w.or_null(&compare);
  w.note("type", work.op_type, "on", work.triggering_cntr, ">=", work.threshold, "then", work.completion_cntr, "by", ep,
         "flags", flags);
  w.call("fi_control(FI_QUEUE_WORK)", fi_control, &domain->fid, static_cast<int>(FI_QUEUE_WORK),
         static_cast<void*>(w.or_null(&work)));
  if (w.one_in(20))
    w.call("fi_control(FI_CANCEL_WORK)", fi_control, &domain->fid, static_cast<int>(FI_CANCEL_WORK),
           static_cast<void*>(w.or_null(&work)));
}

void close_something(World& w) {
  switch (w.below(24)) {
    case 0: w.close_one(w.fabrics); break;
    case 1: w.close_one(w.domains); break;
    case 2:
    case 3:
    case 4: w.close_one(w.vectors); break;
    case 5:
    case 6:
    case 7: w.close_one(w.queues); break;
    case 8:
    case 9:
    case 10:
    case 11:
    case 12: w.close_one(w.counters); break;
    case 13:
    case 14:
    case 15:
    case 16: w.close_one(w.endpoints); break;
    case 17: w.close_one(w.event_queues); break;
    default: w.close_one(w.regions); break;
  }
}

struct Action {
  unsigned weight;
  void (*act)(World&);
};
constexpr Action kActions[] = {
    {1, getinfo},
    {1, open_fabric},
    {3, open_domain},
    {1, open_event_queue},
    {1, use_event_queue},
    {2, open_others},
    {3, open_vector},
    {3, open_queue},
    {8, open_counter},
    {3, open_endpoint},
    {8, open_whole_endpoint},
    {4, use_domain},
    {4, open_tables},
    {8, use_vector},
    {14, use_queue},
    {20, use_counter},
    {3, control},
    {10, use_endpoint},
    {5, use_messages},
    {5, use_tagged_messages},
    {20, use_remote_memory},
    {20, use_atomics},
    {3, use_collectives},
    {5, open_region},
    {8, open_whole_region},
    {6, use_region},
    {40, queue_work},
    {14, close_something},
};

}  // namespace

void open_world(FuzzWorld& world) {
  open_fabric(world);
  for (int i = 0; i < 2; ++i) {
    open_domain(world);
    world.move();
    open_whole_endpoint(world);
    for (int j = 0; j < 3; ++j)
      open_counter(world);
    open_whole_region(world);
  }
}

void make_wild_call(FuzzWorld& world) {
  world.move();
  world.tame();
  unsigned sum = 0;
  for (const Action& action : kActions)
    sum += action.weight;
  uint64_t at = world.below(sum);
  for (const Action& action : kActions) {
    if (at < action.weight)
      return action.act(world);
    at -= action.weight;
  }
}

}  // namespace lanyard
