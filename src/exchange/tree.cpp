#include "exchange/tree.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"

namespace starling::exchange {

using base::PeerId;
using base::Time;
using wire::Turn;

Tree::Tree(std::uint64_t rank, base::Duration patience)
    : patience_(patience),
      slow_after_(kSlowAfter + kSlowAfter * static_cast<int>(rank >> 32U & 0xFFU) / 256),
      root_(rank) {}

void Tree::begin(double weight, const std::vector<Branch>& branches, base::Duration usual, Time now,
                 Outbox& out) {
  ASSERT(state_ == State::waiting);
  usual_ = usual;
  own_weight_ = weight;
  std::erase_if(neighbours_, [&](const auto& entry) {
    if (std::ranges::find(branches, entry.first, &Branch::peer) != branches.end()) return false;
    out.emplace_back(Send{entry.first, wire::Settle{.apart = true}});
    left_out_.push_back(entry.first);
    return true;
  });
  for (const Branch& branch : branches) neighbours_[branch.peer].slow = branch.slow;
  state_ = State::on;
  const bool off = std::ranges::any_of(
      neighbours_, [](const auto& entry) { return entry.second.said && entry.second.said->off; });
  if (neighbours_.empty() || off || SIM_RARE(settle_without_tree)) return give_up({}, out);
  beat_at_ = now + kBeatEvery;
  for (const auto& [peer, neighbour] : neighbours_) {
    if (neighbour.said) consider(peer, *neighbour.said, now);
  }
  go_on(now, out);
}

void Tree::hear(const PeerId& peer, const wire::Settle& said, Time now, Outbox& out) {
  if (said.apart) return leave_out(peer, now, out);
  if (state_ != State::waiting && !neighbours_.contains(peer)) {
    const bool is_off = state_ == State::off && said.follows;
    if (is_off || !said.follows || follows_) {
      out.emplace_back(Send{peer, wire::Settle{.off = is_off, .apart = !is_off}});
      return;
    }
  }
  if (state_ == State::off) return;
  Neighbour& neighbour = neighbours_[peer];
  const bool was_child = neighbour.is_child_of(root_);
  const bool beats = neighbour.said && neighbour.said->beat != said.beat;
  neighbour.said = said;
  if (state_ != State::on) return;
  if (said.off) return give_up({}, out);
  if (beats) neighbour.stirred = now;
  if (beats && !awaits_answer()) wait_on(now);
  if (follows_) return;
  if (neighbour.follows()) return go_on(now, out);
  consider(peer, said, now);
  const bool is_other = said.root != root_ || was_child != neighbour.is_child_of(root_);
  if (begun_ && is_other) return give_up("the tree has changed", out);
  if (!beats) go_on(now, out);
}

void Tree::leave_out(const PeerId& peer, Time now, Outbox& out) {
  const auto at = neighbours_.find(peer);
  if (state_ != State::on || at == neighbours_.end()) return;
  if (at->second.follows()) {  // it has the mean from another
    at->second.spread = true;
    return go_on(now, out);
  }
  if (!follows_) left_out_by_.push_back(peer);
  drop(peer, now, out);
}

void Tree::follow(Outbox& out) {
  follows_ = begun_ = told_up_ = true;
  parent_.reset();
  for (const PeerId& peer : std::exchange(left_out_by_, {})) neighbours_[peer];
  tell(out);
}

void Tree::consider(const PeerId& peer, const wire::Settle& said, Time now) {
  if (!begun_ && said.root < root_ && neighbours_.at(peer).slow) {
    slow_at_ = slow_at_.value_or(now + slow_after_);
  } else {
    take_root(peer, said);
  }
}

void Tree::take_root(const PeerId& peer, const wire::Settle& said) {
  if (!begun_ && said.root < root_) {
    root_ = said.root;
    parent_ = peer;
  }
  if (parent_ == peer && said.root == root_ && said.begun) begun_ = true;
}

void Tree::lose(const PeerId& peer, Time now, Outbox& out) {
  std::erase(left_out_by_, peer);
  drop(peer, now, out);
}

void Tree::drop(const PeerId& peer, Time now, Outbox& out) {
  const auto lost = neighbours_.find(peer);
  if (lost == neighbours_.end()) return;
  const bool is_over = (parent_ == peer && taken_) || lost->second.spread;
  const bool rests = parent_ != peer && !lost->second.is_child_of(root_);
  if (state_ == State::on && is_over) {
    lost->second.is_gone = true;
    return;
  }
  neighbours_.erase(lost);
  if (state_ != State::on) return;
  if (!rests) return give_up("a link of the tree was lost", out);
  if (neighbours_.empty() && !follows_ && !left_out_by_.empty()) return follow(out);
  if (neighbours_.empty()) return give_up({}, out);
  go_on(now, out);
}

float Tree::gather(const PeerId& peer, float weight) {
  const auto child = neighbours_.find(peer);
  if (child == neighbours_.end() || !(weight > 0)) return 0;
  child->second.weight = static_cast<double>(weight);
  return weight / this->weight();
}

void Tree::committed(const PeerId& peer, Effect effect, Time now, Outbox& out) {
  const auto at = neighbours_.find(peer);
  if (state_ != State::on || at == neighbours_.end()) return;
  switch (effect) {
    case Effect::tells:
      told_up_ = true;
      break;
    case Effect::gathers:
      at->second.gathered = true;
      break;
    case Effect::takes:
      if (follows_) {
        take_as_follower(peer, out);
      } else {
        taken_ = taken_ || parent_ == peer;
      }
      break;
    case Effect::spreads:
      at->second.spread = true;
      break;
    case Effect::holds:
      break;
    case Effect::averages:
    case Effect::crosses:
      return;  // brings the tree no further
  }
  go_on(now, out);
}

void Tree::take_as_follower(const PeerId& from, Outbox& out) {
  if (taken_) return;
  taken_ = true;
  parent_ = from;
  for (const auto& [peer, neighbour] : neighbours_) {
    if (peer != from && !neighbour.is_gone) {
      out.emplace_back(Send{peer, wire::Settle{.apart = true}});
    }
  }
}

void Tree::expire(Time now, Outbox& out) {
  if (state_ != State::on || is_done()) return;
  if (beat_at_ <= now) beat(now, out);
  if (slow_at_ && *slow_at_ <= now) {
    slow_at_.reset();
    for (const auto& [peer, neighbour] : neighbours_) {
      if (neighbour.slow && neighbour.said) take_root(peer, *neighbour.said);
    }
    go_on(now, out);
  }
  if (until_ > now) return;
  if (!is_spread()) return give_up("neighbours are late", out);
  // Whoever only follows holds nobody up.
  std::erase_if(neighbours_,
                [](const auto& entry) { return entry.second.follows() && !entry.second.spread; });
}

bool Tree::is_spread() const {
  if (state_ != State::on || !complete()) return false;
  if ((parent_ || follows_) && !taken_) return false;
  return std::ranges::all_of(neighbours_, [this](const auto& entry) {
    return !entry.second.is_child_of(root_) || entry.second.spread;
  });
}

bool Tree::is_done() const {
  return is_spread() && std::ranges::all_of(neighbours_, [](const auto& entry) {
           return !entry.second.follows() || entry.second.spread;
         });
}

Duty Tree::duty(const PeerId& peer) const {
  const auto at = neighbours_.find(peer);
  if (state_ != State::on || at == neighbours_.end() || !begun_) return Duty::none;
  const Neighbour& neighbour = at->second;
  if (parent_ == peer) return complete() && !told_up_ ? Duty::tell_up : Duty::none;
  if (!neighbour.is_child_of(root_) && !neighbour.follows()) return Duty::none;
  if (neighbour.is_child_of(root_) && !neighbour.gathered) return Duty::gather;
  const bool has_mean = parent_ ? taken_ : complete();
  return has_mean && !neighbour.spread ? Duty::tell_down : Duty::none;
}

Turn Tree::turn(const PeerId& peer, bool told, std::optional<Turn> awaits) const {
  if (state_ != State::on || !begun_) return Turn::average;
  switch (duty(peer)) {
    case Duty::tell_up:
      return told ? Turn::up : Turn::hold;
    case Duty::tell_down:
      return told ? Turn::down : Turn::hold;
    case Duty::gather:
      return awaits == Turn::up ? Turn::gather : Turn::hold;
    case Duty::none:
      break;
  }
  return Turn::hold;
}

float Tree::weight() const {
  double all = own_weight_;
  for (const auto& [peer, neighbour] : neighbours_) all += neighbour.weight;
  return static_cast<float>(std::min(all, static_cast<double>(wire::kSettleWeightMax)));
}

bool Tree::includes(const PeerId& peer) const {
  const auto is_peer = [&peer](const PeerId& other) { return other == peer; };
  return neighbours_.contains(peer) || std::ranges::any_of(left_out_, is_peer) ||
         std::ranges::any_of(left_out_by_, is_peer);
}

std::vector<PeerId> Tree::neighbours() const {
  std::vector<PeerId> peers;
  for (const auto& [peer, neighbour] : neighbours_) peers.push_back(peer);
  std::ranges::copy(left_out_by_, std::back_inserter(peers));
  return peers;
}

void Tree::visit_timers(const TimerVisitor& visit) const {
  if (state_ != State::on || is_done()) return;
  visit("settling along the tree", until_, std::max(patience_, kAnswerWait) + usual_);
  visit("the next beat along the tree", beat_at_, kBeatEvery);
  visit("roots told over slow links", slow_at_, 2 * kSlowAfter);
}

void Tree::add_bounds(std::size_t links, base::Bounds& out) const {
  out.add("neighbours in the tree", neighbours_.size(), links);
}

bool Tree::Neighbour::is_child_of(std::uint64_t root) const {
  return said && said->child && said->root == root;
}

bool Tree::Neighbour::follows() const { return said && said->follows; }

bool Tree::ready() const {
  return std::ranges::all_of(neighbours_, [this](const auto& entry) {
    if (entry.second.follows()) return true;
    const std::optional<wire::Settle>& said = entry.second.said;
    return said && said->root == root_ && (!said->child || said->ready);
  });
}

bool Tree::complete() const {
  return begun_ && std::ranges::all_of(neighbours_, [this](const auto& entry) {
           return !entry.second.is_child_of(root_) || entry.second.gathered;
         });
}

bool Tree::awaits_answer() const {
  return std::ranges::any_of(neighbours_, [this](const auto& entry) {
    const Duty duty = this->duty(entry.first);
    return duty == Duty::tell_up || duty == Duty::tell_down;
  });
}

// Something has happened.
void Tree::go_on(Time now, Outbox& out) {
  if (!parent_ && ready()) begun_ = true;
  moved_at_ = now;
  wait_on(now);
  tell(out);
}

void Tree::wait_on(Time now) {
  until_ = now + (awaits_answer() ? kAnswerWait : patience_) + usual_;
}

void Tree::tell(Outbox& out) {
  const bool is_ready = ready();
  for (auto& [peer, neighbour] : neighbours_) {
    const wire::Settle news{.root = root_,
                            .child = parent_ == peer && !follows_,
                            .ready = is_ready,
                            .begun = begun_,
                            .off = state_ == State::off,
                            .follows = follows_,
                            .beat = neighbour.told ? neighbour.told->beat : 0};
    if (neighbour.is_gone || neighbour.told == news) continue;
    neighbour.told = news;
    out.emplace_back(Send{peer, news});
  }
}

// What came from a neighbour is not told to it again: so in a tree, it ends.
void Tree::beat(Time now, Outbox& out) {
  beat_at_ = now + kBeatEvery;
  if (!begun_ || follows_) return;
  for (auto& [peer, neighbour] : neighbours_) {
    Time latest = moved_at_;
    for (const auto& [other, stirs] : neighbours_) {
      if (other != peer) latest = std::max(latest, stirs.stirred);
    }
    const bool is_in_it = !neighbour.is_gone &&
                          (parent_ == peer || neighbour.is_child_of(root_) || neighbour.follows());
    if (!is_in_it || !neighbour.told || latest <= neighbour.beaten) continue;
    neighbour.beaten = now;
    ++neighbour.told->beat;
    out.emplace_back(Send{peer, *neighbour.told});
  }
}

void Tree::give_up(std::string_view why, Outbox& out) {
  state_ = State::off;
  if (!why.empty()) {
    out.emplace_back(base::LogEntry{base::Severity::info,
                                    fmt::format("settles with each neighbour by itself: {}", why)});
  }
  tell(out);
}

}  // namespace starling::exchange
