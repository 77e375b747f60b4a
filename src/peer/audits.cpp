#include "peer/audits.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace starling::peer {

using exchange::Trust;

namespace {

/// Peers remembered that are not neighbours any more.
constexpr std::size_t kRecordsMax = 64;
/// Neighbours tried at once, of more.
constexpr std::size_t kTriedAtOnce = 2;
constexpr double kTriesAStep = 3;  // forward and backward, in forward passes
/// How far ahead of its time the first audit is.
constexpr double kEarly = 0.8;
/// How far ahead of its time the next audit is, while a neighbour is in doubt.
constexpr double kAhead = 2;

/// Losses far below it are good enough to be alike, in nats: a ratio of small ones is noise.
constexpr double kLossFloor = 0.25;
/// As logarithms of a ratio of losses: one audit counts no more than that, either way.
constexpr double kLeast = -1.0;
constexpr double kMost = 1.5;
constexpr double kTwice = 0.7;
constexpr double kAbsurd = 3.0;
/// Far worse: 1.4 times the loss. Alike: up to about half of that.
constexpr double kFarWorse = 0.336;
constexpr double kAlike = kFarWorse / 2;
/// The same among peers with samples of their own: honest neighbours differ by that much in one of
/// a hundred audits, where each has a label or two.
constexpr double kFarWorseOwn = 2.0;
constexpr double kMostOwn = kAbsurd;
/// A neighbour is vouched for below it.
constexpr double kVouched = 0.04;
/// It gets better where no more than this is left from audit to audit.
constexpr double kBetter = 0.8;

constexpr int kStrikesDoubted = 1;
constexpr int kStrikesNone = 3;
constexpr int kStrikesEnd = 10;
constexpr int kStrikesAbsurd = kStrikesEnd / 2;
constexpr int kBehindHeals = 2;

double far_behind(double own, double their) {
  const double ratio = std::log((their + kLossFloor) / (own + kLossFloor));
  return std::isfinite(ratio) ? std::clamp(ratio, kLeast, kAbsurd) : kAbsurd;
}

// The further off, the fewer audits it takes until it moves this peer no more. To end the link
// takes more: a mirror gets nearer by a small part of the distance in an exchange.
int strikes_of(double worse) {
  if (worse >= kAbsurd) return kStrikesAbsurd;
  return worse >= kTwice ? 2 : 1;
}

double rounds_cost(std::size_t neighbours) {
  return static_cast<double>(kAuditSamples) * static_cast<double>(neighbours + 1);
}

}  // namespace

void Audits::trained(std::uint32_t samples) noexcept {
  credit_ += kAuditShare * kTriesAStep * static_cast<double>(samples);
}

std::vector<exchange::Pulling> Audits::due(std::span<const exchange::Pulling> pulling) {
  forget_oldest_gone(pulling);
  const bool all = !interchangeable_ || behind_ > 0 || pulling.size() <= kTriedAtOnce;
  const std::size_t count = all ? pulling.size() : kTriedAtOnce;
  const auto is_urgent = [this](const exchange::Pulling& one) {
    return !records_.contains(one.peer) || is_doubted_anew(one);
  };
  const bool hurries = behind_ > 0 || std::ranges::any_of(pulling, is_urgent);
  std::vector<exchange::Pulling> chosen;
  if (!has_time(count, hurries)) return chosen;
  // In doubt, new, when last tried, and how hard it pulls.
  const auto facts = [this](const exchange::Pulling& one) {
    const auto at = records_.find(one.peer);
    const bool is_new = at == records_.end();
    return std::tuple(is_doubted_anew(one) ? at->second.strikes : 0, is_new,
                      is_new ? 0 : at->second.round);
  };
  std::vector<exchange::Pulling> left(pulling.begin(), pulling.end());
  while (chosen.size() < count) {
    const bool by_turn = chosen.size() + 1 == count;
    const auto next = std::ranges::max_element(left, [&](const auto& a, const auto& b) {
      const auto [strikes_a, new_a, round_a] = facts(a);
      const auto [strikes_b, new_b, round_b] = facts(b);
      if (by_turn) return std::tuple(round_b, a.pulled) < std::tuple(round_a, b.pulled);
      return std::tuple(strikes_a, new_a, a.pulled) < std::tuple(strikes_b, new_b, b.pulled);
    });
    chosen.push_back(*next);
    left.erase(next);
  }
  return chosen;
}

// Who comes back is known, unless its link was ended: else it would have to fail as often again.
void Audits::forget_oldest_gone(std::span<const exchange::Pulling> pulling) {
  while (records_.size() > kRecordsMax + pulling.size()) {
    const auto is_gone = [pulling](const auto& entry) {
      return std::ranges::find(pulling, entry.first, &exchange::Pulling::peer) == pulling.end();
    };
    auto oldest = std::ranges::find_if(records_, is_gone);
    for (auto at = oldest; at != records_.end(); ++at) {
      if (at->second.round < oldest->second.round && is_gone(*at)) oldest = at;
    }
    records_.erase(oldest);
  }
}

bool Audits::is_doubted_anew(const exchange::Pulling& one) const {
  const auto at = records_.find(one.peer);
  return at != records_.end() && at->second.strikes > 0 && at->second.exchanges != one.exchanges;
}

bool Audits::has_time(std::size_t neighbours, bool hurries) const noexcept {
  if (neighbours == 0) return false;
  const double cost = rounds_cost(neighbours);
  const double ahead = round_ == 0 ? kEarly : hurries ? kAhead : 0.0;
  return credit_ + ahead * cost >= cost;
}

// How much worse than the own one a replica usually is.
double Audits::usual(std::span<const double> worse) const {
  std::vector<double> sorted(worse.begin(), worse.end());
  std::ranges::sort(sorted);
  if (behind_ > 0) return sorted.front();
  if (interchangeable_) return 0.0;
  return std::max(0.0, sorted[(sorted.size() - 1) / 2]);
}

void Audits::look_at_itself(std::span<const double> worse) {
  const double best = *std::ranges::min_element(worse);
  if (best < -kFarWorse) {
    behind_ += best > -2 * kFarWorse ? 1 : kBehindHeals;
  } else if (best > -kAlike) {
    behind_ = 0;
  }
  if (behind_ >= kBehindHeals) heals_ = true;
  if (behind_ == 0) heals_ = false;
}

double Audits::times_worse(double own, double other) noexcept {
  return std::exp(far_behind(own, other));
}

bool Audits::is_suspicious(double own, double other) const noexcept {
  return far_behind(own, other) > limits().alike();
}

Audits::Limits Audits::limits() const noexcept {
  return {.far_worse = interchangeable_ ? kFarWorse : kFarWorseOwn,
          .most = interchangeable_ ? kMost : kMostOwn};
}

exchange::Audited Audits::judge(double own, std::span<const Tried> tried) {
  credit_ -= rounds_cost(tried.size());
  credit_ = std::max(credit_, -kAhead * rounds_cost(tried.size()));
  ++round_;
  exchange::Audited audited;
  if (tried.empty()) return audited;
  std::vector<double> worse;
  for (const Tried& one : tried) {
    worse.push_back(far_behind(own, one.loss));
    if (is_suspicious(own, one.loss)) credit_ -= kAuditSamples;
  }
  look_at_itself(worse);
  audited.heals = heals_;
  const double usual = this->usual(worse);
  const Limits limits = this->limits();
  for (std::size_t i = 0; i < tried.size(); ++i) {
    Record& record = records_[tried[i].peer];
    record.round = round_;
    if (tried[i].trained_apart) {
      record.clear(worse[i], tried[i].exchanges);
    } else {
      record.note(worse[i] - usual, tried[i].exchanges, limits);
    }
    audited.findings.push_back({.peer = tried[i].peer,
                                .trust = record.trust,
                                .worse = std::exp(record.worse),
                                .ends = record.strikes >= kStrikesEnd});
    if (audited.findings.back().ends) records_.erase(tried[i].peer);
  }
  return audited;
}

void Audits::Record::clear(double now, std::uint64_t exchanges_now) {
  exchanges = exchanges_now;
  worse = now;
  strikes = 0;
  trust = exchange::Trust::unknown;
}

void Audits::Record::note(double now, std::uint64_t exchanges_now, const Limits& limits) {
  const bool is_new = !exchanges;
  const bool moved = exchanges != exchanges_now;
  exchanges = exchanges_now;
  const double alike = limits.alike();
  const double before = is_new ? limits.most : worse;
  const double counted = std::min(now, limits.most);
  worse = is_new ? counted : (worse + counted) / 2;
  // However well it did before: who vouches for it would let it pull as hard as it likes.
  if (counted > limits.far_worse && trust == Trust::vouched) trust = Trust::unknown;
  if ((worse > limits.far_worse || now >= kAbsurd) && counted > alike) {
    // Mirrors that are as they were say nothing new against it, and a newcomer that comes closer is
    // not turned away.
    if (moved && (is_new || now >= limits.most || now > kBetter * before)) {
      strikes += strikes_of(now);
    }
  } else if (worse < alike) {
    strikes = 0;
    trust = worse < kVouched ? Trust::vouched : Trust::unknown;
  } else if (strikes > kStrikesNone) {
    --strikes;  // its mirror is on its way, so to end the link would not help
  }
  if (strikes >= kStrikesDoubted) trust = Trust::doubted;
  if (strikes >= kStrikesNone) trust = Trust::none;
}

}  // namespace starling::peer
