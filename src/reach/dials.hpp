// The dials that have no outcome yet, and why each was made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bound.hpp"
#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "reach/event.hpp"
#include "reach/limits.hpp"

namespace starling::reach {

struct Dialing {
  enum class Purpose : std::uint8_t {
    want,   ///< for membership
    meet,   ///< a wanted member, at an address that membership did not name
    back,   ///< an introduced member asked for it
    probe,  ///< a member wants to know whether it can be dialed
  };
  Purpose purpose = Purpose::want;
  std::string address;
  std::optional<base::PeerId> peer{};
  std::uint64_t nonce = 0;                ///< back, probe: of the request for it
  base::LinkId link{};                    ///< probe: the answer goes there
  std::optional<base::Time> answer_by{};  ///< probe: not answered yet
  bool told = false;                      ///< want: membership has its outcome
};

class Dials {
 public:
  /// False: there is no room for it.
  bool start(Dialing dialing, DialKind kind, Outbox& out);
  /// The dial that has an outcome now: the first one to this address, and for this peer if one is
  /// given. Nothing: none is known.
  std::optional<Dialing> take(const std::string& address,
                              const std::optional<base::PeerId>& peer = std::nullopt);
  /// Membership has the outcome of this Want.
  void set_told(const std::string& address);
  /// The probes that have to be answered by now. They still wait for their own outcome.
  std::vector<Dialing> late_probes(base::Time now);

  [[nodiscard]] bool empty() const noexcept { return dials_.empty(); }
  /// Whether the next outcome at this address is that of a Want, or of nothing that is known.
  [[nodiscard]] bool is_wanted(const std::string& address) const;
  [[nodiscard]] std::size_t count(Dialing::Purpose purpose) const;

  void add_bounds(base::Bounds& out) const {
    out.add("dials that reach waits for", dials_.size(), kDialsMax);
    out.add("dials for others", for_others(), kBacksMax);
    out.add("dials back", count(Dialing::Purpose::probe), kProbesMax);
  }
  /// Calls visit(what, at, limit) for each time at which expire() has something to do.
  template <class Visit>
  void visit_timers(const Visit& visit) const {
    for (const Dialing& dialing : dials_) {
      visit("the answer to a probe", dialing.answer_by, kProbeTime);
    }
  }

 private:
  [[nodiscard]] std::size_t for_others() const;

  std::vector<Dialing> dials_;  ///< in order of their start
};

}  // namespace starling::reach
