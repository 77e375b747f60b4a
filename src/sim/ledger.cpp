#include "sim/ledger.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include "base/hash.hpp"
#include "delta/codec.hpp"

namespace starling::sim {
namespace {

/// Whether the job gives a link other mirrors.
bool sets_mirrors(const exchange::Job& job) {
  return std::holds_alternative<exchange::OpenJob>(job) ||
         std::holds_alternative<exchange::CloseJob>(job) ||
         std::holds_alternative<exchange::CommitJob>(job);
}

/// Jobs that move the replica by more than the step of a commit.
bool adopts(const exchange::Job& job) {
  const auto* commit = std::get_if<exchange::CommitJob>(&job);
  if (commit != nullptr && (commit->takes || commit->gathers > 0)) return true;
  const auto* open = std::get_if<exchange::OpenJob>(&job);
  return open != nullptr && open->decision == exchange::OpenDecision::adopt;
}

/// The commits that were applied.
std::set<exchange::JobTag> applied_of(std::span<const exchange::Outcome> outcomes) {
  std::set<exchange::JobTag> applied;
  for (const exchange::Outcome& outcome : outcomes) {
    const auto* done = std::get_if<exchange::Committed>(&outcome);
    if (done == nullptr || done->result != exchange::CommitResult::applied) continue;
    applied.insert(done->tag);
  }
  return applied;
}

exchange::Touched touched(const delta::Elements& delta, std::span<const float> mine,
                          std::span<const float> theirs) {
  exchange::Touched made{.delta = delta};
  for (const std::uint32_t index : delta.indices) {
    made.mine.push_back(mine[index]);
    made.theirs.push_back(theirs[index]);
  }
  return made;
}

}  // namespace

void Ledger::add_bounds(base::Bounds& out) const {
  out.add("links in the ledger", links_.size(), exchange::kLinksMax + exchange::kGraceLinksMax);
}

void Ledger::blame(std::string breach) {
  if (breach_.empty()) breach_ = std::move(breach);
}

double Ledger::sum(const exchange::Replica& replica) {
  x_.resize(replica.size());
  replica.read(x_);
  return std::accumulate(x_.begin(), x_.end(), 0.0);
}

void Ledger::before(Jobs due, const exchange::Replica& replica) {
  moved_.reset();
  shares_.clear();
  if (replica.size() > kSmallReplica && ++batches_ % kLargeEvery != 0) return;
  moved_ = -sum(replica);
  shares_ = shares_of(due, replica);
}

void Ledger::after(Jobs due, const exchange::Replica& replica,
                   std::span<const exchange::Outcome> outcomes) {
  const Tags applied = applied_of(outcomes);
  if (moved_) {
    *moved_ += sum(replica);
    if (!std::isfinite(*moved_)) blame("an exchange made the replica not finite");
    check_moved(due, applied, replica);
  }
  note_commits(due, applied, replica);
  if (due.size() != 1) return;
  if (const auto* open = std::get_if<exchange::OpenJob>(&due.front())) {
    check_adoption(*open, replica);
  }
}

void Ledger::note_opening(const exchange::OpenJob& job) {
  const auto& [link, times] = opens_on_[job.peer];
  links_[job.peer] = {.opening = base::xxh3(base::bytes_of(std::span(&link, 1)), times),
                      .serial = ++openings_,
                      .committed = {},
                      .moved = {},
                      .sum = 0,
                      .sum_before = 0,
                      .momentum = 0};
}

// A peer that adopts has the other's buffers, and the other's replica as in the mirrors. Other
// links of the same batch may have moved the replica since, so nothing is checked if there are any.
void Ledger::check_adoption(const exchange::OpenJob& job, const exchange::Replica& replica) {
  if (job.decision != exchange::OpenDecision::adopt || !replica.has(job.peer)) return;
  const auto buffers = base::bytes_of(replica.buffers().values());
  if (!std::ranges::equal(buffers, job.their_buffers)) {
    blame("does not have the buffers that it adopted");
  }
  x_.resize(replica.size());
  replica.read(x_);
  const auto mirror = replica.mirror(job.peer, exchange::MirrorOf::mine);
  for (std::size_t i = 0; i < x_.size(); ++i) {
    if (std::abs(x_[i] - mirror[i]) <= 1e-5F * (1 + std::abs(mirror[i]))) continue;
    return blame("does not have the replica that it adopted");
  }
}

// The effect of a commit on a replica follows from its mirrors and deltas: let D be the difference
// of the mirrors after both deltas. The replica moves by gamma s w D, times the part of this end,
// at both ends by the same bits; s is the clip. The weights of the ends are in the ratio of their
// parts, swapped.
std::optional<Ledger::Share> Ledger::share_of(const exchange::CommitJob& commit,
                                              const exchange::Replica& replica) const {
  const auto mine = replica.mirror(commit.peer, exchange::MirrorOf::mine);
  const auto theirs = replica.mirror(commit.peer, exchange::MirrorOf::theirs);
  delta::Elements own;
  delta::Elements their;
  if (!delta::decode(commit.own, mine.size(), own)) return std::nullopt;
  if (!delta::decode(commit.their, mine.size(), their)) return std::nullopt;
  const auto magnitude = [](const auto& values) {
    return std::accumulate(values.begin(), values.end(), 0.0, [](double all, float value) {
      return all + std::abs(static_cast<double>(value));
    });
  };
  std::vector<double> difference(theirs.begin(), theirs.end());
  for (std::size_t i = 0; i < mine.size(); ++i) difference[i] -= mine[i];
  for (std::size_t j = 0; j < own.size(); ++j) difference[own.indices[j]] -= own.values[j];
  for (std::size_t j = 0; j < their.size(); ++j) difference[their.indices[j]] += their.values[j];
  const double apart = std::accumulate(difference.begin(), difference.end(), 0.0);
  const double square =
      std::inner_product(difference.begin(), difference.end(), difference.begin(), 0.0);
  // As both ends know it: it is not exact where mirrors are rounded, or were much farther apart.
  exchange::Apart known = replica.apart(commit.peer);
  known.add(touched(own, mine, theirs), touched(their, mine, theirs));
  const double distance = known.is_vague() ? std::sqrt(square) : known.distance();
  const double clip = exchange::clip(distance, commit.parts, commit.own_radius, commit.their_radius,
                                     replica.averaging().far);
  return Share{
      .moved = static_cast<double>(replica.averaging().gamma) * clip *
               static_cast<double>(commit.w) * static_cast<double>(commit.parts.own) * apart,
      .weight = static_cast<double>(commit.parts.their),
      .size = 2 * (magnitude(mine) + magnitude(own.values)) + magnitude(theirs) +
              magnitude(their.values),
      .by_momentum = !commit.goes_on ? 0
                                     : clip *
                                           static_cast<double>(commit.degree_inverse *
                                                               replica.averaging().momentum_step) *
                                           momentum_after(commit, replica)};
}

// The sum of the elements of a link's momentum after an exchange is committed.
double Ledger::momentum_after(const exchange::CommitJob& commit,
                              const exchange::Replica& replica) const {
  const double momentum = static_cast<double>(replica.averaging().momentum);
  const auto link = links_.find(commit.peer);
  if (momentum == 0 || link == links_.end()) return 0;
  double sum = momentum * link->second.momentum;
  for (const auto& [payload, share] : {std::pair(&commit.own, commit.parts.own_share),
                                       std::pair(&commit.their, commit.parts.their_share)}) {
    delta::Elements delta;
    if (!delta::decode(*payload, replica.size(), delta)) return 0;
    sum += 0.5 * static_cast<double>(share) *
           std::accumulate(delta.values.begin(), delta.values.end(), 0.0);
  }
  return sum;
}

// Shares of the commits among these jobs, by their tags, except those whose mirrors another of the
// jobs sets. Call it before the jobs run.
Ledger::Shares Ledger::shares_of(Jobs due, const exchange::Replica& replica) const {
  Shares shares;
  for (const exchange::Job& job : due) {
    const auto* commit = std::get_if<exchange::CommitJob>(&job);
    if (commit == nullptr || !replica.has(commit->peer)) continue;
    const auto sets = [&](const exchange::Job& other) {
      return &other != &job && sets_mirrors(other) && exchange::peer_of(other) == commit->peer;
    };
    if (std::ranges::any_of(due, sets)) continue;
    if (const auto share = share_of(*commit, replica)) shares.emplace(commit->tag, *share);
  }
  return shares;
}

// Checks that commits moved the replica as their mirrors say, if nothing else moved it.
void Ledger::check_moved(Jobs due, const Tags& applied, const exchange::Replica& replica) {
  if (std::ranges::any_of(due, adopts)) return;
  double expected = 0;
  double size = 0;
  for (const exchange::JobTag tag : applied) {
    const auto share = shares_.find(tag);
    if (share == shares_.end()) return;
    expected += share->second.moved + share->second.by_momentum;
    size += share->second.size;
  }
  // Mirrors in bfloat16 differ from the intended values by up to their last bit.
  const bool whole = replica.averaging().mirror == delta::MirrorType::float32;
  const double rounding = whole ? 1e-5 : 0x1p-7;
  // Any job may divide x between y and r again; when a replica diverges, its last bits are large.
  double last_bits = 0;
  for (const float x : x_) last_bits += 0x1p-23 * std::abs(static_cast<double>(x));
  if (!(std::abs(*moved_ - expected) <= 1e-4 + rounding * size + last_bits)) {
    blame(fmt::format("moved by {} in a commit whose mirrors say {}", *moved_, expected));
  }
}

void Ledger::note_commits(Jobs due, const Tags& applied, const exchange::Replica& replica) {
  const bool other = std::ranges::any_of(due, adopts);
  for (const exchange::Job& job : due) {
    if (const auto* open = std::get_if<exchange::OpenJob>(&job)) note_opening(*open);
    if (std::holds_alternative<exchange::CloseJob>(job)) links_.erase(exchange::peer_of(job));
    const auto* commit = std::get_if<exchange::CommitJob>(&job);
    if (commit == nullptr || !applied.contains(commit->tag)) continue;
    const auto at = links_.find(commit->peer);
    if (at == links_.end()) continue;
    LinkLedger& link = at->second;
    if (commit->exchange != link.committed.next()) {
      blame(fmt::format("committed exchange {} with {} after exchange {}", commit->exchange.value,
                        commit->peer.brief(), link.committed.value));
    }
    link.committed = commit->exchange;
    link.momentum = momentum_after(*commit, replica);
    link.moved.reset();
    const auto share = shares_.find(commit->tag);
    if (applied.size() == 1 && !other && moved_ && share != shares_.end()) {
      link.moved = share->second.weight * (*moved_ - share->second.by_momentum);
    }
    link.sum_before = link.sum;
    if (link.sum && share != shares_.end()) {
      *link.sum += share->second.weight * share->second.moved;
    } else {
      link.sum.reset();
    }
    committed_.push_back(commit->peer);
  }
}

}  // namespace starling::sim
