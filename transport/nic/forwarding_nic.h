// ForwardingNic: a NIC that passes every call to another one. Decorators derive from it and
// override the calls they change.
#ifndef LANYARD_TRANSPORT_NIC_FORWARDING_NIC_H_
#define LANYARD_TRANSPORT_NIC_FORWARDING_NIC_H_

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "transport/nic/nic.h"

namespace lanyard::nic {

// Threads, errors and blocking: as the inner NIC, which must outlive this one or belong to it.
class ForwardingNic : public Nic {
 public:
  explicit ForwardingNic(Nic& inner) : inner_(&inner) {}
  explicit ForwardingNic(std::unique_ptr<Nic> inner) : owned_(std::move(inner)), inner_(owned_.get()) {}
  ForwardingNic(const ForwardingNic&) = delete;
  ForwardingNic& operator=(const ForwardingNic&) = delete;

  const Caps& caps() const override { return inner_->caps(); }
  Address address() const override { return inner_->address(); }
  Status set_peers(std::span<const Address> peers, uint32_t self) override { return inner_->set_peers(peers, self); }
  Status add_peer(uint32_t peer, const Address& address) override { return inner_->add_peer(peer, address); }

  Result<CounterId> open_counter() override { return inner_->open_counter(); }
  Status close_counter(CounterId counter) override { return inner_->close_counter(counter); }
  Result<CounterValue> read(CounterId counter) override { return inner_->read(counter); }
  Status add(CounterId counter, uint64_t value) override { return inner_->add(counter, value); }
  Status add_error(CounterId counter, uint32_t value) override { return inner_->add_error(counter, value); }
  Status reset(CounterId counter) override { return inner_->reset(counter); }
  Status listen(CounterId counter, Listener listener) override { return inner_->listen(counter, listener); }
  Result<Doorbell> doorbell(CounterId counter, DoorbellKind kind) override { return inner_->doorbell(counter, kind); }

  Result<RegionId> register_region(void* base, uint64_t bytes, CounterId remote_write = {}) override {
    return inner_->register_region(base, bytes, remote_write);
  }
  Status deregister_region(RegionId region) override { return inner_->deregister_region(region); }
  Result<RemoteKey> key(RegionId region) const override { return inner_->key(region); }

  Status post(std::span<const DeferredOp> ops) override { return inner_->post(ops); }
  Result<PreparedId> prepare(const Op& op) override { return inner_->prepare(op); }
  Status post_prepared(std::span<const Posting> postings) override { return inner_->post_prepared(postings); }
  Status release(PreparedId prepared) override { return inner_->release(prepared); }
  Status issue(const Op& op) override { return inner_->issue(op); }
  uint32_t free_entries() const override { return inner_->free_entries(); }
  Status cancel(CounterId trigger) override { return inner_->cancel(trigger); }
  Status flush() override { return inner_->flush(); }

  size_t progress() override { return inner_->progress(); }
  uint64_t activity() const override { return inner_->activity(); }
  void wait_since(uint64_t seen, Nanoseconds timeout) override { inner_->wait_since(seen, timeout); }
  void attend() override { inner_->attend(); }
  void leave() override { inner_->leave(); }
  std::optional<FailureRecord> take_failure() override { return inner_->take_failure(); }
  Usage usage() const override { return inner_->usage(); }
  uint64_t lost_peers() const override { return inner_->lost_peers(); }
  bool is_lost(uint32_t peer) const override { return inner_->is_lost(peer); }
  std::string why_lost(uint32_t peer) const override { return inner_->why_lost(peer); }
  uint64_t failures() const override { return inner_->failures(); }
  bool confirms(std::span<const ContextStarts> starts) override { return inner_->confirms(starts); }

 protected:
  Nic& inner() const { return *inner_; }

 private:
  std::unique_ptr<Nic> owned_;
  Nic* inner_;
};

}  // namespace lanyard::nic

#endif  // LANYARD_TRANSPORT_NIC_FORWARDING_NIC_H_
