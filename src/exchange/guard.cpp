#include "exchange/guard.hpp"

#include <algorithm>
#include <cmath>

namespace starling::exchange {
namespace {

// How much harder a neighbour may pull until what vouched for it no longer counts.
constexpr double kVouchedGrowth = 2.0;

}  // namespace

void Guard::set_trust(Trust trust, double apart) noexcept {
  trust_ = trust;
  tried_pull_ = reach_ ? reach_->pulled : 0.0;
  tried_apart_ = apart;
}

// What vouched for a neighbour was tried: its replica as it was, not one that it makes of it since.
Trust Guard::trust() const noexcept {
  const bool lapsed = reach_ && reach_->pulled > kVouchedGrowth * tried_pull_;
  return trust_ == Trust::vouched && lapsed ? Trust::unknown : trust_;
}

void Guard::stage(const Exchange& exchange, const delta::Elements& own,
                  const delta::Elements& their, bool looks_at_headings) {
  const double part = exchange.parts.own;
  now_ = {.pulled = part * exchange.apart / lag_,
          .moved = norm_of(own.values) / lag_,
          .told = norm_of(their.values) / lag_};
  if (now_.moved > 0 && part > 0) told_most_ = told_most(now_.moved, exchange.parts);
  if (looks_at_headings) headings_.add(own, their);
  const Reach opened{.pulled = part * exchange.before / lag_};
  Reach counted = now_;
  counted.told = std::min(now_.told, told_most_);
  staged_reach_ = grown(reach_.value_or(opened), counted);
}

void Guard::stage_nothing() noexcept {
  now_ = {};
  staged_reach_ = reach_;
}

void Guard::commit() noexcept {
  reach_ = staged_reach_;
  ++exchanges_;
}

double Guard::worse_with(double worse, double moves) const {
  return worse_ * std::pow(worse, moves);
}

void Guard::set_worse(double worse) noexcept { worse_ = std::max(worse, 1.0); }

}  // namespace starling::exchange
