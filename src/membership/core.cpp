#include "membership/core.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"

namespace starling::membership {

const char* to_string(LossReason reason) noexcept {
  switch (reason) {
    case LossReason::reset:
      return "reset";
    case LossReason::silent:
      return "silent";
    case LossReason::left:
      return "left";
    case LossReason::done:
      return "done";
    case LossReason::banned:
      return "banned";
    case LossReason::closed:
      return "closed";
    case LossReason::duplicate:
      return "duplicate";
    case LossReason::replaced:
      return "replaced";
    case LossReason::no_room:
      return "no room for it";
    case LossReason::relay:
      return "its relay is gone";
  }
  return "unknown";
}

namespace {

Config normalized(Config config, const std::string& name) {
  if (!config.hub.empty()) config.degree = name == config.hub ? kDegreeMax : 1;
  config.degree = std::clamp<std::uint32_t>(config.degree, 1, kDegreeMax);
  return config;
}

template <class T, class Variant>
constexpr bool kIsOneOf = false;
template <class T, class... Ts>
constexpr bool kIsOneOf<T, std::variant<Ts...>> = (std::is_same_v<T, Ts> || ...);

}  // namespace

Core::Core(Config config, wire::MemberRecord self, Signer& signer, base::Rng rng)
    : Core(rng, normalized(std::move(config), self.name), std::move(self), signer) {}

Core::Core(base::Rng rng, const Config& config, wire::MemberRecord&& self, Signer& signer)
    : rng_(rng),
      detector_(config, std::move(self), signer, rng_),
      overlay_(config, detector_.table(), detector_.progress(), detector_.watch(), rng_) {}

void Core::handle(Event event, base::Time now, Outbox& out) {
  if (const auto* heard = std::get_if<Heard>(&event)) {
    // On the path of every data frame: it moves no deadline forward, so nothing else is done.
    to_detector(*heard, now, out);
    return;
  }
  begin(now, out);
  left_ = left_ || std::holds_alternative<Leave>(event);
  std::visit([&](auto& value) { give(std::move(value), now, out); }, event);
  finish(now, out);
}

void Core::expire(base::Time now, Outbox& out) {
  begin(now, out);
  DetectorOutbox seen;
  detector_.expire(now, seen);
  route(seen, now, out);
  OverlayOutbox actions;
  overlay_.expire(now, actions);
  route(actions, now, out);
  finish(now, out);
}

// A peer that was stopped finds all its timers late when it goes on, and what others sent
// meanwhile still unread: that it heard nothing is no sign of anything.
void Core::begin(base::Time now, Outbox& out) {
  ASSERT(now >= now_, "time never decreases");
  const base::Time before = std::exchange(now_, now);
  if (!deadline_) return;
  // Once, however many events have waited meanwhile: they come before the timers.
  const base::Duration late = now - std::max(*deadline_, late_until_);
  if (late < kLateMin) return;
  late_until_ = now;
  give(RanLate{late}, now, out);
  const base::Duration pause = now - std::max(*deadline_, before);
  if (pause < kPauseMin) return;
  give(StoodStill{pause}, now, out);
  deadline_ = now;
  out.push_back(
      base::LogEntry{base::Severity::warning,
                     fmt::format("this peer stood still for {:.1f} s", base::seconds(pause))});
}

void Core::finish(base::Time now, Outbox& out) {
  OverlayOutbox actions;
  overlay_.seek(now, actions);
  route(actions, now, out);
  DetectorOutbox news;
  detector_.tell(news);
  route(news, now, out);
  deadline_ = std::nullopt;
  if (left_) return;
  const auto seen = detector_.next_deadline();
  deadline_ = overlay_.next_deadline(now, seen.value_or(base::Time::max()));
}

std::optional<base::Time> Core::next_deadline() const {
  if (!deadline_ && now_ == base::Time{} && !left_) return now_;  // the first expire() starts it
  return deadline_;
}

// To the detector first: what the overlay does depends on what is known.
template <class E>
void Core::give(E event, base::Time now, Outbox& out) {
  constexpr bool kOfOverlay = kIsOneOf<E, OverlayEvent>;
  if constexpr (std::is_same_v<E, Received>) {
    const bool is_news = !std::holds_alternative<wire::Neighbour>(event.message) &&
                         !std::holds_alternative<wire::Bye>(event.message);
    if (is_news) return to_detector(std::move(event), now, out);
    to_detector(Heard{event.link}, now, out);
  } else if constexpr (kIsOneOf<E, DetectorEvent>) {
    to_detector(event, now, out);
  }
  if constexpr (kOfOverlay) to_overlay(std::move(event), now, out);
}

void Core::to_detector(const DetectorEvent& event, base::Time now, Outbox& out) {
  DetectorOutbox actions;
  detector_.handle(event, now, actions);
  route(actions, now, out);
}

void Core::to_overlay(const OverlayEvent& event, base::Time now, Outbox& out) {
  OverlayOutbox actions;
  overlay_.handle(event, now, actions);
  route(actions, now, out);
}

// An action that the peer does not know is an event of the other machine.
template <class Actions>
void Core::route(Actions& actions, base::Time now, Outbox& out) {
  for (auto& action : actions) {
    std::visit(
        [&](auto& value) {
          if constexpr (kIsOneOf<std::decay_t<decltype(value)>, Action>) {
            out.push_back(std::move(value));
          } else {
            give(std::move(value), now, out);
          }
        },
        action);
  }
}

void Core::set_own_progress(const wire::Progress& own, bool trains, base::Time now) {
  wire::Progress entry = own;
  entry.links = static_cast<std::uint32_t>(overlay_.links().count(Role::neighbour));
  if (!detector_.set_own_progress(entry, trains, now) || !deadline_) return;
  deadline_ = std::min(*deadline_, detector_.next_deadline().value_or(base::Time::max()));
}

// The first address of each before the second of any: they come by their use.
std::vector<std::string> Core::addresses_of_others() const {
  std::vector<std::string> addresses;
  const auto& all = table().members();
  for (const bool alive : {true, false}) {
    bool more = true;
    for (std::size_t rank = 0; more; ++rank) {
      more = false;
      // In the order of ids from the own one on, as on a ring.
      auto at = all.upper_bound(self().id);
      for (std::size_t i = 0; i < all.size(); ++i, ++at) {
        if (at == all.end()) at = all.begin();
        const wire::MemberRecord& record = at->second.record;
        if (record.id == self().id || counts_as_alive(record.state) != alive) continue;
        if (rank >= record.addresses.size()) continue;
        if (addresses.size() == kRememberedMax) return addresses;
        addresses.push_back(record.addresses[rank]);
        more = true;
      }
    }
  }
  return addresses;
}

wire::DeathReason Core::death_reason_of(const base::PeerId& peer) const {
  return table().find(peer) == nullptr ? wire::DeathReason::none : table().judgement(peer).lost;
}

std::vector<wire::MemberRecord> Core::members() const {
  std::vector<wire::MemberRecord> members;
  for (const auto& [id, member] : table().members()) members.push_back(member.record);
  return members;
}

std::vector<NeighbourInfo> Core::neighbours(base::Time now) const {
  std::vector<NeighbourInfo> neighbours;
  for (const auto& [id, link] : detector_.watch()) {
    if (link.role != Role::neighbour) continue;
    neighbours.push_back({.peer = link.peer,
                          .link = id,
                          .round_trip = link.clock.round_trip(),
                          .silence = now - link.clock.last_heard()});
  }
  std::ranges::sort(neighbours, {}, &NeighbourInfo::peer);
  return neighbours;
}

void Core::add_bounds(base::Bounds& out) const {
  detector_.add_bounds(out);
  overlay_.add_bounds(out);
}

void Core::add_timers(base::Time now, base::Bounds& out) const {
  if (deadline_) out.add_timer("the next deadline", *deadline_, now, 3 * kProbeEvery / 2);
  detector_.add_timers(now, out);
  overlay_.add_timers(now, out);
}

}  // namespace starling::membership
