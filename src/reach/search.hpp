// Looks for a link with each wanted member: dials it, is introduced to it, and calls a relay at
// last. Simultaneous dials: after libp2p's DCUtR (Seemann, Inden, Vyzovitis, "Decentralized Hole
// Punching", DINPS 2022).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "reach/circuits.hpp"
#include "reach/dials.hpp"
#include "reach/limits.hpp"
#include "reach/links.hpp"
#include "reach/members.hpp"
#include "reach/own_reach.hpp"

namespace starling::reach {

class Search {
 public:
  /// All of them outlive this.
  struct Parts {
    const base::PeerId& self;
    const Links& links;
    Dials& dials;
    const OwnReach& own;
    Circuits& circuits;
    base::Rng& rng;
  };
  explicit Search(const Parts& parts) : parts_(parts) {}

  void want(const Want& event, const Call& call);
  /// For a direct path to a member that is linked over a circuit.
  void look_for_path(const base::PeerId& peer, const Call& call);

  /// The dial of a Want has failed; `peer` as wanted.
  void on_dial_failed(const std::optional<base::PeerId>& peer, const DialFailed& event,
                      const Call& call);
  /// `peer` answered this dial for a Want, or at another address of a wanted member.
  void on_answered(const Dialing& dialing, const base::PeerId& peer, base::Time now);
  /// A link with a wanted member: nothing else is tried. A dial that is still under way has its own
  /// outcome.
  void on_link(const LinkReady& link, const Call& call);
  void on_moved() { unmet_.clear(); }
  /// The member in common, or the wanted one through it, has answered.
  void on_introduced(base::LinkId from, const wire::Introduce& answer, const Call& call);
  void on_relay_accepts(const CircuitName& name, const Call& call);
  void on_relay_refuses(const CircuitName& name, wire::CircuitRefusal reason, const Call& call);
  void on_circuit_ended(const CircuitName& name, const Call& call);
  /// The other end asks for a link, too. If this peer looks for one as well, the smaller id leads:
  /// true if it is this one's; otherwise, this peer gives up.
  bool leads(const base::PeerId& other, const Call& call);

  void expire(const Call& call);
  /// The address of the Want for this member, if other ways to it are looked for.
  [[nodiscard]] std::string address_of(const base::PeerId& peer) const;

  void add_bounds(base::Bounds& out) const {
    out.add("members looked for", attempts_.size(), kAttemptsMax);
    out.add("members whose dials failed", failed_.size(), kFailedMax);
    out.add("members that were not met", unmet_.size(), kUnmetMax);
  }
  /// Calls visit(what, at, limit) for each time at which expire() has something to do.
  template <class Visit>
  void visit_timers(const Visit& visit) const {
    for (const auto& [key, attempt] : attempts_) {
      visit("the next step to a member", attempt.next_at, kAttemptTime);
      visit("dials at the same moment", attempt.punch_at, kAttemptTime);
      visit("the end of looking for a member", attempt.expires, kAttemptTime);
    }
  }

 private:
  /// A member that has a direct link with the wanted one, too.
  struct Common {
    base::LinkId link;
    base::Duration round_trip{};  ///< over it to the wanted one and back
    std::uint8_t load = 0;
    bool called = false;  ///< for a circuit
  };
  struct Introduction {
    std::uint64_t nonce = 0;  ///< 0: none yet
    base::Time asked_at{};
    std::size_t unanswered = 0;  ///< links that were asked
    std::vector<Common> commons{};
    std::string observed{};  ///< the wanted member's address, as one of them sees it
  };
  enum class Stage : std::uint8_t {
    direct,   ///< only dialed
    asking,   ///< asking for members in common
    meeting,  ///< dialed back, or simultaneously
    calling,  ///< calling a relay
    opening,  ///< opening a circuit
  };
  struct Attempt {
    base::PeerId peer;
    bool upgrade = false;  ///< it is linked over a circuit
    bool dialing = false;  ///< the direct dial has no outcome yet
    Stage stage = Stage::direct;
    std::optional<base::Time> next_at{};   ///< of the stage's next step
    std::optional<base::Time> punch_at{};  ///< of this end's dials in this try
    base::Time expires;
    Introduction introduction{};
    int tries = 0;
    CircuitName circuit{};  ///< calling and opening
    std::string text{};     ///< why the last way failed
    bool no_route = false;  ///< of the direct dial
  };
  using Attempts = std::map<std::string, Attempt>;

  void ask(Attempts::iterator at, const Call& call);
  /// Whether no more simultaneous dials are to be tried.
  [[nodiscard]] bool is_tried(const Attempt& attempt, base::Time now);
  void next_try(Attempts::iterator at, const Call& call);
  void punch(Attempt& attempt, const Call& call);
  void call_relay(Attempts::iterator at, const Call& call);
  void next_step(Attempts::iterator at, const Call& call);
  /// Only the direct dial is left, if it is still under way. `text` says why, if nothing else does.
  void give_up(Attempts::iterator at, const char* text, const Call& call);
  void fail(Attempts::iterator at, bool own, const Call& call);
  /// The attempt to which this circuit belongs, at this stage; otherwise the end.
  [[nodiscard]] Attempts::iterator attempt_over(const CircuitName& name, Stage stage);
  [[nodiscard]] bool needs_help(const base::PeerId& peer, const Call& call) const;

  Parts parts_;
  Attempts attempts_;  ///< by the address of the Want; an upgrade has no address
  std::map<base::PeerId, base::Time> failed_;  ///< direct dials failed; until when this counts
  std::map<base::PeerId, base::Time> unmet_;   ///< all tries failed; until when this counts
};

}  // namespace starling::reach
