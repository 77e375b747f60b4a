#include "exchange/tree.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/simulated.hpp"

namespace starling::exchange {

using base::PeerId;
using base::Time;
using wire::Turn;

void Tree::begin(double weight, const std::vector<PeerId>& neighbours, base::Duration usual,
                 Time now, Outbox& out) {
  ASSERT(state_ == State::waiting);
  usual_ = usual;
  own_weight_ = weight;
  std::erase_if(neighbours_, [&](const auto& entry) {
    return std::ranges::find(neighbours, entry.first) == neighbours.end();
  });
  for (const PeerId& peer : neighbours) neighbours_[peer];
  state_ = State::on;
  const bool off = std::ranges::any_of(
      neighbours_, [](const auto& entry) { return entry.second.said && entry.second.said->off; });
  if (neighbours_.empty() || off || SIM_RARE(settle_without_tree)) return give_up({}, out);
  for (const auto& [peer, neighbour] : neighbours_) {
    if (neighbour.said) consider(peer, *neighbour.said);
  }
  go_on(now, out);
}

void Tree::hear(const PeerId& peer, const wire::Settle& said, Time now, Outbox& out) {
  const bool is_known = neighbours_.contains(peer);
  if (state_ == State::off || (state_ == State::on && !is_known)) return;
  const bool was_child = is_child(neighbours_[peer]);
  neighbours_[peer].said = said;
  if (state_ != State::on) return;
  if (said.off) return give_up({}, out);
  consider(peer, said);
  const bool is_other = said.root != root_ || was_child != is_child(neighbours_[peer]);
  if (begun_ && is_other) return give_up("the tree has changed", out);
  go_on(now, out);
}

void Tree::consider(const PeerId& peer, const wire::Settle& said) {
  if (!begun_ && said.root < root_) {
    root_ = said.root;
    parent_ = peer;
  }
  if (parent_ == peer && said.root == root_ && said.begun) begun_ = true;
}

void Tree::lose(const PeerId& peer, Time now, Outbox& out) {
  const auto lost = neighbours_.find(peer);
  if (lost == neighbours_.end()) return;
  const bool is_over = (parent_ == peer && taken_) || lost->second.spread;
  const bool rests = parent_ != peer && !is_child(lost->second);
  if (state_ == State::on && !is_over && !rests) {
    return give_up("a link of the tree was lost", out);
  }
  if (state_ == State::on && is_over) return;
  neighbours_.erase(lost);
  if (state_ == State::on) go_on(now, out);
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
      taken_ = taken_ || parent_ == peer;
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

void Tree::expire(Time now, Outbox& out) {
  if (state_ == State::on && !is_done() && until_ <= now) give_up("neighbours are late", out);
}

bool Tree::is_done() const {
  if (state_ != State::on || !complete() || (parent_ && !taken_)) return false;
  return std::ranges::all_of(neighbours_, [this](const auto& entry) {
    return !is_child(entry.second) || entry.second.spread;
  });
}

Duty Tree::duty(const PeerId& peer) const {
  const auto at = neighbours_.find(peer);
  if (state_ != State::on || at == neighbours_.end() || !begun_) return Duty::none;
  const Neighbour& neighbour = at->second;
  if (parent_ == peer) return complete() && !told_up_ ? Duty::tell_up : Duty::none;
  if (!is_child(neighbour)) return Duty::none;
  if (!neighbour.gathered) return Duty::gather;
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

std::vector<PeerId> Tree::neighbours() const {
  std::vector<PeerId> peers;
  for (const auto& [peer, neighbour] : neighbours_) peers.push_back(peer);
  return peers;
}

void Tree::visit_timers(const TimerVisitor& visit) const {
  if (state_ == State::on && !is_done()) {
    visit("settling along the tree", until_, std::max(patience_, kAnswerWait) + usual_);
  }
}

void Tree::add_bounds(std::size_t links, base::Bounds& out) const {
  out.add("neighbours in the tree", neighbours_.size(), links);
}

bool Tree::is_child(const Neighbour& neighbour) const {
  return neighbour.said && neighbour.said->child && neighbour.said->root == root_;
}

bool Tree::ready() const {
  return std::ranges::all_of(neighbours_, [this](const auto& entry) {
    const std::optional<wire::Settle>& said = entry.second.said;
    return said && said->root == root_ && (!said->child || said->ready);
  });
}

bool Tree::complete() const {
  return begun_ && std::ranges::all_of(neighbours_, [this](const auto& entry) {
           return !is_child(entry.second) || entry.second.gathered;
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
  until_ = now + (awaits_answer() ? kAnswerWait : patience_) + usual_;
  tell(out);
}

void Tree::tell(Outbox& out) {
  const bool is_ready = ready();
  for (auto& [peer, neighbour] : neighbours_) {
    const wire::Settle news{.root = root_,
                            .child = parent_ == peer,
                            .ready = is_ready,
                            .begun = begun_,
                            .off = state_ == State::off};
    if (neighbour.told == news) continue;
    neighbour.told = news;
    out.emplace_back(Send{peer, news});
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
