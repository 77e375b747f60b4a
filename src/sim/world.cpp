#include "sim/world.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "base/assert.hpp"
#include "base/hash.hpp"

namespace starling::sim {
namespace {

/// Timers that may fire while time stands still; if there are more, a core asks for the same one
/// for ever.
constexpr std::uint32_t kWakesInPlaceMax = 10'000;
constexpr std::uint64_t kNatSeed = 0x4A7;  // so that nothing else depends on drawn ports

}  // namespace

World::World(const Plan& plan, Task& task, std::function<void(const std::string&)> trace)
    : plan_(plan),
      task_(task),
      trace_(std::move(trace)),
      paths_(plan),
      rng_(plan.seed),
      clocks_(~plan.seed),
      end_(kStart + base::from_seconds(plan.scenario.duration)) {
  if (!plan.scenario.nats.empty()) nat_.emplace(plan, plan.seed ^ kNatSeed);
  for (const PlannedPeer& peer : plan.peers) {
    auto node = std::make_unique<Node>();
    node->number = node->peer = peer.number;
    node->address = peer.name + ":1";
    node->speed = peer.speed;
    for (std::uint8_t& byte : node->id.bytes) byte = static_cast<std::uint8_t>(rng_.below(256));
    if (nat_) node->address = to_string(nat_->outer(peer.number).front());
    addresses_[node->address] = peer.number;
    nodes_.push_back(std::move(node));
  }
  for (std::size_t i = 0; i < plan.events.size(); ++i) {
    at(kStart + base::from_seconds(plan.events[i].at), Planned{i, true});
    if (plan.events[i].until) {
      at(kStart + base::from_seconds(*plan.events[i].until), Planned{i, false});
    }
  }
  after(std::chrono::seconds(1), Second{});
}

void World::at(base::Time time, Happening happening) {
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back(std::move(happening));
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = std::move(happening);
  }
  queue_.push({std::max(time, now_), order_++, slot});
}

void World::run() {
  while (!queue_.empty() && !stopped_) {
    const Queued next = queue_.top();
    if (next.at > end_) break;
    queue_.pop();
    now_ = next.at;
    Happening happening = std::move(slots_[next.slot]);
    free_slots_.push_back(next.slot);
    std::visit([&](auto& value) { happen(value); }, happening);
  }
  if (!stopped_ && queue_.empty()) return;
  if (!stopped_) now_ = end_;
}

void World::trace(const std::string& text) const {
  if (trace_) trace_(fmt::format("{:12.6f}  {}", seconds(), text));
}

void World::digest(const Node& node, std::uint32_t kind, std::uint64_t what) {
  const std::uint64_t words[] = {static_cast<std::uint64_t>(now_.time_since_epoch().count()),
                                 (std::uint64_t{node.number} << 32) | kind, what};
  trace_hash_ = base::xxh3(std::as_bytes(std::span(words)), trace_hash_);
  ++delivered_;
}

void World::happen(Wake& wake) {
  Node& node = *nodes_[wake.node];
  if (node.life != wake.life || !node.wake_at || *node.wake_at != now_) return;
  node.wake_at.reset();
  if (node.state != NodeState::running) return;
  wakes_in_place_ = last_wake_ == now_ ? wakes_in_place_ + 1 : 0;
  last_wake_ = now_;
  if (wakes_in_place_ > kWakesInPlaceMax && breach_.empty()) {
    breach_ = fmt::format("a timer of peer-{} fires for ever at one moment", node.peer);
    return stop();
  }
  const base::Time local_now = local(node);
  const auto deadline = node.core->next_deadline();
  if (deadline && *deadline <= local_now) {
    digest(node, 0, 0);
    if (tracing()) trace(fmt::format("peer-{} timer", node.number));
    peer::Outbox out;
    node.core->expire(local_now, out);
    act(node, out);
    if (observer_ != nullptr) observer_->touched(node);
  }
  schedule(node);
}

void World::happen(Work& work) {
  Node& node = *nodes_[work.node];
  if (node.life != work.life || node.work != work.serial || !is_up(node)) return;
  ASSERT(node.state == NodeState::running);
  node.working = false;
  for (peer::Outcome& outcome : node.worker->finish()) {
    const auto* step = std::get_if<peer::StepDone>(&outcome);
    if (step != nullptr && observer_ != nullptr) observer_->stepped(node, step->samples);
    give(node, std::move(outcome));
    if (!is_up(node) || node.life != work.life) return;
  }
  begin_work(node);
}

void World::happen(Dialed& dialed) {
  Node& node = *nodes_[dialed.node];
  if (node.life != dialed.life || !is_up(node)) return;
  // The other end may have come first.
  if (dialed.punch != 0 && !take_punch(dialed.punch)) return;
  Node* const to =
      nat_ ? dialed.route ? nodes_[dialed.route->to].get() : nullptr : find_address(dialed.address);
  const bool there = dialed.answered && to != nullptr && to->state == NodeState::running;
  if (there && node.state == NodeState::running) return connect(node, *to, dialed);
  const char* const text = dialed.no_route   ? "network is unreachable"
                           : dialed.answered ? "refused"
                                             : "no answer";
  give(node,
       peer::DialFailed{.address = dialed.address, .text = text, .no_route = dialed.no_route});
}

void World::happen(Closed& closed) {
  Node& node = *nodes_[closed.node];
  if (node.life != closed.life || !is_up(node)) return;
  const auto reason = closed.reset ? Reason::reset : Reason::closed;
  give(node, peer::LinkDown{closed.link, reason, closed.reset ? "reset" : "closed"});
}

void World::happen(Planned& planned) {
  const PlannedEvent& event = plan_.events[planned.event];
  if (tracing()) {
    trace(fmt::format("---- {} {} (line {}), peers [{}]", to_string(event.kind),
                      planned.begins ? "begins" : "ends", event.line, fmt::join(event.peers, " ")));
  }
  if (planned.begins) {
    if (observer_ != nullptr) observer_->fault(event, true);
    begin(event, planned.event);
  } else {
    end(event, planned.event);
    if (observer_ != nullptr) observer_->fault(event, false);
  }
}

void World::happen(Second&) {
  if (observer_ != nullptr) observer_->second();
  after(std::chrono::seconds(1), Second{});
}

double World::peer_seconds() const {
  double sum = 0;
  for (const auto& node : nodes_) {
    sum += node->up_seconds;
    if (is_up(*node)) sum += base::seconds(now_ - node->started);
  }
  return sum;
}

}  // namespace starling::sim
