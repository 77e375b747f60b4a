#include "membership/detector/watch.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/simulated.hpp"
#include "membership/limits.hpp"

namespace starling::membership {

void Watch::set_heartbeat(base::Duration heartbeat) {
  ASSERT(links_.empty() && heartbeat > base::Duration{0});
  heartbeat_ = heartbeat;
}

void Watch::add(base::LinkId id, const base::PeerId& peer, base::Time now) {
  links_.emplace(id, Watched{.peer = peer, .clock = BeatClock(heartbeat_, now)});
}

Watched* Watch::find(base::LinkId id) {
  return const_cast<Watched*>(std::as_const(*this).find(id));
}

const Watched* Watch::find(base::LinkId id) const {
  const auto found = links_.find(id);
  return found == links_.end() ? nullptr : &found->second;
}

base::Time Watch::suspect_at(const Watched& link) const {
  const int overload = health_.factor() - 1 + (SIM_BUG(silence_unnoticed) ? 1'000'000 : 0);
  return link.clock.silent_at() + overload * heartbeat_;
}

bool Watch::is_silent(base::LinkId id, base::Time now) const {
  const Watched* link = find(id);
  return link != nullptr && now >= suspect_at(*link);
}

void Watch::note_late(base::Duration late, base::Time now) {
  const auto beats = std::min<std::int64_t>(late / heartbeat_, kHealthMax);
  for (std::int64_t i = 0; i <= beats; ++i) health_.worse();
  better_at_ = now + heartbeat_;
}

void Watch::note_beat(base::Time now) {
  if (now < better_at_) return;
  health_.better();
  better_at_ = now + heartbeat_;
}

void Watch::restart(base::Time now) {
  for (auto& [id, link] : links_) link.clock.restart(now);
}

void Watch::hurry(base::Time now) {
  if (SIM_RARE(no_hurry)) return;
  for (auto& [id, link] : links_) {
    if (link.role == Role::neighbour) link.clock.hurry(now);
  }
}

std::optional<base::Time> Watch::next_beat() const {
  base::Earliest next;
  for (const auto& [id, link] : links_) {
    if (link.role == Role::neighbour) next.add(link.clock.next_beat());
  }
  return next.value();
}

}  // namespace starling::membership
