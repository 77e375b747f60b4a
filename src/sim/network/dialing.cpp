#include "sim/network/dialing.hpp"

#include <algorithm>
#include <utility>

namespace starling::sim {
namespace {

constexpr base::Duration kHandshakeTimeout = std::chrono::seconds(5);
/// A dial that does not leave the machine.
constexpr base::Duration kNoRouteAfter = std::chrono::milliseconds(1);

}  // namespace

template <class Which>
std::optional<Dialing::Punch> Dialing::take_punch(Which which) {
  const auto found = std::ranges::find_if(punches_, which);
  if (found == punches_.end()) return std::nullopt;
  Punch punch = std::move(*found);
  punches_.erase(found);
  return punch;
}

void Dialing::act(Node& node, const peer::Dial& action) {
  ++node.dials;
  const std::string& address = action.address;
  const Life life = node.this_life();
  if (!addresses_.can_reach(node, address)) {
    return shared_.agenda.after(kNoRouteAfter, Dialed{life, address, false, {}, 0, true});
  }
  std::optional<Route> route = addresses_.find_route(node, action, shared_.agenda.now());
  Node* const to = route ? shared_.nodes[route->to].get() : nullptr;
  shared_.observer->dialed(node, action, to != nullptr && to->is_up());
  const std::uint32_t there = to == nullptr ? node.peer : to->peer;
  const PathState out = paths_.state(node.peer, there);
  const PathState back = paths_.state(there, node.peer);
  // TCP and TLS take two round trips; each packet is resent until it arrives.
  const double jitter_out = out.jitter_ms * jitter(shared_.rng);
  const double jitter_back = back.jitter_ms * jitter(shared_.rng);
  base::Duration takes =
      milliseconds(2 * (out.latency_ms + back.latency_ms) + jitter_out + jitter_back);
  base::Duration pause = std::chrono::seconds(1);
  for (int packet = 0; packet < 2; ++packet) {
    const double lost = 1 - (1 - out.loss) * (1 - back.loss);
    while (takes < kHandshakeTimeout && lost > 0 && shared_.rng.uniform() < lost) {
      takes += pause;
      pause *= 2;
    }
  }
  const bool reached = to != nullptr && !out.cut && !back.cut && to->state != NodeState::stopped &&
                       takes < kHandshakeTimeout;
  if (!reached) takes = kHandshakeTimeout;
  std::uint64_t punch = 0;
  if (action.kind == peer::DialKind::punch) {
    punch = ++last_punch_;
    punches_.push_back({punch, life, address});
  }
  const bool answered = reached || to == &node;
  shared_.agenda.after(takes, Dialed{life, address, answered, std::move(route), punch});
}

void Dialing::happen(const Dialed& dialed) {
  Node* const node = shared_.find(dialed.by);
  if (node == nullptr) return;
  // The other end may have come first.
  const auto is_this = [&](const Punch& punch) { return punch.serial == dialed.punch; };
  if (dialed.punch != 0 && !take_punch(is_this)) return;
  Node* const to = addresses_.end_of(dialed);
  const bool there = dialed.answered && to != nullptr && to->state == NodeState::running;
  if (there && node->state == NodeState::running) return connect(*node, *to, dialed);
  const char* const text = dialed.no_route   ? "network is unreachable"
                           : dialed.answered ? "refused"
                                             : "no answer";
  receiver_.give(*node, peer::DialFailed{
                            .address = dialed.address, .text = text, .no_route = dialed.no_route});
}

void Dialing::connect(Node& from, Node& to, const Dialed& dialed) {
  const std::string& address = dialed.address;
  if (&from == &to) {
    return receiver_.give(from, peer::DialFailed{address, "that is this peer", true});
  }
  const Route& route = *dialed.route;
  Terms terms{.dialed = {address, std::nullopt}, .observed = {route.observed, address}};
  // It comes from the address that the other end dials at this moment.
  const auto meets = [&](const Punch& punch) {
    return punch.by == to.this_life() && punch.address == route.observed;
  };
  if (auto punch = take_punch(meets)) terms.dialed[1] = std::move(punch->address);
  if (const Nat* nat = addresses_.nat(); nat != nullptr && !route.inside) {
    terms.through_router = true;
    for (const std::uint32_t peer : {from.peer, to.peer}) {
      const auto after = nat->forgets_after(peer);
      if (after) terms.forgotten_after = std::min(*after, terms.forgotten_after.value_or(*after));
    }
  }
  links_.connect(from, to, std::move(terms));
}

}  // namespace starling::sim
