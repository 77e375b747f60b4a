#include "membership/progress.hpp"

#include <algorithm>
#include <cmath>

#include "membership/limits.hpp"

namespace starling::membership {
namespace {

// A rate is measured over at least this long: frames come in bursts.
constexpr base::Duration kRateInterval = std::chrono::milliseconds(500);
constexpr double kRateMemory = 0.5;  ///< weight of the old rate in the new one
constexpr double kRateMax = 1e9;     ///< samples a second; more is not believed

// Something all peers agree on without a clock; a loss says more than none.
bool says_more(const wire::Progress& entry, const wire::Progress& than) {
  if (entry.samples != than.samples) return entry.samples > than.samples;
  if (std::isnan(entry.loss)) return false;
  return std::isnan(than.loss) || entry.loss < than.loss;
}

}  // namespace

void ProgressBook::set_own(wire::Progress own, base::Time now) {
  own.id_prefix = own_prefix_;
  const auto [place, fresh] = entries_.try_emplace(own_prefix_);
  Entry& entry = place->second;
  if (fresh) {
    entry.rate_since = now;
    entry.rate_samples = own.samples;
  }
  own.samples = std::max(own.samples, entry.latest.samples);
  entry.latest = own;
  entry.version = ++version_;
  entry.changed = now;
  measure(entry, now);
}

void ProgressBook::merge(std::span<const wire::Progress> entries, std::uint64_t from,
                         base::Time now) {
  for (const wire::Progress& entry : entries) update(entry, from, now);
}

void ProgressBook::observe(std::uint64_t id_prefix, std::uint64_t samples, base::Time now) {
  const wire::Progress* known = find(id_prefix);
  wire::Progress latest = known == nullptr ? wire::Progress{} : *known;
  if (known != nullptr && samples <= known->samples) return;
  latest.id_prefix = id_prefix;
  latest.samples = samples;
  update(latest, id_prefix, now);
}

void ProgressBook::update(const wire::Progress& latest, std::uint64_t from, base::Time now) {
  if (latest.id_prefix == own_prefix_ || latest.samples >= kCounterMax) return;
  auto found = entries_.find(latest.id_prefix);
  if (found == entries_.end()) {
    if (entries_.size() >= kProgressMax) return;
    found = entries_.emplace(latest.id_prefix, Entry{}).first;
    found->second.rate_since = now;
    found->second.rate_samples = latest.samples;
  } else if (!says_more(latest, found->second.latest)) {
    return;
  }
  Entry& entry = found->second;
  entry.latest = latest;
  entry.source = from;
  entry.version = ++version_;
  entry.changed = now;
  measure(entry, now);
}

void ProgressBook::measure(Entry& entry, base::Time now) {
  const base::Duration interval = now - entry.rate_since;
  if (interval < kRateInterval) return;
  const double made = static_cast<double>(entry.latest.samples - entry.rate_samples);
  const double rate = std::min(made / base::seconds(interval), kRateMax);
  entry.rate = entry.rate == 0 ? rate : kRateMemory * entry.rate + (1 - kRateMemory) * rate;
  entry.rate_since = now;
  entry.rate_samples = entry.latest.samples;
}

std::vector<wire::Progress> ProgressBook::entries_for_heartbeat(std::uint64_t neighbour) {
  std::uint64_t& sent = sent_[neighbour];
  std::vector<const Entry*> changed;
  for (const auto& [prefix, entry] : entries_) {
    const bool theirs = prefix == neighbour || (entry.source == neighbour && prefix != own_prefix_);
    if (entry.version > sent && !theirs) changed.push_back(&entry);
  }
  std::sort(changed.begin(), changed.end(),
            [](const Entry* a, const Entry* b) { return a->version < b->version; });
  const bool all = changed.size() <= wire::kProgressPerFrame;
  if (!all) changed.resize(wire::kProgressPerFrame);
  sent = all ? version_ : changed.back()->version;
  std::vector<wire::Progress> entries;
  entries.reserve(changed.size());
  for (const Entry* entry : changed) entries.push_back(entry->latest);
  return entries;
}

void ProgressBook::forget(std::uint64_t neighbour) { sent_.erase(neighbour); }

void ProgressBook::set_alive(std::uint64_t id_prefix, bool alive) {
  const auto found = entries_.find(id_prefix);
  if (found != entries_.end()) found->second.alive = alive;
}

double ProgressBook::rate_of(const Entry& entry, base::Time now) const {
  return entry.alive && now - entry.changed <= kRateStale ? entry.rate : 0;
}

std::uint64_t ProgressBook::total(base::Time now) {
  std::uint64_t total = 0;
  for (const auto& [prefix, entry] : entries_) {
    total += entry.latest.samples;  // no overflow: kProgressMax * kCounterMax = 2^63
    if (prefix == own_prefix_ || !entry.alive) continue;
    const base::Duration ahead = std::min(now - entry.changed, kExtrapolateMax);
    total += static_cast<std::uint64_t>(std::max(0.0, rate_of(entry, now) * base::seconds(ahead)));
  }
  total_ = std::max(total_, total);
  return total_;
}

double ProgressBook::rate(base::Time now) const {
  double rate = 0;
  for (const auto& [prefix, entry] : entries_) rate += rate_of(entry, now);
  return rate;
}

const wire::Progress* ProgressBook::find(std::uint64_t id_prefix) const {
  const auto found = entries_.find(id_prefix);
  return found == entries_.end() ? nullptr : &found->second.latest;
}

std::optional<base::Duration> ProgressBook::age(std::uint64_t id_prefix, base::Time now) const {
  const auto found = entries_.find(id_prefix);
  if (found == entries_.end()) return std::nullopt;
  return now - found->second.changed;
}

}  // namespace starling::membership
