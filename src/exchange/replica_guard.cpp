// What guards a replica from its neighbours: how far each may move it, and what there is to audit.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/assert.hpp"
#include "exchange/replica.hpp"

namespace starling::exchange {

using base::fail;
using base::PeerId;

namespace {

// Links that move this end by a smaller part of a step need no audit.
constexpr float kAuditedPart = 0.25F;

// Links that move this end by a smaller part than another one does say nothing of what is usual
// there.
constexpr float kComparedPart = 0.25F;

// Times the loss that it had before which a replica may have after an exchange in settling, or by
// all those of one link. Of honest peers it becomes less as a rule, and hardly ever 1 % more.
constexpr double kWorseMost = 1.2;

// The same of one that is adopted: in its first steps, training may make an honest one so much
// worse than an untrained one.
constexpr double kAdoptedWorseMost = 4.0;

// The same where samples differ, and next to the initial parameters: a good one may do far worse on
// this peer's samples, the more so than a replica that has learned them alone.
constexpr double kAdoptedWorseOwn = 15.0;

// How far a peer that heals goes with a vouched neighbour: in multiples of how far it was from it
// when that one was tried, or is by now if that is less. What the neighbour told since, nobody has
// vouched for.
constexpr double kHealedGrowth = 2.0;

// How far this end may go at once when it settles, where no judge can say whether that is good: in
// multiples of how far it was from what a neighbour knew of it. Peers are as far from their mean.
constexpr double kSettleReach = 4.0;

}  // namespace

std::optional<float> Replica::radius(const PeerId& peer, double lag, bool tried) {
  if (!averaging_.clips) return std::nullopt;
  Link& link = this->link(peer);
  link.guard.set_lag(lag);
  if (tried && judges_exchanges()) return std::nullopt;
  const Trust trust = link.guard.trust();
  // Before a first exchange, the own delta says what is usual.
  const auto& reach = link.guard.reach();
  const double written = reach ? 0.0 : norm_of(*link.written) / lag;
  const Reach first{.pulled = written, .moved = written, .told = written};
  std::vector<Reach> all;
  for (const auto& [other, its] : links_) {
    if (other != peer && (!its.open || !its.guard.moves())) continue;
    if (its.parts.own < kComparedPart * link.parts.own) continue;
    all.push_back(its.guard.reach().value_or(reach.value_or(first)));
  }
  for (Reach& one : all) {
    one.pulled *= lag;
    one.told *= lag;
  }
  Clipped own{.reach = reach.value_or(first), .trust = trust, .cosine = link.guard.cosine()};
  own.reach.moved *= lag;
  const float usual =
      clip_radius(std::move(all), open_links() < kClipLinksMin, own, averaging_.far);
  if (!heals_ || trust != Trust::vouched) return usual;
  const double apart = std::min(link.apart.distance(), link.guard.tried_apart());
  const double known = apart + norm_of(*link.written);
  return std::max(usual, as_radius(kHealedGrowth * known));
}

double Replica::norm_of(const delta::Delta& delta) {
  std::vector<float>& values = touched_[0].delta.values;
  must(delta.read(touched_[0].delta.indices, values));
  return exchange::norm_of(values);
}

void Replica::set_trust(const PeerId& peer, Trust trust) {
  Link& link = this->link(peer);
  link.guard.set_trust(trust, link.apart.distance());
}

std::vector<Pulling> Replica::pulling() const {
  std::vector<Pulling> peers;
  for (const auto& [peer, link] : links_) {
    const std::size_t known = std::min(link.known_buffers.size(), link.told_buffers.size());
    const auto& reach = link.guard.reach();
    if (!link.open || !reach || known != buffers_.size()) continue;
    if (link.parts.own < kAuditedPart) continue;
    peers.push_back({.peer = peer, .pulled = reach->pulled, .exchanges = link.guard.exchanges()});
  }
  return peers;
}

std::span<const float> Replica::known_buffers(const PeerId& peer, MirrorOf which) const {
  const Link& link = this->link(peer);
  return which == MirrorOf::theirs ? link.known_buffers : link.told_buffers;
}

// Of the exchange that was staged last.
base::Result<Apart> Replica::measure_apart(const Link& link) const {
  const auto mine = values_after(link.mine, touched_[0]);
  if (!mine) return fail(mine.error());
  const auto theirs = values_after(link.theirs, touched_[1]);
  if (!theirs) return fail(theirs.error());
  return Apart(square_between(*mine, *theirs));
}

base::Result<base::LargeFloats> Replica::values_after(MirrorId mirror, const Touched& by) const {
  auto values = memory_->mirror(mirror);
  if (!values) return fail(noted(fail(values.error())).error());
  for (std::size_t i = 0; i < by.delta.indices.size(); ++i) {
    (*values)[by.delta.indices[i]] += by.delta.values[i];
  }
  return values;
}

base::Status Replica::judge_adopted(std::span<const float> values,
                                    std::span<const float> buffers) const {
  if (!judge_) return {};
  base::LargeFloats x;
  std::span<const float> here = initial_;
  if (judges_exchanges()) {
    x.resize(size());
    if (auto status = noted(memory_->read(x)); !status) return status;
    here = x;
  }
  const double worse = judge_(here, values, buffers);
  if (worse <= (judges_exchanges() ? kAdoptedWorseMost : kAdoptedWorseOwn)) return {};
  return fail(base::ErrorCode::judged_bad,
              "on this peer's data its replica has {:.1f} times the loss of an untrained one",
              worse);
}

// In settling, nobody trains away what a neighbour told. So what an exchange would make of this end
// is tried before it is committed: the replica that is taken, or gathered as a part of a mean, or
// the one to which a link pulls, however slowly.
bool Replica::refuse_if_bad(const PeerId& peer) {
  Link& link = this->link(peer);
  ASSERT(link.staged);
  const Staged& staged = *link.staged;
  const bool averages = !staged.takes && staged.gathers == 0.0F;
  if (!averaging_.clips || (averages && (!judges_exchanges() || link.parts.own == 0.0F)))
    return false;
  auto theirs = values_after(link.theirs, touched_[1]);
  base::LargeFloats x(size());
  must(memory_->read(x));
  if (!theirs || !status_) return false;
  base::LargeFloats& there = *theirs;
  if (averages) {
    const auto mine = values_after(link.mine, touched_[0]);
    if (!mine) return false;
    for (std::size_t i = 0; i < there.size(); ++i) there[i] += x[i] - (*mine)[i];
  } else if (staged.gathers > 0.0F) {
    for (std::size_t i = 0; i < there.size(); ++i) {
      there[i] = averaged(x[i], there[i], staged.gathers);
    }
  }
  if (judges_exchanges()) {
    // Many exchanges that each do a little harm do much together. Each link answers for its own.
    const double worse = judge_(x, there, staged.their_buffers);
    const double moves = averages ? double{staged.w * link.parts.own} : 1.0;
    const double so_far = link.guard.worse_with(worse, moves);
    if (std::max(worse, so_far) <= kWorseMost) {
      link.guard.set_worse(so_far);
      return false;
    }
  } else if (std::sqrt(square_between(x, there)) <= kSettleReach * untold_) {
    return false;
  }
  link.staged.reset();
  return true;
}

}  // namespace starling::exchange
