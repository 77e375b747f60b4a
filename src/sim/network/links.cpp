#include "sim/network/links.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "base/assert.hpp"

namespace starling::sim {
namespace {

constexpr std::size_t kWindowBytes = 64 * 1024;
constexpr base::Duration kRetryMin = std::chrono::milliseconds(200);
constexpr base::Duration kRetryMax = std::chrono::seconds(60);
/// The fraction of damaged packets that pass the transport's 16-bit checksum here: far more than on
/// a real network, to exercise the reader of frames.
constexpr double kPassesChecksum = 0.2;

/// The largest frame that the reader of a link takes until it is told to accept larger ones.
constexpr std::size_t kFrameMaxBeforeHello =
    wire::kFrameHeaderSize + wire::kMetadataMax + wire::kPayloadMaxBeforeHello;

/// The probability that something happens to at least one packet if it happens to each with
/// probability p.
double any_of(double p, std::size_t bytes) {
  const std::size_t full = bytes / kPacketBytes;
  return p <= 0 ? 0 : 1 - std::pow(1 - p, static_cast<double>(full + 1));
}

}  // namespace

Connection* Links::find(const Place& place) {
  Connection& connection = connections_[place.slot];
  return connection.generation == place.generation ? &connection : nullptr;
}

std::optional<Place> Links::find(const Node& node, base::LinkId link) const {
  const auto found = node.links.find(link);
  if (found == node.links.end()) return std::nullopt;
  return place_of(found->second);
}

Node* Links::at_end(const End& end) const { return end.open ? shared_.find(end.of) : nullptr; }

std::pair<std::uint32_t, std::uint32_t> Links::path_of(const Connection& connection,
                                                       int from) const {
  const auto peer_at = [&](int side) { return shared_.nodes[connection.ends[side].of.node]->peer; };
  return {peer_at(from), peer_at(1 - from)};
}

PathState Links::path_state(const Connection& connection, int from) const {
  const auto [a, b] = path_of(connection, from);
  const Circuit* const circuit = circuits_.find(connection.terms.circuit);
  if (circuit == nullptr) {
    PathState path = paths_.state(a, b);
    path.cut = path.cut || connection.terms.circuit != 0;  // the circuit is over
    return path;
  }
  const std::uint32_t relay = shared_.nodes[circuit->relay.node]->peer;
  PathState path = paths_.state(a, relay);
  const PathState second = paths_.state(relay, b);
  const auto either = [](double p, double q) { return 1 - (1 - p) * (1 - q); };
  path.latency_ms += second.latency_ms;
  path.jitter_ms = std::max(path.jitter_ms, second.jitter_ms);
  path.loss = either(path.loss, second.loss);
  path.reorder = either(path.reorder, second.reorder);
  path.corrupt = either(path.corrupt, second.corrupt);
  path.cut = path.cut || second.cut;
  for (const double rate : {second.rate_mbit, shared_.task.config.relay.limit}) {
    if (rate > 0 && (path.rate_mbit <= 0 || rate < path.rate_mbit)) path.rate_mbit = rate;
  }
  return path;
}

bool Links::path_cut(const Connection& connection, int from) const {
  const auto [a, b] = path_of(connection, from);
  const Circuit* const circuit = circuits_.find(connection.terms.circuit);
  if (circuit == nullptr) return connection.terms.circuit != 0 || paths_.cut(a, b);
  for (const Place& leg : circuit->legs) {
    const Connection& under = connections_[leg.slot];
    if (under.generation == leg.generation && under.dead) return true;
  }
  const Node& relay = *shared_.nodes[circuit->relay.node];
  return relay.state == NodeState::stopped || paths_.cut(a, relay.peer) ||
         paths_.cut(relay.peer, b);
}

Place Links::connect(Node& from, Node& to, Terms terms) {
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(connections_.size());
    connections_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Connection& connection = connections_[slot];
  connection = {.generation = connection.generation + 1, .terms = std::move(terms)};
  connection.passed = now();
  Node* const nodes[2] = {&from, &to};
  for (int side = 0; side < 2; ++side) {
    Node& node = *nodes[side];
    const base::LinkId link{++node.last_link, 1};
    node.links[link] = slot;
    connection.ends[side] = {.of = node.this_life(), .link = link, .open = true};
    Stream& to_it = connection.directions[1 - side];
    to_it.last_arrival = now();
    to_it.flying.push_back({now(), Up{}});
    shared_.agenda.at(now(), Arrive{place_of(slot), side});
  }
  return place_of(slot);
}

void Links::act(Node& node, const peer::Send& action) {
  const auto found = node.links.find(action.link);
  if (found == node.links.end()) return;
  const std::uint32_t slot = found->second;
  const int from = connections_[slot].side_of(node.this_life(), action.link);
  const wire::Message& message = action.message;
  Frame frame{.bytes = wire::encode(message), .message = message, .damaged = false, .took = {}};
  node.sent_bytes += frame.bytes.size();
  if (wire::purpose_of(static_cast<std::uint8_t>(wire::type_of(message))) ==
      wire::Purpose::membership) {
    node.membership_bytes += frame.bytes.size();
  }
  shared_.observer->sent(node, message);
  push(slot, from, std::move(frame));
}

void Links::act(Node& node, const peer::Accept& action) {
  const auto found = node.links.find(action.link);
  if (found == node.links.end()) return;
  Connection& connection = connections_[found->second];
  connection.ends[connection.side_of(node.this_life(), action.link)].accepts = true;
}

void Links::act(Node& node, const peer::OpenCircuit& action) {
  const CircuitEnd end{node.this_life(), action.link, action.number};
  const auto leg = find(node, action.link);
  if (!leg) return circuits_.tell_over(end);
  circuits_.open(end, *leg);
  if (!action.dialer) return;
  // TLS takes a round trip over both legs; the other leg is not known here.
  const Connection& connection = connections_[leg->slot];
  const int side = connection.side_of(end.of, action.link);
  const PathState there = path_state(connection, side);
  const PathState back = path_state(connection, 1 - side);
  shared_.agenda.after(milliseconds(2 * (there.latency_ms + back.latency_ms)), CircuitDialed{end});
}

void Links::act(Node& node, const peer::Relay& action) {
  const Life life = node.this_life();
  const auto a = find(node, action.a);
  const auto b = find(node, action.b);
  if (!a || !b) {
    return shared_.agenda.after({}, CircuitOver{{life, action.a, action.number_a}, 0});
  }
  circuits_.join({.relay = life,
                  .links = {action.a, action.b},
                  .numbers = {action.number_a, action.number_b},
                  .legs = {*a, *b}});
  shared_.observer->relays(node);
}

void Links::act(Node& node, const peer::EndCircuit& action) {
  circuits_.end_by({node.this_life(), action.link, action.number});
}

void Links::happen(const CircuitDialed& dialed) {
  Node* const node = shared_.find(dialed.by.of);
  if (node == nullptr) return;
  const std::uint64_t number = circuits_.dialed_by(dialed.by);
  if (number == 0) return circuits_.tell_over(dialed.by);
  const Circuit& circuit = *circuits_.find(number);
  const CircuitEnd* const other = circuits_.end_of(circuit, 1);
  const Node& relay = *shared_.nodes[circuit.relay.node];
  const bool there = other != nullptr && shared_.find(other->of) != nullptr &&
                     relay.state == NodeState::running && !circuit.connection &&
                     node->state == NodeState::running;
  if (!there) return circuits_.end(number);
  Node& to = *shared_.nodes[other->of.node];
  if (shared_.trace.is_read()) {
    shared_.trace.line(fmt::format("circuit of peer-{} and peer-{} over peer-{}", node->number,
                                   to.number, relay.number));
  }
  circuits_.connect(number, connect(*node, to, {.dialed = {"", std::nullopt}, .circuit = number}));
}

void Links::happen(const CircuitBreaks& breaks) {
  const Connection* const connection = find(breaks.at);
  if (connection == nullptr || !connection->ends[breaks.side].open) return;
  drop(breaks.at.slot, breaks.side, Reason::reset, "the circuit is over");
}

void Links::push(std::uint32_t slot, int from, Item item) {
  connections_[slot].directions[from].waiting.push_back({.item = std::move(item)});
  serve(slot, from);
}

// Sends waiting items in order, until the network stalls or a line is busy with one.
void Links::serve(std::uint32_t slot, int from) {
  Connection& connection = connections_[slot];
  Stream& direction = connection.directions[from];
  while (!direction.waiting.empty() && !direction.stalled && direction.turn == 0) {
    Waiting& next = direction.waiting.front();
    const bool acknowledged = paths_.calm() || !path_cut(connection, 1 - from);
    if (!next.met &&
        (!passes(connection) || !meet(path_state(connection, from), acknowledged, direction))) {
      return stall(slot, from);
    }
    next.met = true;
    const base::Time through = send_packet(slot, from);
    if (through == now()) {
      fly(slot, from);
    } else {
      direction.turn = ++turns_;
      shared_.agenda.at(through, Turn{place_of(slot), from, direction.turn});
    }
  }
}

// Decides whether the first waiting item gets through without being sent again.
bool Links::meet(const PathState& path, bool acknowledged, Stream& direction) {
  base::Rng& rng = shared_.rng;
  Waiting& next = direction.waiting.front();
  const std::size_t bytes = next.size();
  const auto befalls = [&](double p) { return p > 0 && rng.uniform() < any_of(p, bytes); };
  if (path.cut || befalls(path.loss)) return false;
  // If arrivals are not acknowledged, the window fills.
  direction.unacknowledged = acknowledged ? 0 : direction.unacknowledged + bytes;
  if (direction.unacknowledged > kWindowBytes) return false;
  if (befalls(path.corrupt)) {
    auto* frame = std::get_if<Frame>(&next.item);
    if (frame == nullptr || rng.uniform() >= kPassesChecksum) return false;
    frame->damaged = true;
    frame->bytes[rng.below(frame->bytes.size())] ^= std::byte(1U << rng.below(8));
  }
  if (befalls(path.reorder)) next.extra = milliseconds(path.latency_ms / 2);
  return true;
}

// Uses the path's own rate and the lines that all paths of either peer share. A line takes one
// packet of each link that has some, in turn. Returns the time when the packet is through; now:
// nothing limits it.
base::Time Links::send_packet(std::uint32_t slot, int from) {
  const Connection& connection = connections_[slot];
  Waiting& next = connections_[slot].directions[from].waiting.front();
  const auto [a, b] = path_of(connection, from);
  const double bits = static_cast<double>(next.packet()) * 8;
  const auto takes = [&](double rate_mbit) {
    return rate_mbit > 0 ? base::from_seconds(bits / (rate_mbit * 1e6)) : base::Duration{};
  };
  base::Duration longest = takes(path_state(connection, from).rate_mbit);
  base::Time through = now() + longest;
  const std::pair<std::uint32_t, std::size_t> lines[] = {{a, 0}, {b, 1}};
  for (const auto& [peer, in] : lines) {
    const double rate = paths_.line_rate(peer);
    if (rate <= 0) continue;
    base::Time& free_at = line_free_at_[peer][in];
    free_at = std::max(free_at, now()) + takes(rate);
    through = std::max(through, free_at);
    longest = std::max(longest, takes(rate));
  }
  if (next.sent == 0) next.began = next.told_at = through - longest;
  return through;
}

void Links::happen(const Turn& turn) {
  Connection* const connection = find(turn.at);
  if (connection == nullptr) return;
  const std::uint32_t slot = turn.at.slot;
  Stream& direction = connection->directions[turn.from];
  if (direction.turn != turn.serial) return;  // a reset dropped it
  direction.turn = 0;
  if (path_cut(*connection, turn.from) || connection->dead) return stall(slot, turn.from);
  Waiting& first = direction.waiting.front();
  first.sent += first.packet();
  if (first.sent == first.size()) {
    fly(slot, turn.from);
  } else {
    announce(slot, turn.from);
  }
  serve(slot, turn.from);
}

// The first waiting item has been sent, and arrives after everything that was sent before it.
void Links::fly(std::uint32_t slot, int from) {
  Connection& connection = connections_[slot];
  Stream& direction = connection.directions[from];
  Waiting first = std::move(direction.waiting.front());
  direction.waiting.pop_front();
  connection.passed = now();
  auto* frame = std::get_if<Frame>(&first.item);
  if (frame != nullptr && first.sent > 0) frame->took = now() - first.began;
  circuits_.carry(connection.terms.circuit, first.size());
  const PathState path = path_state(connection, from);
  base::Duration delay = milliseconds(path.latency_ms) + first.extra;
  if (path.jitter_ms > 0) delay += milliseconds(path.jitter_ms * jitter(shared_.rng));
  direction.last_arrival = std::max(direction.last_arrival, now() + delay);
  direction.flying.push_back({direction.last_arrival, std::move(first.item)});
  shared_.agenda.at(direction.last_arrival, Arrive{place_of(slot), 1 - from});
}

// The other end hears parts of a long frame, as io reports them.
void Links::announce(std::uint32_t slot, int from) {
  const Connection& connection = connections_[slot];
  Waiting& first = connections_[slot].directions[from].waiting.front();
  const auto* frame = std::get_if<Frame>(&first.item);
  const std::size_t untold = first.sent - first.told;
  if (frame == nullptr || untold < peer::kArrivingMin) return;
  if (now() - first.told_at < peer::kArrivingEvery) return;
  first.told = first.sent;
  first.told_at = now();
  const base::Time arrives = now() + milliseconds(path_state(connection, from).latency_ms);
  shared_.agenda.at(std::max(arrives, connection.directions[from].last_arrival),
                    Part{place_of(slot), 1 - from,
                         static_cast<std::uint8_t>(wire::type_of(frame->message)), untold});
}

void Links::happen(const Part& part) {
  const Connection* const connection = find(part.at);
  if (connection == nullptr) return;
  const End& to = connection->ends[part.to];
  if (Node* node = at_end(to))
    receiver_.give(*node, peer::Arriving{to.link, part.type, part.bytes});
}

void Links::stall(std::uint32_t slot, int from) {
  Stream& direction = connections_[slot].directions[from];
  direction.stalled = true;
  direction.tries = 0;
  shared_.agenda.after(kRetryMin, Retry{place_of(slot), from});
}

void Links::happen(const Retry& retry) {
  Connection* const connection = find(retry.at);
  if (connection == nullptr) return;
  Stream& direction = connection->directions[retry.from];
  if (!direction.stalled) return;    // a reset dropped the waiting items
  if (!passes(*connection)) return;  // nothing ever will again
  const PathState path = path_state(*connection, retry.from);
  if (path_cut(*connection, retry.from) || path_cut(*connection, 1 - retry.from) ||
      (path.loss > 0 && shared_.rng.uniform() < path.loss)) {
    const base::Duration pause = kRetryMin * (1 << std::min(direction.tries, 9U));
    ++direction.tries;
    return shared_.agenda.after(std::min(pause * 2, kRetryMax), retry);
  }
  direction.stalled = false;
  direction.unacknowledged = 0;
  // The lost packet is through; the items behind it meet the network anew.
  direction.waiting.front().met = true;
  serve(retry.at.slot, retry.from);
}

void Links::happen(const Arrive& arrive) {
  Connection* const connection = find(arrive.at);
  if (connection == nullptr) return;
  Stream& direction = connection->directions[1 - arrive.to];
  ASSERT(!direction.flying.empty());
  Item item = std::move(direction.flying.front().item);
  direction.flying.pop_front();
  if (const auto* gone = std::get_if<Gone>(&item)) {
    return drop(arrive.at.slot, arrive.to, gone->reset ? Reason::reset : Reason::closed,
                "by the other end");
  }
  auto* frame = std::get_if<Frame>(&item);
  if (frame != nullptr) shared_.trace.frame(frame->bytes);
  Node* const node = at_end(connection->ends[arrive.to]);
  if (node != nullptr) {
    return frame == nullptr ? come_up(*connection, arrive.to, *node)
                            : receive(arrive.at, arrive.to, std::move(*frame), *node);
  }
  // If the process is gone, its machine answers with a reset.
  if (frame != nullptr && connection->ends[1 - arrive.to].open && !direction.stalled) {
    push(arrive.at.slot, arrive.to, Gone{true});
  }
}

void Links::come_up(const Connection& connection, int side, Node& node) {
  const Node& other = *shared_.nodes[connection.ends[1 - side].of.node];
  const Terms& terms = connection.terms;
  const std::optional<std::string>& dialed = terms.dialed[static_cast<std::size_t>(side)];
  peer::LinkUp event{connection.ends[side].link, other.id, dialed.has_value(),
                     dialed.value_or("somewhere:1"),
                     terms.observed[static_cast<std::size_t>(1 - side)]};
  if (terms.circuit != 0) {
    const Circuit* const circuit = circuits_.find(terms.circuit);
    const CircuitEnd* half = circuit == nullptr ? nullptr : circuits_.end_of(*circuit, side);
    if (half == nullptr) return;  // it ended meanwhile; the end hears of that
    event.via = half->link;
    event.address.clear();
    event.observed.clear();
  }
  receiver_.give(node, std::move(event));
}

void Links::receive(const Place& place, int side, Frame frame, Node& node) {
  const End end = connections_[place.slot].ends[side];
  if (!end.accepts && frame.bytes.size() > kFrameMaxBeforeHello) {
    return shared_.breaks(fmt::format("peer-{} is sent {} bytes before it accepts them",
                                      node.number, frame.bytes.size()));
  }
  // The bytes that come out are those that went in, unless something is broken: most are not
  // decoded.
  if (frame.damaged || frame.bytes.back() == std::byte{}) {
    wire::FrameReader reader(std::size_t{1} << 30);
    base::ByteView stream(frame.bytes);
    auto read = reader.read(stream);
    if (!read || !*read) {
      shared_.trace.line(fmt::format("peer-{} refuses a damaged frame", node.number));
      // As in io: a session refuses bytes that were changed on the way, and blames nobody.
      drop(place.slot, 1 - side, Reason::reset, "reset");
      return drop(place.slot, side, Reason::reset, "damaged frame");
    }
    auto decoded = wire::decode(std::move(**read));
    if (frame.damaged) {
      return shared_.breaks(
          fmt::format("peer-{} took a damaged frame for a good one", node.number));
    }
    if (!decoded || !*decoded) {
      return shared_.breaks(
          fmt::format("peer-{} cannot read a frame that a peer sent", node.number));
    }
    frame.message = std::move(**decoded);
  }
  receiver_.give(node, peer::Received{end.link, std::move(frame.message), frame.took});
}

// Whether the routers on the way still know the connection.
bool Links::passes(Connection& connection) const {
  const auto& forgotten_after = connection.terms.forgotten_after;
  if (forgotten_after && now() - connection.passed > *forgotten_after) connection.dead = true;
  return !connection.dead;
}

void Links::lose(const std::vector<std::uint32_t>& peers, bool through_routers) {
  for (Connection& connection : connections_) {
    if (through_routers && !connection.terms.through_router) continue;
    for (const End& end : connection.ends) {
      if (!end.open) continue;
      const std::uint32_t peer = shared_.nodes[end.of.node]->peer;
      if (std::ranges::find(peers, peer) != peers.end()) connection.dead = true;
    }
  }
}

std::optional<LinkPath> Links::path_between(const Node& a, const Node& b) const {
  for (const auto& [link, slot] : a.links) {
    const Connection& connection = connections_[slot];
    const End& other = connection.ends[1 - connection.side_of(a.this_life(), link)];
    if (other.of.node != b.number || !other.open) continue;
    return connection.terms.circuit == 0 ? LinkPath::direct : LinkPath::circuit;
  }
  return std::nullopt;
}

std::size_t Links::unsent(const Node& node) const {
  std::size_t count = 0;
  for (const auto& [link, slot] : node.links) {
    const Connection& connection = connections_[slot];
    count += connection.directions[connection.side_of(node.this_life(), link)].waiting.size();
  }
  return count;
}

void Links::close(Node& node, base::LinkId link, bool reset) {
  const auto found = node.links.find(link);
  if (found == node.links.end()) return;
  const std::uint32_t slot = found->second;
  node.links.erase(found);
  Connection& connection = connections_[slot];
  const int side = connection.side_of(node.this_life(), link);
  connection.ends[side].open = false;
  if (node.is_up()) shared_.agenda.after({}, Closed{node.this_life(), link, reset});
  if (reset) leg_gone(slot, false);
  if (connection.ends[1 - side].open) {
    if (reset) {
      // Data that the dying process had not sent is lost, and its reset is not resent.
      Stream& direction = connection.directions[side];
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

void Links::close_all(Node& node, bool reset) {
  const auto links = node.links;
  for (const auto& [link, slot] : links) close(node, link, reset);
}

void Links::happen(const Closed& closed) {
  Node* const node = shared_.find(closed.by);
  if (node == nullptr) return;
  const auto reason = closed.reset ? Reason::reset : Reason::closed;
  receiver_.give(*node, peer::LinkDown{closed.link, reason, closed.reset ? "reset" : "closed"});
}

void Links::drop(std::uint32_t slot, int side, Reason reason, const std::string& text) {
  End& end = connections_[slot].ends[side];
  if (!std::exchange(end.open, false)) return release(slot);
  const End copy = end;
  shared_.nodes[copy.of.node]->links.erase(copy.link);
  leg_gone(slot, reason != Reason::reset);
  release(slot);
  Node* const node = shared_.find(copy.of);
  if (node != nullptr) receiver_.give(*node, peer::LinkDown{copy.link, reason, text});
}

void Links::release(std::uint32_t slot) {
  Connection& connection = connections_[slot];
  if (connection.ends[0].open || connection.ends[1].open) return;
  leg_gone(slot, true);  // where both ends closed it, neither has heard of the other
  circuits_.disconnect(connection.terms.circuit);
  ++connection.generation;
  for (Stream& direction : connection.directions) direction = {};
  free_.push_back(slot);
}

void Links::leg_gone(std::uint32_t slot, bool orderly) {
  const Place gone = place_of(slot);
  while (const std::uint64_t number = circuits_.over(gone)) {
    const auto& connection = circuits_.find(number)->connection;
    base::Duration rest{};
    if (orderly && connection) {
      const PathState path = path_state(connections_[connection->slot], 0);
      rest = milliseconds(path.latency_ms) + std::chrono::milliseconds(1);
    }
    circuits_.end(number, rest);
  }
  circuits_.drop_halves(gone);
}

}  // namespace starling::sim
