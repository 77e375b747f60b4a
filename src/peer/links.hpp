// A peer's links: from a dial or a stranger's to a Hello that both ends accept, the messages on
// them, and who is sent away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "membership/core.hpp"
#include "peer/agreement.hpp"
#include "peer/config.hpp"
#include "peer/events.hpp"
#include "peer/known_addresses.hpp"
#include "peer/neighbours.hpp"
#include "peer/served_run.hpp"
#include "peer/whole.hpp"
#include "reach/core.hpp"

namespace starling::peer {

/// How long a new link may be silent before its Hello.
inline constexpr base::Duration kHelloTimeout = std::chrono::seconds(5);
/// Between the two ends of a link of this peer with itself.
inline constexpr base::Duration kBothEndsTold = std::chrono::seconds(2);
/// Links, those without a Hello and those on their way out included; further ones are closed.
inline constexpr std::size_t kConnectionsMax = 256;

class Links {
 public:
  /// The other parts of the peer; all of them outlive this.
  struct Parts {
    const Config& config;
    const reach::Core& reach;
    const Agreement& agreement;
    const Neighbours& neighbours;
    membership::Core& membership;
    KnownAddresses& known;
    Whole& whole;
  };
  struct Link {
    base::PeerId peer;
    bool dialed = false;
    std::string address;
    std::string observed;       ///< the other end's address as seen here; empty: as LinkUp has it
    base::LinkId via;           ///< over a circuit: the link with the relay
    bool wanted = false;        ///< it is the outcome of a dial that membership asked for
    std::uint64_t answers = 0;  ///< the other end asked to be dialed, by this introduction
    bool ready = false;         ///< Hello accepted
    bool closing = false;
    bool told_run_file = false;  ///< a relay, of its run
    base::Time hello_until;      ///< not ready: time at which it is closed
  };

  explicit Links(const Parts& parts);

  // Events.
  void on(LinkUp& event, base::Time now, Outbox& out);
  void on(LinkDown& event, base::Time now, Outbox& out);
  void on(DialFailed& event, base::Time now, Outbox& out);
  void on(Received& event, base::Time now, Outbox& out);
  void on(const Arriving& event, base::Time now, Outbox& out);
  void on(Unreadable& event, base::Time now, Outbox& out);
  void on(const Agreement::Misbehaved& who, base::Time now, Outbox& out);
  void on(const Agreement::NoRoom& who, base::Time now, Outbox& out);
  /// Closes new links that have said no Hello in time.
  void close_silent(base::Time now, Outbox& out);

  [[nodiscard]] const ServedRun& run() const noexcept { return run_; }
  /// Null: no such link.
  [[nodiscard]] const Link* find(base::LinkId link) const;
  [[nodiscard]] std::size_t count() const noexcept { return links_.size(); }
  /// Calls `visit(until)` for each link that waits for a Hello.
  template <class Visit>
  void visit_silent(const Visit& visit) const {
    for (const auto& [id, link] : links_) {
      if (!link.ready && !link.closing) visit(link.hello_until);
    }
  }

 private:
  void meet_itself(const LinkUp& event, base::Time now, Outbox& out);
  void say_hello(base::LinkId id, const Link& link, Outbox& out) const;
  void on_hello(base::LinkId id, Link& link, wire::Hello& hello, base::Time now, Outbox& out);
  void find_run(const wire::Hello& hello, Outbox& out);
  void make_ready(base::LinkId id, Link& link, wire::Hello& hello, base::Time now, Outbox& out);
  void on_refuse(base::LinkId id, const Link& link, const wire::Refuse& refusal, base::Time now,
                 Outbox& out);
  void on_run_file_request(base::LinkId id, Link& link, Outbox& out);
  /// Whether it was asked by a relay, for the first time on this link.
  [[nodiscard]] bool tell_run_file(base::LinkId id, Link& link, Outbox& out) const;
  /// Takes a message of a ready link to its part.
  void pass_on(base::LinkId id, const base::PeerId& peer, Received& event, base::Time now,
               Outbox& out);
  void misbehaved(base::LinkId id, const base::PeerId& peer, const std::string& text,
                  base::Time now, Outbox& out);
  void end_link(const membership::LinkLost& lost, wire::Bye bye, base::Time now, Outbox& out);
  [[nodiscard]] bool is_any_ready() const;

  Parts parts_;
  ServedRun run_;
  std::map<base::LinkId, Link> links_;
  bool reported_duplicate_key_ = false;
  std::optional<base::Time> dialed_itself_;  ///< the last time that an own dial led to this peer
};

}  // namespace starling::peer
