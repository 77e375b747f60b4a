// What guards a replica from its neighbours: how far each may move it, and what there is to audit.
#include <algorithm>
#include <utility>

#include "exchange/replica.hpp"

namespace starling::exchange {

using base::fail;
using base::PeerId;

namespace {

// Links that move this end by a smaller part of a step need no audit.
constexpr float kAuditedPart = 0.25F;

}  // namespace

std::optional<float> Replica::radius(const PeerId& peer, double lag) {
  if (!averaging_.clips) return std::nullopt;
  Link& link = this->link(peer);
  link.lag = lag;
  const bool any = heals_ && link.trust == Trust::vouched;
  if (any) return std::nullopt;
  // Before a first exchange, the own delta says what is usual.
  const double written = link.reach ? 0.0 : norm_of(*link.written) / lag;
  const Reach first{.pulled = written, .moved = written, .told = written};
  std::vector<Reach> all;
  for (const auto& [other, its] : links_) {
    if (its.open) all.push_back(its.reach.value_or(link.reach.value_or(first)));
  }
  for (Reach& reach : all) {
    reach.pulled *= lag;
    reach.told *= lag;
  }
  Reach own = link.reach.value_or(first);
  own.moved *= lag;
  return clip_radius(std::move(all), own, clip_multiple(link.trust));
}

double Replica::norm_of(const delta::Delta& delta) {
  std::vector<float>& values = touched_[0].delta.values;
  must(delta.read(touched_[0].delta.indices, values));
  return exchange::norm_of(values);
}

void Replica::set_trust(const PeerId& peer, Trust trust) { link(peer).trust = trust; }

std::vector<Pulling> Replica::pulling() const {
  std::vector<Pulling> peers;
  for (const auto& [peer, link] : links_) {
    const std::size_t known = std::min(link.known_buffers.size(), link.told_buffers.size());
    if (!link.open || !link.reach || known != buffers_.size()) continue;
    if (link.parts.own >= kAuditedPart) peers.push_back({peer, link.reach->pulled});
  }
  return peers;
}

std::span<const float> Replica::known_buffers(const PeerId& peer, MirrorOf which) const {
  const Link& link = this->link(peer);
  return which == MirrorOf::theirs ? link.known_buffers : link.told_buffers;
}

// Of the mirrors with their deltas, in touched_.
base::Result<Apart> Replica::measure_apart(const Link& link) const {
  const MirrorId ids[2] = {link.mine, link.theirs};
  base::LargeFloats values[2];
  for (std::size_t side = 0; side < 2; ++side) {
    auto mirror = memory_->mirror(ids[side]);
    if (!mirror) return fail(mirror.error());
    values[side] = std::move(*mirror);
    const delta::Elements& delta = touched_[side].delta;
    for (std::size_t i = 0; i < delta.indices.size(); ++i) {
      values[side][delta.indices[i]] += delta.values[i];
    }
  }
  return Apart(square_between(values[0], values[1]));
}

base::Status Replica::judge_adopted(std::span<const float> values,
                                    std::span<const float> buffers) const {
  if (!judge_) return {};
  base::LargeFloats x(size());
  if (auto status = noted(memory_->read(x)); !status) return status;
  const double worse = judge_(x, values, buffers);
  if (worse <= kWorseMost) return {};
  return fail(base::ErrorCode::protocol,
              "keyframe: on this peer's data its loss is {:.1f} times that of an untrained replica",
              worse);
}

// In settling, nobody trains away what a link pulls to.
void Replica::look_where_it_pulls(Link& link) {
  if (!judge_ || link.w == 0.0F || link.parts.own == 0.0F) return;
  const auto mine = memory_->mirror(link.mine);
  if (!mine) return static_cast<void>(must(base::Status(fail(mine.error()))));
  auto there = memory_->mirror(link.theirs);
  if (!there) return static_cast<void>(must(base::Status(fail(there.error()))));
  base::LargeFloats x(size());
  must(memory_->read(x));
  for (std::size_t i = 0; i < x.size(); ++i) (*there)[i] += x[i] - (*mine)[i];
  link.refused = judge_(x, *there, link.their_buffers) > kWorseMost;
}

}  // namespace starling::exchange
