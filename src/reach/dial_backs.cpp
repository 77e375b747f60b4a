#include "reach/dial_backs.hpp"

#include "base/ip.hpp"
#include "base/simulated.hpp"
#include "reach/network.hpp"

namespace starling::reach {

using wire::DialBackOutcome;

void DialBacks::on_ask(base::LinkId from, const wire::DialBack& ask, const Call& call) {
  Link& link = links_.at(from);
  Dialing probe{.purpose = Dialing::Purpose::probe,
                .peer = link.peer,
                .nonce = ask.nonce,
                .link = from,
                .answer_by = call.now + kProbeTime};
  auto seen = host_port(link.observed);
  if (SIM_BUG(dialed_back_elsewhere)) {
    for (const auto& [id, other] : links_.all()) {
      if (id != from && other.is_direct()) seen = host_port(other.observed);
    }
  }
  const bool may = link.is_direct() && seen && dials_.count(probe.purpose) < kProbesMax &&
                   link.dial_backs.take(call.now) && all_.take(call.now);
  if (may) probe.address = base::to_address(seen->host, ask.port);
  if (!may || !dials_.start(probe, DialKind::direct, call.out)) {
    answer(probe, DialBackOutcome::busy, call.out);
  }
}

void DialBacks::answer(const Dialing& probe, DialBackOutcome outcome, Outbox& out) {
  if (!probe.answer_by || !links_.contains(probe.link)) return;
  out.push_back(
      Send{probe.link, wire::DialedBack{probe.nonce, outcome, links_.at(probe.link).observed}});
}

void DialBacks::expire(const Call& call) {
  for (const Dialing& probe : dials_.late_probes(call.now)) {
    answer(probe, DialBackOutcome::failed, call.out);
  }
}

}  // namespace starling::reach
