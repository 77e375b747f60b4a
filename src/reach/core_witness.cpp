// Core: finds out whether this peer can be dialed. It asks others to dial it back, and does so for
// them.
#include <algorithm>

#include <fmt/core.h>

#include "base/ip.hpp"
#include "base/simulated.hpp"
#include "reach/core.hpp"
#include "reach/network.hpp"

namespace starling::reach {

using wire::DialBackOutcome;
using wire::Reachability;

namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

}  // namespace

bool Core::is_own_network(const std::string& address) const {
  const std::string network = network_of(address);
  if (!outer_.empty() && network == network_of(outer_)) return true;
  return std::ranges::any_of(addresses_,
                             [&](const std::string& own) { return network_of(own) == network; });
}

// After a change, or with a witness of a new network: soon, but not too often.
void Core::ask_soon(base::Time now, base::Duration pause) {
  const bool enough = reach_ != Reachability::unknown && networks_.size() >= kWitnesses;
  if (enough || !witnesses_.empty()) return;
  if (reach_ != Reachability::unknown) {
    const bool news = std::ranges::any_of(links_, [&](const auto& entry) {
      const std::string& observed = entry.second.observed;
      return !entry.second.via.valid() && !observed.empty() && !is_own_network(observed) &&
             !contains(networks_, network_of(observed));
    });
    if (!news) return;
  }
  base::Time at = now + pause;
  if (asked_) at = std::max(at, *asked_ + kAskPause);
  ask_at_ = ask_at_ ? std::min(*ask_at_, at) : at;
}

// Asks two members of different networks other than its own; if none are linked, members nearby.
void Core::ask_witnesses(base::Time now, Outbox& out) {
  ask_at_.reset();
  if (!witnesses_.empty() || addresses_.empty()) return;
  const auto own = host_port(addresses_.front());
  if (!own) return;
  std::vector<base::LinkId> far;
  std::vector<base::LinkId> near;
  for (const auto& [id, link] : links_) {
    if (link.via.valid() || link.observed.empty()) continue;
    (is_own_network(link.observed) ? near : far).push_back(id);
  }
  if (far.empty() && !near.empty() && linked_since_ && now < *linked_since_ + kLocalAfter) {
    ask_at_ = *linked_since_ + kLocalAfter;
    return;
  }
  std::vector<base::LinkId>& asked = far.empty() ? near : far;
  if (asked.empty()) return;  // wait until a link comes up
  base::shuffle(asked, rng_);
  std::vector<std::string> networks;
  for (const base::LinkId id : asked) {
    const Link& link = links_.at(id);
    const std::string network = network_of(link.observed);
    if (witnesses_.size() == kWitnesses || contains(networks, network)) continue;
    networks.push_back(network);
    witnesses_.push_back(
        {.link = id, .peer = link.peer, .nonce = rng_(), .until = now + kWitnessWait});
    send(id, wire::DialBack{witnesses_.back().nonce, own->port}, out);
  }
  networks_ = std::move(networks);
  asked_ = now;
}

void Core::on_message(base::LinkId from, const wire::DialedBack& answer, const Members&,
                      base::Time now, Outbox& out) {
  const auto witness = std::ranges::find_if(witnesses_, [&](const Witness& asked) {
    return asked.link == from && asked.nonce == answer.nonce;
  });
  if (witness == witnesses_.end() || witness->outcome != DialBackOutcome::none) return;
  witness->outcome = answer.outcome;
  witness->observed = answer.observed;
  conclude_if_told(now, out);
}

void Core::conclude_if_told(base::Time now, Outbox& out) {
  if (witnesses_.empty()) return;
  const bool told = std::ranges::all_of(witnesses_, [&](const Witness& witness) {
    return witness.outcome != DialBackOutcome::none || witness.until <= now;
  });
  if (told) conclude(now, out);
}

// A witness that reached this peer outweighs one that did not: the latter's own line may be the
// cause. A false word only causes dials that fail.
void Core::conclude(base::Time now, Outbox& out) {
  const Witness* reached = nullptr;
  const Witness* failed = nullptr;
  std::string names;
  for (const Witness& witness : witnesses_) {
    if (witness.outcome == DialBackOutcome::reached && reached == nullptr) reached = &witness;
    if (witness.outcome != DialBackOutcome::failed) continue;
    failed = &witness;
    names += (names.empty() ? "" : " and ") + witness.peer.brief();
  }
  const auto own = host_port(addresses_.front());
  const Witness* told = reached != nullptr ? reached : failed;
  if (told == nullptr || !own) {
    witnesses_.clear();
    ask_at_ = now + ask_pause_;
    ask_pause_ = std::min<base::Duration>(2 * ask_pause_, kAskAgain);
    return;
  }
  const auto seen = host_port(told->observed);
  const std::string outer = seen ? base::to_address(seen->host, own->port) : std::string();
  const auto result = reached != nullptr ? Reachability::reachable : Reachability::dials_only;
  const bool changed = result != reach_ || outer != outer_;
  const std::string witness = told->peer.brief();
  witnesses_.clear();
  reach_ = result;
  outer_ = outer;
  ask_pause_ = kAskAgainMin;
  ask_at_ = now + jittered_pause(kAskAgain);
  if (!changed) return;
  out.push_back(Tell{result, result == Reachability::reachable ? outer : std::string()});
  if (result == Reachability::reachable) {
    out.push_back(base::LogEntry{
        base::Severity::info,
        fmt::format("this peer can be dialed: {} reached it at {}", witness, outer)});
    return;
  }
  out.push_back(base::LogEntry{
      base::Severity::warning,
      fmt::format("this peer cannot be dialed: {} tried {} in vain. It links by "
                  "dialing others, at one moment with them, or over a member that relays; to be "
                  "dialed, let TCP port {} through the firewall, or forward it in the router to "
                  "this machine",
                  names, outer, own->port)});
}

// For another peer it dials only the address from which this link comes.
void Core::on_message(base::LinkId from, const wire::DialBack& ask, const Members&, base::Time now,
                      Outbox& out) {
  Link& link = links_.at(from);
  Dialing probe{.purpose = Purpose::probe,
                .peer = link.peer,
                .nonce = ask.nonce,
                .link = from,
                .answer_by = now + kProbeTime};
  auto seen = host_port(link.observed);
  if (SIM_BUG(dialed_back_elsewhere)) {
    for (const auto& [id, other] : links_) {
      if (id != from && !other.via.valid()) seen = host_port(other.observed);
    }
  }
  const bool may = !link.via.valid() && seen && count(Purpose::probe) < kProbesMax &&
                   link.dial_backs.take(now) && dial_backs_.take(now);
  if (may) probe.address = base::to_address(seen->host, ask.port);
  if (!may || !dial(probe, DialKind::direct, out)) {
    answer_probe(probe, DialBackOutcome::busy, out);
  }
}

void Core::answer_probe(const Dialing& probe, DialBackOutcome outcome, Outbox& out) {
  const auto link = links_.find(probe.link);
  if (link == links_.end()) return;
  send(probe.link, wire::DialedBack{probe.nonce, outcome, link->second.observed}, out);
}

// Its outcome is still awaited: it must not become a link.
void Core::end_late_probes(base::Time now, Outbox& out) {
  for (Dialing& dialing : dials_) {
    if (!dialing.answer_by || *dialing.answer_by > now) continue;
    dialing.answer_by.reset();
    answer_probe(dialing, DialBackOutcome::failed, out);
  }
}

}  // namespace starling::reach
