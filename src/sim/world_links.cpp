// Links: ordered streams over a network that loses, delays and cuts.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "sim/world.hpp"

namespace starling::sim {
namespace {

constexpr std::size_t kPacketBytes = 1400;
constexpr std::size_t kOverheadBytes = 60;  ///< of TLS, TCP and IP, for each frame
constexpr std::size_t kWindowBytes = 64 * 1024;
constexpr base::Duration kRetryMin = std::chrono::milliseconds(200);
constexpr base::Duration kRetryMax = std::chrono::seconds(60);
constexpr base::Duration kHandshakeTimeout = std::chrono::seconds(5);
/// A dial that does not leave the machine.
constexpr base::Duration kNoRouteAfter = std::chrono::milliseconds(1);
/// Ports that dials come from, if no router draws them.
constexpr std::uint64_t kFirstPort = 32768;
constexpr std::uint64_t kPorts = 28000;
/// The fraction of damaged packets that pass the transport's 16-bit checksum here: far more than on
/// a real network, to exercise the reader of frames.
constexpr double kPassesChecksum = 0.2;

/// The largest frame that the reader of a link takes until it is told to accept larger ones.
constexpr std::size_t kFrameMaxBeforeHello =
    wire::kFrameHeaderSize + wire::kMetadataMax + wire::kPayloadMaxBeforeHello;

base::Duration milliseconds(double ms) { return base::from_seconds(ms / 1000); }

/// Uniform from 0 on, with a standard deviation of one; its mean is the root of 3.
double jitter(base::Rng& rng) { return rng.uniform() * std::sqrt(12.0); }

double packets(std::size_t bytes) {
  const std::size_t full = bytes / kPacketBytes;
  return static_cast<double>(full + 1);
}

/// The probability that something happens to at least one packet if it happens to each with
/// probability p.
double any_of(double p, std::size_t bytes) {
  return p <= 0 ? 0 : 1 - std::pow(1 - p, packets(bytes));
}

}  // namespace

std::size_t World::size_of(const Item& item) {
  const auto* frame = std::get_if<Frame>(&item);
  return kOverheadBytes + (frame == nullptr ? 0 : frame->bytes.size());
}

std::size_t World::packet_of(const Waiting& waiting) {
  return std::min(kPacketBytes, size_of(waiting.item) - waiting.sent);
}

std::pair<std::uint32_t, std::uint32_t> World::path_of(const Connection& connection,
                                                       int from) const {
  return {nodes_[connection.ends[from].node]->peer, nodes_[connection.ends[1 - from].node]->peer};
}

int World::side_of(const Connection& connection, const Node& node, base::LinkId link) {
  return connection.ends[0].node == node.number && connection.ends[0].link == link ? 0 : 1;
}

PathState World::path_state(const Connection& connection, int from) const {
  const auto [a, b] = path_of(connection, from);
  const auto found = circuits_.find(connection.circuit);
  if (found == circuits_.end()) {
    PathState path = paths_.state(a, b);
    path.cut = path.cut || connection.circuit != 0;  // the circuit is over
    return path;
  }
  const std::uint32_t relay = nodes_[found->second.relay]->peer;
  PathState path = paths_.state(a, relay);
  const PathState second = paths_.state(relay, b);
  const auto either = [](double p, double q) { return 1 - (1 - p) * (1 - q); };
  path.latency_ms += second.latency_ms;
  path.jitter_ms = std::max(path.jitter_ms, second.jitter_ms);
  path.loss = either(path.loss, second.loss);
  path.reorder = either(path.reorder, second.reorder);
  path.corrupt = either(path.corrupt, second.corrupt);
  path.cut = path.cut || second.cut;
  for (const double rate : {second.rate_mbit, task_.config.relay.limit}) {
    if (rate > 0 && (path.rate_mbit <= 0 || rate < path.rate_mbit)) path.rate_mbit = rate;
  }
  return path;
}

bool World::path_cut(const Connection& connection, int from) const {
  const auto [a, b] = path_of(connection, from);
  const auto found = circuits_.find(connection.circuit);
  if (found == circuits_.end()) return connection.circuit != 0 || paths_.cut(a, b);
  const Node& relay = *nodes_[found->second.relay];
  for (const Place& leg : found->second.legs) {
    if (connections_[leg.slot].generation == leg.generation && connections_[leg.slot].dead) {
      return true;
    }
  }
  return relay.state == NodeState::stopped || paths_.cut(a, relay.peer) ||
         paths_.cut(relay.peer, b);
}

std::optional<World::Route> World::find_route(const Node& node, const peer::Dial& action,
                                              const std::optional<base::IpPort>& address) {
  const bool punches = action.kind == peer::DialKind::punch;
  if (nat_) {
    if (!address) return std::nullopt;
    const auto passage = nat_->dial(node.peer, *address, punches, now_);
    if (!passage) return std::nullopt;
    return Route{passage->to, to_string(passage->observed), passage->inside};
  }
  const Node* const to = find_address(action.address);
  if (to == nullptr) return std::nullopt;
  // From a port of its own, or from its listening port.
  const std::string host = node.address.substr(0, node.address.rfind(':'));
  return Route{
      to->number,
      punches ? node.address : fmt::format("{}:{}", host, kFirstPort + node.dials % kPorts), true};
}

std::optional<World::Punch> World::take_punch(std::uint64_t serial) {
  const auto found = std::ranges::find(punches_, serial, &Punch::serial);
  if (found == punches_.end()) return std::nullopt;
  Punch punch = std::move(*found);
  punches_.erase(found);
  return punch;
}

std::optional<World::Punch> World::take_punch(const Node& node, const std::string& address) {
  const auto found = std::ranges::find_if(punches_, [&](const Punch& punch) {
    return punch.node == node.number && punch.life == node.life && punch.address == address;
  });
  return found == punches_.end() ? std::nullopt : take_punch(found->serial);
}

void World::dial(Node& node, const peer::Dial& action) {
  ++node.dials;
  const std::string& address = action.address;
  const auto number = nat_ ? base::parse_ip_port(address) : std::nullopt;
  if (number && !nat_->has_family(node.peer, number->ip.is_v6())) {
    return after(kNoRouteAfter, Dialed{node.number, node.life, address, false, {}, 0, true});
  }
  std::optional<Route> route = find_route(node, action, number);
  Node* const to = route ? nodes_[route->to].get() : nullptr;
  if (observer_ != nullptr) observer_->dialed(node, action, to != nullptr && is_up(*to));
  const std::uint32_t there = to == nullptr ? node.peer : to->peer;
  const PathState out = paths_.state(node.peer, there);
  const PathState back = paths_.state(there, node.peer);
  // TCP and TLS take two round trips; each packet is resent until it arrives.
  const double jitter_out = out.jitter_ms * jitter(rng_);
  const double jitter_back = back.jitter_ms * jitter(rng_);
  base::Duration takes =
      milliseconds(2 * (out.latency_ms + back.latency_ms) + jitter_out + jitter_back);
  base::Duration pause = std::chrono::seconds(1);
  for (int packet = 0; packet < 2; ++packet) {
    const double lost = 1 - (1 - out.loss) * (1 - back.loss);
    while (takes < kHandshakeTimeout && lost > 0 && rng_.uniform() < lost) {
      takes += pause;
      pause *= 2;
    }
  }
  const bool reached = to != nullptr && !out.cut && !back.cut && to->state != NodeState::stopped &&
                       takes < kHandshakeTimeout;
  if (!reached) takes = kHandshakeTimeout;
  std::uint64_t punch = 0;
  if (action.kind == peer::DialKind::punch) {
    punch = ++last_punch_;
    punches_.push_back({punch, node.number, node.life, address});
  }
  const bool answered = reached || to == &node;
  after(takes, Dialed{node.number, node.life, address, answered, std::move(route), punch});
}

void World::connect(Node& from, Node& to, const Dialed& dialed, std::uint64_t circuit) {
  const std::string& address = dialed.address;
  if (&from == &to) return give(from, peer::DialFailed{address, "that is this peer", true});
  const Route& route = *dialed.route;
  std::uint32_t slot = 0;
  if (free_connections_.empty()) {
    slot = static_cast<std::uint32_t>(connections_.size());
    connections_.emplace_back();
  } else {
    slot = free_connections_.back();
    free_connections_.pop_back();
  }
  Connection& connection = connections_[slot];
  const std::uint32_t generation = connection.generation + 1;
  connection = {};
  connection.generation = generation;
  connection.dialed[0] = address;
  connection.observed = {route.observed, address};
  // It comes from the address that the other end dials at this moment.
  if (const auto punch = take_punch(to, route.observed)) connection.dialed[1] = punch->address;
  if (nat_ && !route.inside) {
    connection.through_router = true;
    connection.passed = now_;
    for (const std::uint32_t peer : {from.peer, to.peer}) {
      const auto after = nat_->forgets_after(peer);
      if (after)
        connection.forgotten_after = std::min(*after, connection.forgotten_after.value_or(*after));
    }
  }
  connection.circuit = circuit;
  Node* const nodes[2] = {&from, &to};
  for (int side = 0; side < 2; ++side) {
    Node& node = *nodes[side];
    const base::LinkId link{++node.last_link, 1};
    node.links[link] = slot;
    connection.ends[side] = {.node = node.number, .life = node.life, .link = link, .open = true};
    Direction& to_it = connection.directions[1 - side];
    to_it.last_arrival = now_;
    to_it.flying.push_back({now_, Up{}});
    at(now_, Arrive{slot, generation, side});
  }
}

void World::send(Node& node, base::LinkId link, const wire::Message& message) {
  const auto found = node.links.find(link);
  if (found == node.links.end()) return;
  const std::uint32_t slot = found->second;
  const int from = side_of(connections_[slot], node, link);
  Frame frame{.bytes = wire::encode(message), .message = message, .damaged = false, .took = {}};
  node.sent_bytes += frame.bytes.size();
  if (wire::purpose_of(static_cast<std::uint8_t>(wire::type_of(message))) ==
      wire::Purpose::membership) {
    node.membership_bytes += frame.bytes.size();
  }
  if (observer_ != nullptr) observer_->sent(node, message);
  push(slot, from, std::move(frame));
}

void World::push(std::uint32_t slot, int from, Item item) {
  connections_[slot].directions[from].waiting.push_back({.item = std::move(item)});
  serve(slot, from);
}

// Sends waiting items in order, until the network stalls or a line is busy with one.
void World::serve(std::uint32_t slot, int from) {
  Connection& connection = connections_[slot];
  Direction& direction = connection.directions[from];
  while (!direction.waiting.empty() && !direction.stalled && direction.turn == 0) {
    Waiting& next = direction.waiting.front();
    const bool acknowledged = paths_.calm() || !path_cut(connection, 1 - from);
    if (!next.met &&
        (!passes(connection) || !meet(path_state(connection, from), acknowledged, direction))) {
      return stall(slot, from);
    }
    next.met = true;
    const base::Time through = send_packet(slot, from);
    if (through == now_) {
      fly(slot, from);
    } else {
      direction.turn = ++turns_;
      at(through, Turn{slot, connection.generation, from, direction.turn});
    }
  }
}

// Decides whether the first waiting item gets through without being sent again.
bool World::meet(const PathState& path, bool acknowledged, Direction& direction) {
  Waiting& next = direction.waiting.front();
  const std::size_t bytes = size_of(next.item);
  if (path.cut || (path.loss > 0 && rng_.uniform() < any_of(path.loss, bytes))) return false;
  // If arrivals are not acknowledged, the window fills.
  direction.unacknowledged = acknowledged ? 0 : direction.unacknowledged + bytes;
  if (direction.unacknowledged > kWindowBytes) return false;
  if (path.corrupt > 0 && rng_.uniform() < any_of(path.corrupt, bytes)) {
    auto* frame = std::get_if<Frame>(&next.item);
    if (frame == nullptr || rng_.uniform() >= kPassesChecksum) return false;
    frame->damaged = true;
    frame->bytes[rng_.below(frame->bytes.size())] ^= std::byte(1U << rng_.below(8));
  }
  if (path.reorder > 0 && rng_.uniform() < any_of(path.reorder, bytes)) {
    next.extra = milliseconds(path.latency_ms / 2);
  }
  return true;
}

// Uses the path's own rate and the lines that all paths of either peer share. A line takes one
// packet of each link that has some, in turn. Returns the time when the packet is through; now:
// nothing limits it.
base::Time World::send_packet(std::uint32_t slot, int from) {
  const Connection& connection = connections_[slot];
  Waiting& next = connections_[slot].directions[from].waiting.front();
  const auto [a, b] = path_of(connection, from);
  const double bits = static_cast<double>(packet_of(next)) * 8;
  const auto takes = [&](double rate_mbit) {
    return rate_mbit > 0 ? base::from_seconds(bits / (rate_mbit * 1e6)) : base::Duration{};
  };
  base::Duration longest = takes(path_state(connection, from).rate_mbit);
  base::Time through = now_ + longest;
  const std::pair<std::uint32_t, int> lines[] = {{a, 0}, {b, 1}};
  for (const auto& [peer, in] : lines) {
    const double rate = paths_.line_rate(peer);
    if (rate <= 0) continue;
    base::Time& free_at = nodes_[peer]->line_free_at[static_cast<std::size_t>(in)];
    free_at = std::max(free_at, now_) + takes(rate);
    through = std::max(through, free_at);
    longest = std::max(longest, takes(rate));
  }
  if (next.sent == 0) next.began = next.told_at = through - longest;
  return through;
}

void World::happen(Turn& turn) {
  Connection& connection = connections_[turn.connection];
  if (connection.generation != turn.generation) return;
  Direction& direction = connection.directions[turn.from];
  if (direction.turn != turn.serial) return;  // a reset dropped it
  direction.turn = 0;
  if (path_cut(connection, turn.from) || connection.dead) {
    return stall(turn.connection, turn.from);
  }
  Waiting& first = direction.waiting.front();
  first.sent += packet_of(first);
  if (first.sent == size_of(first.item)) {
    fly(turn.connection, turn.from);
  } else {
    announce(turn.connection, turn.from);
  }
  serve(turn.connection, turn.from);
}

// The first waiting item has been sent, and arrives after everything that was sent before it.
void World::fly(std::uint32_t slot, int from) {
  Connection& connection = connections_[slot];
  Direction& direction = connection.directions[from];
  Waiting first = std::move(direction.waiting.front());
  direction.waiting.pop_front();
  connection.passed = now_;
  auto* frame = std::get_if<Frame>(&first.item);
  if (frame != nullptr && first.sent > 0) frame->took = now_ - first.began;
  const PathState path = path_state(connection, from);
  if (const auto over = circuits_.find(connection.circuit); over != circuits_.end()) {
    over->second.bytes += size_of(first.item);
  }
  base::Duration delay = milliseconds(path.latency_ms) + first.extra;
  if (path.jitter_ms > 0) delay += milliseconds(path.jitter_ms * jitter(rng_));
  direction.last_arrival = std::max(direction.last_arrival, now_ + delay);
  direction.flying.push_back({direction.last_arrival, std::move(first.item)});
  at(direction.last_arrival, Arrive{slot, connection.generation, 1 - from});
}

// The other end hears parts of a long frame, as io reports them.
void World::announce(std::uint32_t slot, int from) {
  const Connection& connection = connections_[slot];
  Waiting& first = connections_[slot].directions[from].waiting.front();
  const auto* frame = std::get_if<Frame>(&first.item);
  const std::size_t mirror_error = first.sent - first.told;
  if (frame == nullptr || mirror_error < peer::kArrivingMin) return;
  if (now_ - first.told_at < peer::kArrivingEvery) return;
  first.told = first.sent;
  first.told_at = now_;
  const base::Time arrives = now_ + milliseconds(path_state(connection, from).latency_ms);
  at(std::max(arrives, connection.directions[from].last_arrival),
     Part{slot, connection.generation, 1 - from,
          static_cast<std::uint8_t>(wire::type_of(frame->message)), mirror_error});
}

void World::happen(Part& part) {
  const Connection& connection = connections_[part.connection];
  if (connection.generation != part.generation) return;
  const End& to = connection.ends[part.to];
  Node& node = *nodes_[to.node];
  if (to.open && node.life == to.life && is_up(node)) {
    give(node, peer::Arriving{to.link, part.type, part.bytes});
  }
}

void World::stall(std::uint32_t slot, int from) {
  Connection& connection = connections_[slot];
  Direction& direction = connection.directions[from];
  direction.stalled = true;
  direction.tries = 0;
  after(kRetryMin, Retry{slot, connection.generation, from});
}

void World::happen(Retry& retry) {
  Connection& connection = connections_[retry.connection];
  if (connection.generation != retry.generation) return;
  Direction& direction = connection.directions[retry.from];
  if (!direction.stalled) return;   // a reset dropped the waiting items
  if (!passes(connection)) return;  // nothing ever will again
  const PathState path = path_state(connection, retry.from);
  if (path_cut(connection, retry.from) || path_cut(connection, 1 - retry.from) ||
      (path.loss > 0 && rng_.uniform() < path.loss)) {
    const base::Duration pause = kRetryMin * (1 << std::min(direction.tries, 9U));
    ++direction.tries;
    return after(std::min(pause * 2, kRetryMax), retry);
  }
  direction.stalled = false;
  direction.unacknowledged = 0;
  // The lost packet is through; the items behind it meet the network anew.
  direction.waiting.front().met = true;
  serve(retry.connection, retry.from);
}

void World::happen(Arrive& arrive) {
  Connection& connection = connections_[arrive.connection];
  if (connection.generation != arrive.generation) return;
  Direction& direction = connection.directions[1 - arrive.to];
  ASSERT(!direction.flying.empty());
  Item item = std::move(direction.flying.front().item);
  direction.flying.pop_front();
  const End end = connection.ends[arrive.to];
  Node& node = *nodes_[end.node];
  const bool there = end.open && node.life == end.life && is_up(node);
  if (std::holds_alternative<Up>(item)) {
    if (!there) return;
    const Node& other = *nodes_[connection.ends[1 - arrive.to].node];
    const std::optional<std::string>& dialed =
        connection.dialed[static_cast<std::size_t>(arrive.to)];
    peer::LinkUp event{end.link, other.id, dialed.has_value(), dialed.value_or("somewhere:1"),
                       connection.observed[static_cast<std::size_t>(1 - arrive.to)]};
    if (const auto over = circuits_.find(connection.circuit); over != circuits_.end()) {
      const auto opened = find_opened(over->second, arrive.to);
      if (opened == opened_.end()) return;
      event.via = opened->link;
      event.address.clear();
      event.observed.clear();
    } else if (connection.circuit != 0) {
      return;  // it ended meanwhile; the end hears of that
    }
    return give(node, std::move(event));
  }
  if (const auto* gone = std::get_if<Gone>(&item)) {
    return drop(arrive.connection, arrive.to, gone->reset ? Reason::reset : Reason::closed,
                "by the other end");
  }
  auto& frame = std::get<Frame>(item);
  trace_hash_ = base::xxh3(frame.bytes, trace_hash_);
  if (!there) {
    // If the process is gone, its machine answers with a reset.
    if (connection.ends[1 - arrive.to].open && !direction.stalled) {
      push(arrive.connection, arrive.to, Gone{true});
    }
    return;
  }
  if (!end.accepts && frame.bytes.size() > kFrameMaxBeforeHello && breach_.empty()) {
    breach_ = fmt::format("peer-{} is sent {} bytes before it accepts them", node.number,
                          frame.bytes.size());
    return stop();
  }
  // The bytes that come out are those that went in, unless something is broken: most are not
  // decoded.
  if (frame.damaged || frame.bytes.back() == std::byte{}) {
    wire::FrameReader reader(std::size_t{1} << 30);
    base::ByteView stream(frame.bytes);
    auto read = reader.read(stream);
    if (!read || !*read) {
      trace(fmt::format("peer-{} refuses a damaged frame", node.number));
      // As in io: a session refuses bytes that were changed on the way, and blames nobody.
      drop(arrive.connection, 1 - arrive.to, Reason::reset, "reset");
      return drop(arrive.connection, arrive.to, Reason::reset, "damaged frame");
    }
    auto decoded = wire::decode(std::move(**read));
    if (frame.damaged && breach_.empty()) {
      breach_ = fmt::format("peer-{} took a damaged frame for a good one", node.number);
      return stop();
    }
    if ((!decoded || !*decoded) && breach_.empty()) {
      breach_ = fmt::format("peer-{} cannot read a frame that a peer sent", node.number);
      return stop();
    }
    frame.message = std::move(**decoded);
  }
  give(node, peer::Received{end.link, std::move(frame.message), frame.took});
}

// Whether the routers on the way still know the connection.
bool World::passes(Connection& connection) const {
  if (connection.forgotten_after && now_ - connection.passed > *connection.forgotten_after) {
    connection.dead = true;
  }
  return !connection.dead;
}

// Links of these peers, or those of them that pass a router: nothing passes on them any more.
void World::lose_links(const std::vector<std::uint32_t>& peers, bool through_routers) {
  for (Connection& connection : connections_) {
    if (through_routers && !connection.through_router) continue;
    for (const End& end : connection.ends) {
      if (!end.open) continue;
      const std::uint32_t peer = nodes_[end.node]->peer;
      if (std::ranges::find(peers, peer) != peers.end()) connection.dead = true;
    }
  }
}

std::optional<LinkPath> World::link_path(const Node& a, const Node& b) const {
  for (const auto& [link, slot] : a.links) {
    const Connection& connection = connections_[slot];
    const End& other = connection.ends[1 - side_of(connection, a, link)];
    if (other.node != b.number || !other.open) continue;
    return connection.circuit == 0 ? LinkPath::direct : LinkPath::circuit;
  }
  return std::nullopt;
}

std::size_t World::unsent(const Node& node) const {
  std::size_t count = 0;
  for (const auto& [link, slot] : node.links) {
    const Connection& connection = connections_[slot];
    count += connection.directions[side_of(connection, node, link)].waiting.size();
  }
  return count;
}

void World::close(Node& node, base::LinkId link, bool reset) {
  const auto found = node.links.find(link);
  if (found == node.links.end()) return;
  const std::uint32_t slot = found->second;
  node.links.erase(found);
  Connection& connection = connections_[slot];
  const int side = side_of(connection, node, link);
  connection.ends[side].open = false;
  if (is_up(node)) after({}, Closed{node.number, node.life, link, reset});
  if (reset) leg_gone(slot, false);
  if (connection.ends[1 - side].open) {
    if (reset) {
      // Data that the dying process had not sent is lost, and its reset is not resent.
      Direction& direction = connection.directions[side];
      direction.waiting.clear();
      direction.turn = 0;
      direction.stalled = false;
      if (!path_cut(connection, side)) push(slot, side, Gone{true});
    } else {
      push(slot, side, Gone{false});
    }
  }
  release(slot);
}

void World::drop(std::uint32_t slot, int side, Reason reason, const std::string& text) {
  Connection& connection = connections_[slot];
  End& end = connection.ends[side];
  if (!std::exchange(end.open, false)) return release(slot);
  Node& node = *nodes_[end.node];
  node.links.erase(end.link);
  leg_gone(slot, reason != Reason::reset);
  const End copy = end;
  release(slot);
  if (node.life != copy.life || !is_up(node)) return;
  give(node, peer::LinkDown{copy.link, reason, text});
}

void World::release(std::uint32_t slot) {
  Connection& connection = connections_[slot];
  if (connection.ends[0].open || connection.ends[1].open) return;
  if (const auto over = circuits_.find(connection.circuit); over != circuits_.end()) {
    over->second.connection.reset();
    end_circuit(over);
  }
  ++connection.generation;
  for (Direction& direction : connection.directions) direction = {};
  free_connections_.push_back(slot);
}

}  // namespace starling::sim
