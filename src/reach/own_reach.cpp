#include "reach/own_reach.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/ip.hpp"
#include "base/jitter.hpp"
#include "reach/network.hpp"

namespace starling::reach {

using wire::DialBackOutcome;
using wire::Reachability;

namespace {

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::ranges::find(list, text) != list.end();
}

}  // namespace

bool OwnReach::is_own_network(const std::string& address) const {
  const std::string network = network_of(address);
  if (!outer_.empty() && network == network_of(outer_)) return true;
  return std::ranges::any_of(addresses_,
                             [&](const std::string& own) { return network_of(own) == network; });
}

void OwnReach::on_link(base::Time now) {
  if (!linked_since_) linked_since_ = now;
  ask_soon(now);
}

void OwnReach::on_link_lost(base::LinkId link) {
  for (Witness& witness : witnesses_) {
    if (witness.link == link && witness.outcome == DialBackOutcome::none) {
      witness.outcome = DialBackOutcome::busy;
    }
  }
  if (links_.all().empty()) linked_since_.reset();
}

bool OwnReach::on_moved(const std::vector<std::string>& addresses, const Call& call) {
  const bool same = std::ranges::is_permutation(addresses_, addresses);
  addresses_ = addresses;
  if (!same) {
    witnesses_.clear();
    networks_.clear();
    outer_.clear();
    ask_pause_ = kAskAgainMin;
    asked_.reset();
    ask_at_ = call.now + kGather;
    reach_ = Reachability::unknown;
  }
  tell(call.out);
  return !same;
}

void OwnReach::doubt(base::Time now) {
  if (!is_reachable() || (asked_ && now < *asked_ + kAskAgainMin)) return;
  networks_.clear();
  ask_soon(now);
}

// After a change, or with a witness of a new network: soon, but not too often.
void OwnReach::ask_soon(base::Time now) {
  const bool enough = reach_ != Reachability::unknown && networks_.size() >= kWitnesses;
  if (enough || !witnesses_.empty()) return;
  if (reach_ != Reachability::unknown) {
    const bool news = std::ranges::any_of(links_.all(), [&](const auto& entry) {
      const std::string& observed = entry.second.observed;
      return entry.second.is_direct() && !observed.empty() && !is_own_network(observed) &&
             !contains(networks_, network_of(observed));
    });
    if (!news) return;
  }
  base::Time at = now + kGather;
  if (asked_) at = std::max(at, *asked_ + kAskPause);
  ask_at_ = ask_at_ ? std::min(*ask_at_, at) : at;
}

// Asks two members of different networks other than its own; if none are linked, members nearby.
void OwnReach::ask(const Call& call) {
  ask_at_.reset();
  if (!witnesses_.empty() || addresses_.empty()) return;
  const auto own = host_port(addresses_.front());
  if (!own) return;
  std::vector<base::LinkId> far;
  std::vector<base::LinkId> near;
  for (const auto& [id, link] : links_.all()) {
    if (!link.is_direct() || link.observed.empty()) continue;
    (is_own_network(link.observed) ? near : far).push_back(id);
  }
  if (far.empty() && !near.empty() && linked_since_ && call.now < *linked_since_ + kLocalAfter) {
    ask_at_ = *linked_since_ + kLocalAfter;
    return;
  }
  std::vector<base::LinkId>& asked = far.empty() ? near : far;
  if (asked.empty()) return;  // wait until a link comes up
  base::shuffle(asked, rng_);
  std::vector<std::string> networks;
  for (const base::LinkId id : asked) {
    const Link& link = links_.all().at(id);
    const std::string network = network_of(link.observed);
    if (witnesses_.size() == kWitnesses || contains(networks, network)) continue;
    networks.push_back(network);
    witnesses_.push_back(
        {.link = id, .peer = link.peer, .nonce = rng_(), .until = call.now + kWitnessWait});
    call.send(id, wire::DialBack{witnesses_.back().nonce, own->port});
  }
  networks_ = std::move(networks);
  asked_ = call.now;
}

void OwnReach::on_answer(base::LinkId from, const wire::DialedBack& answer, const Call& call) {
  const auto witness = std::ranges::find_if(witnesses_, [&](const Witness& asked) {
    return asked.link == from && asked.nonce == answer.nonce;
  });
  if (witness == witnesses_.end() || witness->outcome != DialBackOutcome::none) return;
  witness->outcome = answer.outcome;
  witness->observed = answer.observed;
  conclude_if_told(call);
}

void OwnReach::conclude_if_told(const Call& call) {
  if (witnesses_.empty()) return;
  const bool told = std::ranges::all_of(witnesses_, [&](const Witness& witness) {
    return witness.outcome != DialBackOutcome::none || witness.until <= call.now;
  });
  if (told) conclude(call);
}

// A witness that reached this peer outweighs one that did not: the latter's own line may be the
// cause. A false word only causes dials that fail.
void OwnReach::conclude(const Call& call) {
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
    ask_at_ = call.now + ask_pause_;
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
  ask_at_ = call.now + base::jittered(kAskAgain, rng_);
  if (!changed) return;
  tell(call.out);
  if (is_reachable()) {
    call.out.push_back(base::LogEntry{
        base::Severity::info,
        fmt::format("this peer can be dialed: {} reached it at {}", witness, outer)});
    return;
  }
  call.out.push_back(base::LogEntry{
      base::Severity::warning,
      fmt::format("this peer cannot be dialed: {} tried {} in vain. It links by "
                  "dialing others, at one moment with them, or over a member that relays; to be "
                  "dialed, let TCP port {} through the firewall, or forward it in the router to "
                  "this machine",
                  names, outer, own->port)});
}

void OwnReach::tell(Outbox& out) const {
  out.push_back(Tell{reach_, is_reachable() ? outer_ : std::string()});
}

void OwnReach::expire(const Call& call) {
  conclude_if_told(call);
  if (ask_at_ && *ask_at_ <= call.now) ask(call);
}

}  // namespace starling::reach
