// How far the counters of other peers count.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.hpp"
#include "base/simulated.hpp"
#include "membership/progress.hpp"
#include "membership/voucher.hpp"

namespace starling::membership {
namespace {

double lower_median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

void ProgressTable::watch(std::uint64_t id_prefix, double own_moved, double their_moved) {
  Entry* const entry = entry_of(id_prefix);
  // An own delta of nothing follows no step of this peer: there is nothing to compare with.
  if (entry == nullptr || own_moved <= 0) return;
  Moves& moves = entry->moves;
  moves.own += own_moved * own_moved;
  moves.their += their_moved * their_moved;
  if (++moves.exchanges < kExchangesWatched) return;
  // A replica that is trained for so many times as long moves at least the root of that as far, but
  // near a minimum hardly further. So a little more says much more, and nothing is said by what
  // links add. It is seen best in the beginning, before all follow the fastest one: the most that
  // was counts.
  const double more = moves.their / (kMovesAlike * moves.own);
  if (std::isfinite(more) && more > 1) {
    entry->times = std::clamp(kTimesUsual * std::pow(more, 4), entry->times, kTimesMost);
  }
  moves = {};
}

// Of others that count what they are vouched for, the lower median: a few that count too much do
// not raise it. And this peer's own, which it knows.
ProgressTable::Usual ProgressTable::usual_beside(const Entry& entry, base::Time now) const {
  const bool exact = entries_.size() <= kUsualExact;
  if (!exact && usual_at_ && now < *usual_at_ + heartbeat_) return usual_;
  std::vector<double> rates;
  std::vector<double> samples;
  for (const Entry& other : entries_) {
    if (other.latest.id_prefix == own_prefix_) continue;
    if (exact && other.latest.id_prefix == entry.latest.id_prefix) continue;
    if (other.limit.samples == 0) continue;
    samples.push_back(static_cast<double>(std::min(other.samples(), other.limit.samples)));
    const bool counts = other.alive && other.samples() <= other.limit.samples;
    if (counts && other.latest.rate > 0) rates.push_back(other.latest.rate);
  }
  Usual usual{.others = !samples.empty()};
  usual.rate = std::max(own_.highest_rate(), lower_median(std::move(rates)));
  usual.samples = std::max(static_cast<double>(own_.samples()), lower_median(std::move(samples)));
  if (!exact) {
    usual_ = usual;
    usual_at_ = now;
  }
  return usual;
}

// The most samples that the peer can have, where it was vouched for with `from`; nothing: there is
// nobody to compare it with. Where nobody has vouched for it yet, what usual peers have by now says
// so. Two that meet while there is no other know nothing of each other's past, and must take more
// on trust.
std::optional<double> ProgressTable::plausible(const Entry& entry, std::uint64_t from, double times,
                                               base::Time now) const {
  const Usual usual = usual_beside(entry, now);
  if (usual.rate == 0) return std::nullopt;
  const auto trained_since = [&](base::Time since) {
    return usual.rate * base::seconds(std::max(now - std::max(since, *begun_), kVouchSlack));
  };
  if (entry.limit.samples > 0) {
    return static_cast<double>(from) + times * trained_since(entry.limit.raised);
  }
  const double by_now = std::max(usual.samples, trained_since(*begun_));
  const auto past = static_cast<double>(entry.at_first);
  if (usual.others || past > kTimesMost * by_now) return times * by_now;
  return std::max(times * by_now, past + times * trained_since(entry.heard));
}

// At the rate that it tells, or that its counter shows, if that is less.
std::uint64_t ProgressTable::ahead_of(const Entry& entry, base::Time now) const {
  const auto has = static_cast<double>(entry.samples());
  const double shown = has / base::seconds(now - std::max(entry.heard, *begun_) + kVouchSlack);
  const base::Duration time = kVouchAheadIntervals * progress_interval(alive_, heartbeat_);
  const double soon = std::min(double{entry.latest.rate}, shown) * base::seconds(time);
  return static_cast<std::uint64_t>(
      std::min(std::max(soon, has / kVouchAheadPart), static_cast<double>(kCounterMax)));
}

// Neighbours that watch one peer do not all vouch for it at the same time.
bool ProgressTable::vouch_for(std::uint64_t id_prefix, base::Time now) {
  Entry* const entry = entry_of(id_prefix);
  if (entry == nullptr || id_prefix == own_prefix_ || entry->samples() == 0) return false;
  const Limit& limit = entry->limit;
  const std::uint64_t ahead = ahead_of(*entry, now);
  std::uint64_t drawn = own_prefix_ ^ id_prefix ^ limit.samples;
  const std::uint64_t early = ahead / 4 + ahead / 8 * (base::splitmix64(drawn) % 4);
  if (limit.voucher && entry->samples() + early <= limit.samples) return false;
  const auto most = plausible(*entry, limit.from, entry->times, now);
  const bool is_unknown = !most && now - *begun_ < kVouchPatience;
  const bool is_too_much = most && static_cast<double>(entry->samples()) > *most;
  if ((is_unknown || is_too_much) && !SIM_BUG(vouched_unseen)) {
    const bool news = is_too_much && !entry->doubted && now - entry->plausible >= kVouchPatience;
    entry->doubted = entry->doubted || news;
    return news;
  }
  entry->plausible = now;
  entry->doubted = false;
  const std::uint64_t wanted = std::min(rounded_up(entry->samples() + ahead), kCounterMax - 1);
  if (limit.voucher && wanted <= limit.samples) return false;
  raise(*entry, vouch(id_prefix, std::max(wanted, limit.samples), signer_), now);
  entry->limit.sources.clear();
  return false;
}

void ProgressTable::raise(Entry& entry, const wire::Voucher& voucher, base::Time now) {
  entry.limit.samples = voucher.limit;
  entry.limit.from = std::min(entry.samples(), voucher.limit);
  entry.limit.raised = now;
  entry.limit.voucher = voucher;
  pass_on(entry, false);
  entry.limit.version = version_;
}

// Others' vouchers are not all checked alike: what this peer has not watched may be true. But
// whoever vouches for a friend cannot say just anything.
bool ProgressTable::take(const wire::Voucher& voucher, std::uint64_t subject, std::uint64_t from,
                         base::Time now) {
  Entry& entry = *entry_of(subject);
  if (entry.limit.voucher && voucher.limit == entry.limit.samples) {
    if (entry.limit.sources.size() < kReadyLinksMax && !entry.vouched_by(from)) {
      entry.limit.sources.push_back(from);
    }
    return true;
  }
  if (voucher.limit <= entry.limit.samples || voucher.limit >= kCounterMax) return true;
  const auto most = plausible(entry, entry.limit.samples, kTimesMost, now);
  if (most && static_cast<double>(voucher.limit) > *most) return true;
  if (!is_genuine(voucher, subject, signer_)) return false;
  raise(entry, voucher, now);
  entry.limit.sources.assign(1, from);
  return true;
}

// In the beginning nobody can be vouched for; then the others are taken to have trained as much as
// this peer, or a little more. Who comes to a single other, and has made no step yet, knows nothing
// of it: that one may have trained alone, and be done.
std::uint64_t ProgressTable::limit_of(const Entry& entry, base::Time now) const {
  if (entry.latest.id_prefix == own_prefix_) return kCounterMax;
  const bool is_early = !begun_ || now - *begun_ < kVouchPatience;
  const bool is_single = own_.highest_rate() == 0 && entries_.size() == 2;
  return std::max({entry.limit.samples, is_early ? kEarlyTimes * own_.samples() : 0,
                   is_single ? entry.at_first : 0});
}

std::uint64_t ProgressTable::counted(const Entry& entry, base::Time now) const {
  return std::min(entry.samples(), limit_of(entry, now));
}

std::uint64_t ProgressTable::credible_samples_of(std::uint64_t id_prefix, base::Time now) const {
  const Entry* const entry = entry_of(id_prefix);
  if (entry == nullptr) return 0;
  return now - entry->heard < kVouchPatience ? entry->samples() : counted(*entry, now);
}

bool ProgressTable::is_owed(const Entry& entry, std::uint64_t neighbour,
                            std::uint64_t before) const {
  return entry.limit.voucher && entry.limit.version > before && !entry.vouched_by(neighbour);
}

}  // namespace starling::membership
