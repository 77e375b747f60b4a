// Dials other members back, so that they learn whether they can be dialed. After libp2p's AutoNAT.
#pragma once

#include "reach/allowance.hpp"
#include "reach/dials.hpp"
#include "reach/limits.hpp"
#include "reach/links.hpp"
#include "reach/members.hpp"

namespace starling::reach {

class DialBacks {
 public:
  /// Both outlive this.
  DialBacks(Links& links, Dials& dials) : links_(links), dials_(dials) {}

  /// Dials only the address from which this link comes.
  void on_ask(base::LinkId from, const wire::DialBack& ask, const Call& call);
  /// The outcome of a dial for another member.
  void answer(const Dialing& probe, wire::DialBackOutcome outcome, Outbox& out);
  void expire(const Call& call);

 private:
  Links& links_;
  Dials& dials_;
  Allowance all_{kDialBacksAll, kDialBacksAllBurst};
};

}  // namespace starling::reach
