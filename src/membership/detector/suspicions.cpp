#include "membership/detector/suspicions.hpp"

#include <algorithm>
#include <cmath>

#include "membership/limits.hpp"

namespace starling::membership {
namespace {

// From kSuspicionBeatsMax with one accuser to kSuspicionBeatsMin with kAccusersMax.
base::Duration lasts(std::size_t accusers, base::Duration beat) {
  const double part = std::log(static_cast<double>(accusers)) / std::log(double{kAccusersMax});
  const double beats = kSuspicionBeatsMax - (kSuspicionBeatsMax - kSuspicionBeatsMin) * part;
  return base::from_seconds(beats * base::seconds(beat));
}

}  // namespace

bool Suspicions::accuse(const base::PeerId& peer, std::uint64_t by, wire::DeathReason reason,
                        std::size_t partners, base::Duration beat, base::Time now,
                        base::Time not_before) {
  const auto [place, fresh] = open_.try_emplace(peer);
  Suspicion& suspicion = place->second;
  if (fresh) {
    suspicion = {.since = now,
                 .not_before = not_before,
                 .ends = base::Time::max(),
                 .reason = reason,
                 .accusers = {}};
  }
  if (suspicion.reason == wire::DeathReason::none) suspicion.reason = reason;
  std::vector<std::uint64_t>& accusers = suspicion.accusers;
  if (accusers.size() >= kAccusersMax || accused_by(peer, by)) return false;
  accusers.push_back(by);
  suspicion.ends = std::min(suspicion.ends, suspicion.since + lasts(accusers.size(), beat));
  if (accusers.size() >= partners) suspicion.ends = std::min(suspicion.ends, now + beat);
  suspicion.ends = std::max(suspicion.ends, suspicion.not_before);
  return true;
}

bool Suspicions::shorten_for_verdict(const base::PeerId& peer, base::Duration beat,
                                     base::Time now) {
  const auto found = open_.find(peer);
  if (found == open_.end()) return false;
  Suspicion& suspicion = found->second;
  const base::Time ends =
      std::max({now + beat, suspicion.since + lasts(kAccusersMax, beat), suspicion.not_before});
  if (ends >= suspicion.ends) return false;
  suspicion.ends = ends;
  return true;
}

bool Suspicions::accused_by(const base::PeerId& peer, std::uint64_t by) const {
  const auto found = open_.find(peer);
  if (found == open_.end()) return false;
  const std::vector<std::uint64_t>& accusers = found->second.accusers;
  return std::find(accusers.begin(), accusers.end(), by) != accusers.end();
}

std::vector<Suspicions::Accusation> Suspicions::open_from(const base::PeerId& peer,
                                                          std::size_t most) const {
  std::vector<Accusation> accusations;
  auto at = open_.lower_bound(peer);
  for (std::size_t i = 0; i < std::min(most, open_.size()); ++i, ++at) {
    if (at == open_.end()) at = open_.begin();
    accusations.push_back({at->first, at->second.accusers.front(), at->second.reason});
  }
  return accusations;
}

void Suspicions::extend(base::Duration pause) {
  for (auto& [peer, suspicion] : open_) {
    suspicion.since += pause;
    suspicion.ends += pause;
  }
}

std::vector<Suspicions::Verdict> Suspicions::take_ended(base::Time now) {
  std::vector<Verdict> ended;
  for (auto at = open_.begin(); at != open_.end();) {
    if (at->second.ends > now) {
      ++at;
      continue;
    }
    ended.push_back({at->first, at->second.reason});
    at = open_.erase(at);
  }
  return ended;
}

std::optional<base::Time> Suspicions::next_end() const {
  base::Earliest next;
  for (const auto& [peer, suspicion] : open_) next.add(suspicion.ends);
  return next.value();
}

std::optional<base::Time> Suspicions::last_end() const {
  std::optional<base::Time> last;
  for (const auto& [peer, suspicion] : open_) {
    if (!last || suspicion.ends > *last) last = suspicion.ends;
  }
  return last;
}

}  // namespace starling::membership
