#include "exchange/core.hpp"

#include <utility>
#include <variant>

namespace starling::exchange {
namespace {

/// Part of the time for settling after which a tree that stands still is given up.
constexpr int kTreePart = 3;

}  // namespace

using base::Time;

Event event_of(Outcome outcome) {
  return std::visit([](auto& one) -> Event { return std::move(one); }, outcome);
}

Core::Core(const Options& options, base::Rng rng)
    : links_(options.config.grace),
      history_(options),
      tree_(rng(), options.config.settle_timeout / kTreePart),
      settling_(options.config.settle_timeout, links_, tree_),
      exchanging_(options, links_, history_, settling_, tree_),
      opening_(options, rng, links_, history_, exchanging_) {}

void Core::handle(Event event, Time now, Outbox& out) {
  std::visit([&](auto& one) { on(one, now, out); }, event);
  go_on(now, out);
}

void Core::expire(Time now, Outbox& out) {
  links_.expire(now, out);
  exchanging_.expire(now, out);
  opening_.expire(now, out);
  tree_.expire(now, out);
  settling_.expire(now, out);
  go_on(now, out);
}

// Whatever has happened, a LinkOpen may be sent now, or all neighbours agree.
void Core::go_on(Time now, Outbox& out) {
  look_at_tree(now, out);
  opening_.send_due_opens(now, out);
  settling_.look(now, out);
}

// Links may have gone, and a delta that rested may be due. Before this peer settles, a neighbour
// that does may have said so on a link that is about to open here.
void Core::look_at_tree(Time now, Outbox& out) {
  if (settling_.phase() == Phase::done) return;
  const bool settles = settling_.has_begun();
  for (const base::PeerId& peer : tree_.neighbours()) {
    const auto at = links_.find(peer);
    const bool is_there = at != links_.end() &&
                          (settles ? at->second.open() != nullptr : at->second.broken() == nullptr);
    if (!is_there) tree_.lose(peer, now, out);
  }
  if (settles) exchanging_.expire(now, out);
}

void Core::on(const NeighbourUp& event, Time now, Outbox& out) {
  opening_.begin(links_.begin_opening(event.peer, now, out), now);
}

void Core::on(const NeighbourDown& event, Time now, Outbox& out) {
  settling_.on(event);
  links_.on(event, now, out);
}

void Core::on(Received& event, Time now, Outbox& out) {
  const auto at = links_.find(event.peer);
  if (at == links_.end() || at->second.broken() != nullptr) {
    out.emplace_back(Misbehaved{event.peer, "sent an exchange message without being a neighbour"});
    return;
  }
  Link& link = at->second;
  if (link.open() == nullptr) link.heard_at = now;
  if (auto* open = std::get_if<wire::LinkOpen>(&event.message)) {
    opening_.receive(at, *open, now, out);
  } else if (auto* keyframe = std::get_if<wire::Keyframe>(&event.message)) {
    opening_.receive(at, *keyframe, out);
  } else if (const auto* settle = std::get_if<wire::Settle>(&event.message)) {
    link.settles = true;
    tree_.hear(event.peer, *settle, now, out);
  } else if (auto& delta = std::get<wire::Delta>(event.message);
             exchanging_.check(at, delta, event.took, out)) {
    link.settles = link.settles || delta.settled;
    if (link.open() != nullptr) {
      exchanging_.receive(at, std::move(delta), now, out);
    } else {
      opening_.receive(at, delta, out);
    }
  }
}

void Core::on(const Progressed& event, Time now, Outbox&) {
  exchanging_.on(event, now);
  history_.on(event, links_.open_count());
}

void Core::on(const Vouched& event, Time now, Outbox&) {
  const auto at = links_.find(event.peer);
  if (at != links_.end()) at->second.vouched.add(event.samples, now);
}

void Core::on(const Company& event, Time, Outbox&) { settling_.on(event); }

void Core::on(const Phase& phase, Time now, Outbox& out) {
  if (!settling_.on(phase, now)) return;
  exchanging_.begin_tree(now, out);
  exchanging_.on_settling(out);
}

void Core::on(Encoded& event, Time now, Outbox& out) { exchanging_.on(event, now, out); }

void Core::on(Committed& event, Time now, Outbox& out) { exchanging_.on(event, now, out); }

void Core::on(KeyframeMade& event, Time now, Outbox& out) { opening_.on(event, now, out); }

void Core::on(Opened& event, Time now, Outbox& out) { opening_.on(event, now, out); }

void Core::on(const Audited& event, Time, Outbox& out) {
  exchanging_.heal(event.heals);
  links_.on(event, out);
}

void Core::on(const KeyframeArriving& event, Time now, Outbox&) {
  const auto at = links_.find(event.peer);
  if (at != links_.end() && at->second.open() == nullptr) at->second.heard_at = now;
  opening_.on(event, now);
}

void Core::visit_timers(const TimerVisitor& visit) const {
  links_.visit_timers(visit);
  opening_.visit_timers(visit);
  exchanging_.visit_timers(visit);
  settling_.visit_timers(visit);
  tree_.visit_timers(visit);
}

std::optional<Time> Core::next_deadline() const {
  base::Earliest next;
  visit_timers([&next](std::string_view, std::optional<Time> at, base::Duration) { next.add(at); });
  return next.value();
}

void Core::add_timers(Time now, base::Bounds& out) const {
  visit_timers([now, &out](std::string_view name, std::optional<Time> at, base::Duration limit) {
    if (at) out.add_timer(name, *at, now, limit);
  });
}

void Core::add_bounds(std::size_t neighbours, base::Bounds& out) const {
  links_.add_bounds(neighbours, out);
  tree_.add_bounds(kLinksMax, out);
}

}  // namespace starling::exchange
