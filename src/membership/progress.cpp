#include "membership/progress.hpp"

#include <algorithm>
#include <cmath>

#include "base/simulated.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"
#include "membership/voucher.hpp"

namespace starling::membership {
namespace {

constexpr std::size_t kChangesSlack = 2;

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool reports_the_same(const wire::Progress& a, const wire::Progress& b) {
  return same(a.loss, b.loss) && same(a.accuracy, b.accuracy) && a.links == b.links;
}

// Something all peers agree on without a clock; a loss says more than none.
bool reports_more(const wire::Progress& entry, const wire::Progress& than) {
  if (!entry.report || std::isnan(entry.loss)) return false;
  return std::isnan(than.loss) || entry.loss < than.loss;
}

bool says_more(const wire::Progress& entry, const wire::Progress& than) {
  if (entry.samples != than.samples) return entry.samples > than.samples;
  return (entry.rate == 0 && than.rate > 0) || reports_more(entry, than);
}

}  // namespace

base::Duration progress_interval(std::size_t peers, base::Duration heartbeat) {
  const double round = static_cast<double>(peers) * kProgressEntryBytes * kProgressCopies;
  return std::max(heartbeat, base::from_seconds(round / kProgressBytesPerSecond));
}

void ProgressTable::restore(std::span<const base::SampleCounter> counters) {
  for (const base::SampleCounter& counter : counters) {
    if (counter.samples >= kCounterMax) continue;
    if (counter.peer == own_prefix_) {
      static_cast<void>(own_.recall(counter.samples));
      continue;
    }
    if (entry_of(counter.peer) != nullptr || entries_.size() >= kProgressMax - 1) continue;
    Entry& entry = add(counter.peer);
    entry.latest.samples = counter.samples;
    entry.limit.samples = entry.limit.from = counter.samples;
    entry.alive = false;  // until its record comes
    --alive_;
    pass_on(entry, false);
  }
}

std::vector<base::SampleCounter> ProgressTable::counters_of_others() const {
  std::vector<base::SampleCounter> others;
  others.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    if (entry.latest.id_prefix == own_prefix_) continue;
    const std::uint64_t counts = counted(entry, told_last_);
    if (counts > 0) others.push_back({entry.latest.id_prefix, counts});
  }
  return others;
}

bool ProgressTable::set_own(wire::Progress own, bool trains, base::Time now) {
  begin(now);
  const bool ended = own_.trains() && !trains;
  const bool news = own_.set(own.samples, trains, now);
  own.id_prefix = own_prefix_;
  own.samples = own_.samples();
  own.rate = static_cast<float>(own_.rate());
  Entry* const known = entry_of(own_prefix_);
  Entry& entry = known == nullptr ? add(own_prefix_) : *known;
  const bool reports_other = !reports_the_same(own, entry.latest);
  entry.latest = own;
  entry.measured = now;
  if (news || reports_other) tell_own(true, now);
  return ended;
}

void ProgressTable::end_own(base::Time now) {
  if (!own_.trains()) return;
  wire::Progress last = entry_of(own_prefix_)->latest;
  last.samples -= own_.recalled();
  static_cast<void>(set_own(last, false, now));
}

Merged ProgressTable::merge(std::span<const wire::Progress> entries, std::uint64_t from,
                            base::Time now) {
  begin(now);
  Merged merged;
  for (const wire::Progress& entry : entries) {
    if (entry.samples >= kCounterMax) continue;
    if (entry.id_prefix == own_prefix_) {
      merged.forged = !recall(entry, now) || merged.forged;
      continue;
    }
    merged.ended = update(entry, from, now) || merged.ended;
    if (entry.voucher && entry_of(entry.id_prefix) != nullptr) {
      merged.forged = !take(*entry.voucher, entry.id_prefix, from, now) || merged.forged;
    }
  }
  return merged;
}

void ProgressTable::begin(base::Time now) {
  if (!begun_) begun_ = now;
  told_last_ = now;
}

// Others know of more than this peer does: it was killed after it had told them.
bool ProgressTable::recall(const wire::Progress& own, base::Time now) {
  Entry* const entry = entry_of(own_prefix_);
  if (entry == nullptr || !own.voucher || own.samples <= own_.samples()) return true;
  const auto most = plausible(*entry, 0, kTimesMost, now);
  if (most && static_cast<double>(own.samples) > *most) return true;
  if (!is_genuine(*own.voucher, own_prefix_, signer_)) return false;
  if (!own_.recall(std::min(own.samples, own.voucher->limit))) return true;
  entry->latest.samples = own_.samples();
  tell_own(false, now);
  return true;
}

void ProgressTable::observe(std::uint64_t id_prefix, std::uint64_t samples, base::Time now) {
  Entry* const entry = entry_of(id_prefix);
  if (entry == nullptr || id_prefix == own_prefix_ || samples >= kCounterMax) return;
  if (samples <= entry->samples()) return;
  entry->observed = samples + (SIM_BUG(samples_added) ? entry->samples() : 0);
  entry->observed_at = now;
}

bool ProgressTable::update(const wire::Progress& latest, std::uint64_t from, base::Time now) {
  Entry* const known = entry_of(latest.id_prefix);
  const bool fresh = known == nullptr;
  if (fresh) {
    if (entries_.size() >= kProgressMax) {
      overflowed_ = true;
      return false;
    }
    new_.push_back(latest.id_prefix);
  }
  Entry& entry = fresh || SIM_BUG(counters_anew) ? add(latest.id_prefix) : *known;
  if (fresh) {
    entry.at_first = latest.samples;
    entry.heard = entry.plausible = now;
  }
  const bool trained = entry.latest.rate > 0;
  // Its owner's word is taken whole: on its link the newer comes later.
  const bool own_word = from == latest.id_prefix && latest.samples >= entry.latest.samples;
  const bool report = latest.report && (fresh || own_word || says_more(latest, entry.latest)) &&
                      !reports_the_same(latest, entry.latest);
  if (!fresh && !report && !says_more(latest, entry.latest)) {
    if (latest.samples == entry.latest.samples && entry.sources.size() < kReadyLinksMax) {
      entry.sources.push_back(from);
    }
    if (own_word) entry.latest.rate = std::min(latest.rate, static_cast<float>(kRateMax));
    return trained && entry.latest.rate == 0;
  }
  wire::Progress merged = latest;
  merged.voucher.reset();
  if (!latest.report) {
    merged.loss = entry.latest.loss;
    merged.accuracy = entry.latest.accuracy;
    merged.drift = entry.latest.drift;
    merged.links = entry.latest.links;
  }
  merged.rate = std::min(merged.rate, static_cast<float>(kRateMax));
  entry.latest = merged;
  entry.sources.assign(1, from);
  entry.measured = now - std::chrono::milliseconds(latest.age_ms);
  pass_on(entry, fresh || latest.report);
  return trained && entry.latest.rate == 0;
}

// Fixed until the next time: if each neighbour were told the newest, all of those would go on.
void ProgressTable::tell_own(bool report, base::Time now) {
  Entry& entry = *entry_of(own_prefix_);
  told_ = entry.latest;
  told_measured_ = entry.measured;
  told_at_ = now;
  pass_on(entry, report);
}

void ProgressTable::pass_on(Entry& entry, bool report) {
  entry.version = ++version_;
  if (report) entry.report_version = version_;
  if (changes_.size() >= kChangesSlack * entries_.size()) {
    std::erase_if(changes_, [&](const auto& change) {
      return entries_[change.second].version != change.first;
    });
  }
  changes_.emplace_back(version_, static_cast<Place>(&entry - entries_.data()));
}

ProgressTable::Entry* ProgressTable::entry_of(std::uint64_t id_prefix) {
  return const_cast<Entry*>(std::as_const(*this).entry_of(id_prefix));
}

const ProgressTable::Entry* ProgressTable::entry_of(std::uint64_t id_prefix) const {
  const auto found =
      std::ranges::lower_bound(places_, id_prefix, {}, &decltype(places_)::value_type::first);
  return found == places_.end() || found->first != id_prefix ? nullptr : &entries_[found->second];
}

ProgressTable::Entry& ProgressTable::add(std::uint64_t id_prefix) {
  const auto place =
      std::ranges::lower_bound(places_, id_prefix, {}, &decltype(places_)::value_type::first);
  places_.emplace(place, id_prefix, static_cast<Place>(entries_.size()));
  ++alive_;
  Entry& entry = entries_.emplace_back();
  entry.latest.id_prefix = id_prefix;
  return entry;
}

void ProgressTable::forget(std::uint64_t neighbour) {
  sent_.erase(neighbour);
  for (Entry& entry : entries_) {
    std::erase(entry.sources, neighbour);
    std::erase(entry.limit.sources, neighbour);
  }
}

std::vector<wire::Progress> ProgressTable::entries_for_heartbeat(std::uint64_t neighbour,
                                                                 base::Time now) {
  if (own_.has_stalled(now)) {
    // The others would go on taking it further. When it goes on, they hear of it with the next
    // regular entry.
    entry_of(own_prefix_)->latest.rate = 0;
    tell_own(false, now);
  }
  if (own_.trains() && now - told_at_ >= progress_interval(alive_, heartbeat_)) {
    tell_own(++tells_ % kReportEvery == 0, now);
  }
  std::uint64_t& sent = sent_[neighbour];
  const std::uint64_t before = sent;
  std::vector<wire::Progress> entries;
  if (Entry* theirs = before == 0 ? entry_of(neighbour) : nullptr; theirs != nullptr) {
    if (!theirs->told_by(neighbour)) {
      sign_restored(*theirs);
      entries.push_back(told_of(*theirs, before, now));
      entries.back().samples = theirs->samples();
      entries.back().voucher = theirs->limit.voucher;
    }
  }
  std::size_t vouchers = entries.size();
  auto change =
      std::ranges::upper_bound(changes_, before, {}, &decltype(changes_)::value_type::first);
  for (; change != changes_.end(); ++change) {
    Entry& entry = entries_[change->second];
    if (entry.version != change->first) continue;
    if (entries.size() == wire::kProgressPerFrame) return entries;
    if (vouchers == wire::kVouchersPerFrame) return entries;
    if (!entries.empty() && SIM_RARE(few_progress_entries)) return entries;
    sent = entry.version;
    if (entry.latest.id_prefix == neighbour) continue;
    sign_restored(entry);
    const bool owes = is_owed(entry, neighbour, before);
    if (entry.latest.id_prefix != own_prefix_ && entry.told_by(neighbour) && !owes) continue;
    entries.push_back(told_of(entry, before, now));
    if (!owes) continue;
    entries.back().voucher = entry.limit.voucher;
    ++vouchers;
  }
  return entries;
}

// What a former life has known: whoever has never heard of it must be told by somebody.
void ProgressTable::sign_restored(Entry& entry) {
  if (entry.limit.samples == 0 || entry.limit.voucher) return;
  entry.limit.voucher = vouch(entry.latest.id_prefix, entry.limit.samples, signer_);
  entry.limit.version = entry.version;
}

// As it is told to who knows what was passed on `before`, without a voucher.
wire::Progress ProgressTable::told_of(const Entry& entry, std::uint64_t before,
                                      base::Time now) const {
  const bool own_entry = entry.latest.id_prefix == own_prefix_;
  wire::Progress told = own_entry ? told_ : entry.latest;
  told.report = entry.report_version > before || SIM_RARE(reports_told_again);
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(
      now - (own_entry ? told_measured_ : entry.measured));
  told.age_ms = static_cast<std::uint32_t>(std::clamp<std::int64_t>(age.count(), 0, 1 << 30));
  return told;
}

void ProgressTable::set_state(std::uint64_t id_prefix, wire::MemberState state) {
  Entry* const entry = entry_of(id_prefix);
  if (entry == nullptr) return;
  entry->suspect = state == wire::MemberState::suspect;
  const bool alive = counts_as_alive(state);
  if (entry->alive != alive) alive_ += alive ? 1 : -1;
  entry->alive = alive;
}

base::Duration ProgressTable::horizon() const {
  const double hops = std::log2(static_cast<double>(std::max<std::size_t>(alive_, 2)));
  return std::max(kExtrapolateMin, progress_interval(alive_, heartbeat_) +
                                       base::from_seconds(hops / 2 * base::seconds(heartbeat_)));
}

std::uint64_t ProgressTable::total(base::Time now) const {
  const base::Duration most = horizon();
  std::uint64_t total = 0;
  double ahead = 0;
  for (const Entry& entry : entries_) {
    const std::uint64_t counts = counted(entry, now);
    total += counts;  // no overflow: kProgressMax * kCounterMax = 2^63
    if (entry.latest.id_prefix == own_prefix_ || !entry.alive || entry.suspect) continue;
    const base::Duration age = std::clamp(now - entry.counted_at(), base::Duration{0}, most);
    const auto left = static_cast<double>(limit_of(entry, now) - counts);
    ahead += std::min(entry.latest.rate * base::seconds(age), left);
  }
  return total + static_cast<std::uint64_t>(std::min(ahead, 0x1p62));
}

double ProgressTable::rate(base::Time now) const {
  const base::Duration most = horizon();
  double rate = 0;
  for (const Entry& entry : entries_) {
    const bool counts = entry.alive && !entry.suspect && now - entry.counted_at() <= most;
    if (counts) rate += entry.latest.rate;
  }
  return rate;
}

const wire::Progress* ProgressTable::find(std::uint64_t id_prefix) const {
  const Entry* const entry = entry_of(id_prefix);
  return entry == nullptr ? nullptr : &entry->latest;
}

void ProgressTable::add_bounds(std::size_t neighbours, base::Bounds& out) const {
  out.add("progress counters", entries_.size(), kProgressMax);
  out.add("places of progress counters", places_.size(), entries_.size());
  out.add("changes of progress counters", changes_.size(), kChangesSlack * entries_.size());
  out.add("neighbours told of progress", sent_.size(), neighbours);
  out.add("new progress counters", new_.size(), 0);
}

std::uint64_t ProgressTable::samples_of(std::uint64_t id_prefix, base::Time now) const {
  const Entry* const entry = entry_of(id_prefix);
  return entry == nullptr ? 0 : counted(*entry, now);
}

std::optional<base::Duration> ProgressTable::age(std::uint64_t id_prefix, base::Time now) const {
  const Entry* const entry = entry_of(id_prefix);
  if (entry == nullptr) return std::nullopt;
  return now - entry->counted_at();
}

}  // namespace starling::membership
