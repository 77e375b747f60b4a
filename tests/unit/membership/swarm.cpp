#include "swarm.hpp"

#include <algorithm>
#include <iterator>

#include <boost/test/unit_test.hpp>

#include "base/assert.hpp"
#include "wire/progress.hpp"

namespace starling::membership::testing {

namespace {

constexpr base::Duration kLossPauseMax = std::chrono::seconds(120);  // of TCP, as in Linux

}  // namespace

std::string address_of(std::size_t index) { return "peer-" + std::to_string(index) + ":1"; }

Swarm::Swarm(std::uint64_t seed, SwarmOptions options) : options_(options), rng_(seed) {}

std::size_t Swarm::add(std::vector<std::string> join, base::Duration after) {
  auto node = std::make_unique<Node>();
  for (std::uint8_t& byte : node->id.bytes) byte = static_cast<std::uint8_t>(rng_.below(256));
  const std::size_t index = nodes_.size();
  indices_.emplace(node->id, index);
  addresses_.emplace(address_of(index), index);
  nodes_.push_back(std::move(node));
  network_.after(after, [this, index, join = std::move(join)] { start(index, join); });
  return index;
}

void Swarm::start(std::size_t index, std::vector<std::string> join) {
  Node& node = *nodes_[index];
  Config config;
  config.degree = options_.degree;
  config.hub = options_.hub;
  config.join = std::move(join);
  wire::MemberRecord self{.id = node.id,
                          .name = "peer-" + std::to_string(index),
                          .addresses = {address_of(index)},
                          .incarnation = 1};
  node.signer.emplace(node.id);
  node.core.emplace(config, self, *node.signer, rng_.fork());
  Outbox out;
  node.core->expire(now(), out);
  act(index, out);
  node.scheduled.reset();
  schedule(index);
}

void Swarm::kill(std::size_t index, bool silent) {
  Node& node = *nodes_[index];
  node.core.reset();
  ++node.life;
  node.paused = false;
  node.backlog.clear();
  for (const auto& [link, place] : network_.links(index)) {
    network_.close(place);
    if (silent) continue;
    carry(place, [this, other = place.across()] { lose(other, LossReason::reset); });
  }
  node.relations.clear();
  node.neighbours.clear();
}

void Swarm::restart(std::size_t index, std::vector<std::string> join) {
  ASSERT(!up(index));
  start(index, std::move(join));
}

void Swarm::pause(std::size_t index) { nodes_[index]->paused = true; }

void Swarm::resume(std::size_t index) {
  Node& node = *nodes_[index];
  node.paused = false;
  std::vector<Event> backlog;
  backlog.swap(node.backlog);
  for (const Event& event : backlog) deliver(index, event);
  node.scheduled.reset();
  if (const auto due = node.core->next_deadline(); due && *due <= now()) {
    Outbox out;
    node.core->expire(now(), out);
    act(index, out);
  }
  schedule(index);
}

void Swarm::partition(const std::vector<int>& groups) {
  ASSERT(groups.size() == nodes_.size());
  groups_ = groups;
}

void Swarm::reset_links(std::size_t a, std::size_t b) {
  for (std::size_t c = 0; c < network_.size(); ++c) {
    const std::size_t from = network_.end({c, 0}).peer;
    const std::size_t to = network_.end({c, 1}).peer;
    if (std::pair(std::min(from, to), std::max(from, to)) !=
        std::pair(std::min(a, b), std::max(a, b))) {
      continue;
    }
    for (const int side : {0, 1}) lose({c, side}, LossReason::reset);
  }
}

void Swarm::lose_links(std::size_t told, std::size_t other) {
  for (const auto& [link, place] : network_.links(told)) {
    if (network_.end(place.across()).peer == other) lose(place, LossReason::reset);
  }
}

void Swarm::inject(std::size_t index, const Event& event) { deliver(index, event); }

void Swarm::forge(std::size_t from, std::size_t to, wire::Message message) {
  for (const auto& [link, place] : network_.links(to)) {
    if (network_.end(place.across()).peer != from) continue;
    if (!dialed_[place.connection].ready[place.side]) continue;
    deliver(to, Received{link, std::move(message)});
    return;
  }
  BOOST_FAIL("no link to forge on");
}

base::Duration Swarm::delay() {
  const double spread = base::seconds(options_.delay_max - options_.delay_min);
  return options_.delay_min + base::from_seconds(spread * rng_.uniform());
}

void Swarm::run_for(base::Duration duration) { network_.run_until(now() + duration); }

// One task for the deadline that a core has now; a later call makes it void.
void Swarm::schedule(std::size_t index) {
  Node& node = *nodes_[index];
  if (!node.core) return;
  const auto due = node.core->next_deadline();
  if (due == node.scheduled) return;
  node.scheduled = due;
  if (!due) return;
  network_.at(*due, [this, index, due, life = node.life] {
    Node& late = *nodes_[index];
    if (late.life != life || !late.core || late.paused || late.scheduled != due) return;
    Outbox out;
    late.core->expire(now(), out);
    const auto again = late.core->next_deadline();
    BOOST_REQUIRE_MESSAGE(!again || *again > now(), "a deadline that was handled is set again");
    act(index, out);
    schedule(index);
  });
}

void Swarm::judge(std::size_t index) {
  Node& node = *nodes_[index];
  const std::set<base::PeerId>& dead = node.core->table().dead();
  std::vector<base::PeerId> changed;
  std::set_symmetric_difference(dead.begin(), dead.end(), node.held_dead.begin(),
                                node.held_dead.end(), std::back_inserter(changed));
  for (const base::PeerId& id : changed) ++node.verdicts[id];
  if (!changed.empty()) node.held_dead = dead;
}

std::size_t Swarm::verdicts(std::size_t about, std::size_t first) const {
  std::size_t most = 0;
  for (std::size_t i = first; i < size(); ++i) {
    const auto found = nodes_[i]->verdicts.find(nodes_[about]->id);
    if (found != nodes_[i]->verdicts.end()) most = std::max(most, found->second);
  }
  return most;
}

void Swarm::heal() {
  groups_.clear();
  for (auto& node : nodes_) node->mute = false;
}

void Swarm::lossy(std::vector<std::size_t> peers, double chance, base::Duration timeout) {
  loss_timeout_ = timeout;
  for (const std::size_t peer : peers) nodes_[peer]->loss = chance;
}

void Swarm::mute(const std::vector<std::size_t>& peers) {
  for (const std::size_t peer : peers) nodes_[peer]->mute = true;
}

bool Swarm::run_until(base::Duration limit, const std::function<bool()>& done) {
  const base::Time end = now() + limit;
  while (!done()) {
    if (now() >= end) return false;
    run_for(std::chrono::milliseconds(10));
  }
  return true;
}

void Swarm::deliver(std::size_t index, const Event& event) {
  Node& node = *nodes_[index];
  if (!node.core) return;
  if (node.paused) {
    node.backlog.push_back(event);
    return;
  }
  Outbox out;
  node.core->handle(event, now(), out);
  act(index, out);
  schedule(index);
}

void Swarm::act(std::size_t index, Outbox& out) {
  Node& node = *nodes_[index];
  for (const Action& action : out) {
    if (const auto* d = std::get_if<Dial>(&action)) {
      ++node.dials;
      dial(index, d->address);
    } else if (const auto* s = std::get_if<Send>(&action)) {
      send(index, s->link, s->message);
    } else if (const auto* c = std::get_if<Close>(&action)) {
      close(index, c->link, c->reason);
    } else if (const auto* u = std::get_if<NeighbourUp>(&action)) {
      const std::size_t other = index_of(u->peer);
      const bool is_new = node.neighbours.emplace(u->link, other).second;
      BOOST_REQUIRE_MESSAGE(is_new && ++node.relations[other] == 1,
                            "two relations with one peer at a time");
    } else if (const auto* down = std::get_if<NeighbourDown>(&action)) {
      BOOST_REQUIRE(node.neighbours.erase(down->link) == 1);
      node.relations.erase(index_of(down->peer));
      ++node.downs;
    } else if (std::get_if<MembersChanged>(&action) != nullptr) {
      judge(index);
    }
  }
}

void Swarm::dial(std::size_t index, const std::string& address) {
  std::optional<std::size_t> target;
  const auto known = addresses_.find(address);
  if (known != addresses_.end()) target = known->second;
  const std::uint64_t life = nodes_[index]->life;
  const auto fail_after = [&](base::Duration pause) {
    network_.after(pause, [this, index, address, life] {
      if (nodes_[index]->life == life) deliver(index, DialFailed{address, "nobody there", false});
    });
  };
  if (!target || !reachable(index, *target)) return fail_after(std::chrono::seconds(2));
  if (!nodes_[*target]->core) return fail_after(2 * delay());
  connect(index, *target, address);
}

// The dialer's Hello makes the acceptor ready, the acceptor's answer the dialer.
void Swarm::connect(std::size_t from, std::size_t to, const std::string& address) {
  const std::size_t c = network_.connect(from, to);
  dialed_.push_back({.address = address});
  carry({c, 0}, [this, c] {
    // A stopped process answers no Hello: the dialer gives up unless it goes on in time.
    carry({c, 1}, [this, c] { make_ready({c, 0}); });
    make_ready({c, 1});
  });
  const std::uint64_t life = nodes_[from]->life;
  network_.after(std::chrono::seconds(4), [this, c, from, address, life] {
    if (dialed_[c].ready[0] || nodes_[from]->life != life) return;
    network_.close({c, 0});
    deliver(from, DialFailed{address, "no answer", false});
    carry({c, 0}, [this, c] { lose({c, 1}, LossReason::reset); });
  });
}

void Swarm::make_ready(const Place& place) {
  const Network::End end = network_.end(place);
  const Node& other = *nodes_[network_.end(place.across()).peer];
  if (!end.open || !nodes_[end.peer]->core || !other.core) return;
  Dialed& dialed = dialed_[place.connection];
  dialed.ready[place.side] = true;
  ++nodes_[end.peer]->readies;
  deliver(end.peer, LinkReady{.link = end.link,
                              .other = other.core->self(),
                              .dialed = place.side == 0,
                              .address = place.side == 0 ? dialed.address : ""});
}

void Swarm::carry(const Place& place, std::function<void()> arrive) {
  const std::size_t from = network_.end(place).peer;
  const std::size_t to = network_.end(place.across()).peer;
  base::Duration late{};
  const double loss = std::max(nodes_[from]->loss, nodes_[to]->loss);
  base::Duration pause = loss_timeout_;
  while (loss > 0 && rng_.uniform() < loss) {
    late += pause;
    pause = std::min(pause * 2, kLossPauseMax);
  }
  network_.carry(place, delay() + late, [this, from, to, arrive = std::move(arrive)] {
    if (!nodes_[from]->mute && reachable(from, to)) arrive();
  });
}

void Swarm::send(std::size_t index, base::LinkId link, const wire::Message& message) {
  const auto place = network_.find(index, link);
  if (!place) return;  // broken, and not yet told
  if (options_.counts_bytes) {
    Traffic& sent = nodes_[index]->sent;
    const auto* beat = std::get_if<wire::Heartbeat>(&message);
    const std::size_t progress = beat == nullptr ? 0 : wire::pack_progress(beat->progress).size();
    sent.membership += wire::encode(message).size() - progress;
    sent.progress += progress;
  }
  carry(*place, [this, end = network_.end(place->across()), message] {
    deliver(end.peer, Received{end.link, message});
  });
}

void Swarm::close(std::size_t index, base::LinkId link, wire::ByeReason reason) {
  const auto place = network_.find(index, link);
  if (!place) return;
  carry(*place, [this, other = place->across(), reason] {
    const Network::End end = network_.end(other);
    deliver(end.peer, Received{end.link, wire::Bye{.reason = reason, .text = ""}});
    lose(other, LossReason::closed);
  });
  network_.close(*place);
}

void Swarm::lose(const Place& place, LossReason reason) {
  const Network::End end = network_.end(place);
  if (network_.close(place)) deliver(end.peer, LinkLost{end.link, reason, ""});
}

bool Swarm::reachable(std::size_t a, std::size_t b) const {
  return groups_.empty() || groups_[a] == groups_[b];
}

std::size_t Swarm::index_of(const base::PeerId& id) const { return indices_.at(id); }

std::size_t Swarm::degree(std::size_t index) const { return nodes_[index]->relations.size(); }

bool Swarm::complete() const {
  for (std::size_t i = 0; i < size(); ++i) {
    for (std::size_t j = 0; j < size(); ++j) {
      if (i != j && up(i) && up(j) && !nodes_[i]->relations.contains(j)) return false;
    }
  }
  return symmetric();
}

bool Swarm::symmetric() const {
  for (std::size_t i = 0; i < size(); ++i) {
    for (const auto& [link, other] : nodes_[i]->neighbours) {
      const auto place = network_.find(i, link);
      if (!place) return false;
      if (!nodes_[other]->neighbours.contains(network_.end(place->across()).link)) return false;
    }
  }
  return true;
}

bool Swarm::connected() const {
  std::vector<std::size_t> todo;
  std::set<std::size_t> seen;
  std::size_t running = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!up(i)) continue;
    ++running;
    if (todo.empty() && seen.empty()) {
      todo.push_back(i);
      seen.insert(i);
    }
  }
  while (!todo.empty()) {
    const std::size_t i = todo.back();
    todo.pop_back();
    for (const auto& [other, links] : nodes_[i]->relations) {
      if (up(other) && seen.insert(other).second) todo.push_back(other);
    }
  }
  return seen.size() == running;
}

bool Swarm::degrees_at_least(std::size_t least) const {
  for (std::size_t i = 0; i < size(); ++i) {
    if (up(i) && degree(i) < least) return false;
  }
  return true;
}

bool Swarm::tables_agree() const {
  std::optional<std::uint64_t> hash;
  for (std::size_t i = 0; i < size(); ++i) {
    if (!up(i)) continue;
    const MemberTable& table = nodes_[i]->core->table();
    if (hash.value_or(table.hash()) != table.hash()) return false;
    hash = table.hash();
    for (std::size_t j = 0; j < size(); ++j) {
      const wire::MemberRecord* record = table.find(nodes_[j]->id);
      if (record == nullptr || counts_as_alive(record->state) != up(j)) return false;
      if (record->state == wire::MemberState::suspect) return false;
    }
  }
  return true;
}

wire::MemberState Swarm::state(std::size_t of, std::size_t at) const {
  const wire::MemberRecord* record = nodes_[at]->core->table().find(nodes_[of]->id);
  BOOST_REQUIRE(record != nullptr);
  return record->state;
}

}  // namespace starling::membership::testing
