// The links of a peer and their roles. A change of role is told to the detector here, and to all
// that exchange with neighbours, so that nothing else needs to remember it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "membership/overlay/event.hpp"

namespace starling::membership {

struct Link {
  base::PeerId peer;
  bool dialed = false;  ///< whether this end dialed it
  std::string address;  ///< address that was dialed; empty: the other end dialed
  base::Time ready;
  Role role = Role::contact;
  base::Time role_ends;    ///< contact and requested: time at which it is closed
  std::uint64_t turn = 0;  ///< neighbours: which that this peer has had, in order
  bool relayed = false;    ///< over a circuit
  bool to_relay = false;   ///< the other end has no replica
  bool held = false;       ///< not to be closed as unused
  bool referred = false;   ///< the other end was told of members that may have a place for it
  // When it became ready:
  bool fits = false;       ///< the other end may be a neighbour
  bool was_there = false;  ///< the other end counted as alive, or its return was known
  bool replaces = false;   ///< it is direct, and there was a neighbour relation over a circuit
};

class Links {
 public:
  explicit Links(const wire::MemberRecord& self) : self_(self.id), is_relay_(!self.has_replica) {}

  void add(base::LinkId id, Link link, wire::MemberRecord other, OverlayOutbox& out);
  /// Closes links to the same peer that this one, a new one, takes the place of. True: one of them
  /// stays, and the new one is to be closed.
  [[nodiscard]] bool resolve_duplicates(base::LinkId id, const Link& link, base::Time now,
                                        OverlayOutbox& out);
  /// Whether this end's link outlasts a later one that the other end dialed.
  [[nodiscard]] bool stays(const Link& link, base::Time now) const;
  /// It is gone, or closed by this peer.
  void lose(base::LinkId id, LossReason reason, OverlayOutbox& out);
  void close(base::LinkId id, wire::ByeReason bye, LossReason reason, OverlayOutbox& out);

  /// No neighbours any more, or not yet; closed at `ends`.
  void make_contact(base::LinkId id, base::Time ends, OverlayOutbox& out);
  void request(base::LinkId id, bool urgent, base::Time now, OverlayOutbox& out);
  void make_neighbour(base::LinkId id, OverlayOutbox& out);
  /// They are neighbours no more; the link stays as a contact until `ends`.
  void end_neighbour(base::LinkId id, LossReason reason, base::Time ends, OverlayOutbox& out);
  void hold(base::LinkId id, bool on);
  /// Whether the other end was not told of other members yet; it is from now on.
  [[nodiscard]] bool take_referral(base::LinkId id);
  /// This peer stood still: all get as much more time.
  void extend(base::Duration pause);

  /// Null where there is no such link.
  [[nodiscard]] const Link* find(base::LinkId id) const;
  [[nodiscard]] const Link& at(base::LinkId id) const { return links_.at(id); }
  [[nodiscard]] auto begin() const { return links_.begin(); }
  [[nodiscard]] auto end() const { return links_.end(); }
  [[nodiscard]] std::size_t size() const noexcept { return links_.size(); }

  /// Links in this role, those with relays left out.
  [[nodiscard]] std::size_t count(Role role) const;
  /// Relays that this peer is linked with, or asked to be.
  [[nodiscard]] std::size_t relays() const;
  [[nodiscard]] bool is_linked(const base::PeerId& peer) const;
  /// A neighbour over a circuit, which a direct link with it replaces.
  [[nodiscard]] bool is_relayed_neighbour(const base::PeerId& peer) const;

 private:
  void set_role(base::LinkId id, Role role, base::Time ends, OverlayOutbox& out);
  /// Whether the two ends of this link exchange when they are neighbours.
  [[nodiscard]] bool exchanges(const Link& link) const { return !link.to_relay && !is_relay_; }

  base::PeerId self_;
  bool is_relay_;
  std::uint64_t neighbours_had_ = 0;
  std::map<base::LinkId, Link> links_;
};

}  // namespace starling::membership
