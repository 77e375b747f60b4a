// The links of a transport in numbered places, and how many strangers may have one. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/ip.hpp"
#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "io/fabrics.hpp"
#include "io/link.hpp"
#include "io/transport.hpp"

namespace starling::io {

class LinkTable {
 public:
  /// A link, and the transport's notes on it.
  struct Slot {
    std::uint32_t generation = 0;
    std::unique_ptr<Link> link;
    /// Reported to the handler.
    bool up_reported = false;
    bool down_reported = false;
    bool accepted = false;  ///< by Transport::accept()
    Fabrics::Talk talk{};
    std::optional<base::Ip> came_from{};  ///< of a connection that came in
    /// The peer that must be at the other end; if absent, any peer.
    std::optional<base::PeerId> expected{};
    std::optional<base::IpPort> punches{};  ///< where the dial from the listening port goes
    base::LinkId via{};                     ///< over a circuit: the link with the relay
    bool opened = false;                    ///< over a circuit: by this end
  };

  /// `config` outlives this.
  explicit LinkTable(const TransportConfig& config) : config_(config) {}

  /// A free place; nothing: there are links_max links. It stays free until begin().
  [[nodiscard]] std::optional<std::uint32_t> free_place();
  /// A link begins; `dial`: its number, 0 if the other end has dialed. References to slots stay
  /// valid.
  Slot& begin(std::uint32_t place, std::uint64_t dial, std::string address,
              std::unique_ptr<Bootstrap> bootstrap);
  /// Releases a link that is gone.
  void end(Slot& slot);

  /// All places, free ones included.
  [[nodiscard]] std::deque<Slot>& slots() noexcept { return slots_; }
  /// The slot of a link that find() has found.
  [[nodiscard]] Slot& at(base::LinkId id) { return slots_[id.slot]; }
  [[nodiscard]] const Slot& at(base::LinkId id) const { return slots_[id.slot]; }
  /// A link that is reported to be up and not down; otherwise null.
  [[nodiscard]] Link* find(base::LinkId id) const;
  [[nodiscard]] std::size_t size() const;
  /// Whether there is a place for a stranger from this host.
  [[nodiscard]] bool may_come(const base::Ip& from) const;
  /// Of all links since the start.
  [[nodiscard]] LinkTraffic traffic() const;
  /// When the first link or awaited carrier is late.
  [[nodiscard]] base::Time deadline() const;

 private:
  const TransportConfig& config_;
  std::deque<Slot> slots_;
  LinkTraffic past_;  ///< of links that are gone
};

}  // namespace starling::io
