// Processes: started, killed, stopped, and the actions that their cores ask for.
#include <array>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "sim/world.hpp"

namespace starling::sim {
namespace {

/// The largest error of a machine's wall clock when a process starts, in seconds; less than kStart.
constexpr std::int64_t kClockOff = 100;

/// Names of peer::Event's alternatives, for people.
constexpr std::array kEventNames{
    "start",   "link up", "link down",  "dial failed", "found",      "moved",        "receives",
    "outcome", "leave",   "checkpoint", "arriving",    "unreadable", "circuit ended"};
static_assert(kEventNames.size() == std::variant_size_v<peer::Event>);
constexpr std::array kMessageNames{
    "Hello",        "Refuse",         "Neighbour", "Gossip",     "Heartbeat", "LinkOpen",
    "Keyframe",     "Delta",          "Reduce",    "Bye",        "Reconcile", "RunFileRequest",
    "RunFileReply", "ReduceReceived", "DialBack",  "DialedBack", "Introduce", "Circuit"};
static_assert(kMessageNames.size() == std::variant_size_v<wire::Message>);
constexpr std::array kOutcomeNames{
    "step done",     "gradient", "outer gradient", "outer step done", "evaluated",
    "not evaluated", "saved",    "failed",         "notice",          "exchange"};
static_assert(kOutcomeNames.size() == std::variant_size_v<peer::Outcome>);

std::uint64_t link_number(base::LinkId link) {
  return (std::uint64_t{link.slot} << 32) | link.generation;
}

/// The part of an event that goes into the trace's hash, in addition to its kind.
std::uint64_t digest_of(const peer::Event& event) {
  if (const auto* up = std::get_if<peer::LinkUp>(&event)) {
    return link_number(up->link) ^ up->peer.prefix();
  }
  if (const auto* down = std::get_if<peer::LinkDown>(&event)) return link_number(down->link);
  if (const auto* outcome = std::get_if<peer::Outcome>(&event)) {
    const auto* step = std::get_if<peer::StepDone>(outcome);
    return step == nullptr ? outcome->index()
                           : (step->step.value << 32) ^ std::bit_cast<std::uint32_t>(step->loss);
  }
  return 0;
}

std::string text_of(const peer::Event& event) {
  std::string name = kEventNames[event.index()];
  if (const auto* up = std::get_if<peer::LinkUp>(&event)) {
    return fmt::format("{} {} with {} at {}{}", name, up->link.slot, up->peer.brief(), up->observed,
                       up->dialed ? ", dialed" : "");
  }
  if (const auto* down = std::get_if<peer::LinkDown>(&event)) {
    return fmt::format("{} {}: {}", name, down->link.slot, down->text);
  }
  if (const auto* failed = std::get_if<peer::DialFailed>(&event)) {
    return fmt::format("{} {}: {}", name, failed->address, failed->text);
  }
  if (const auto* received = std::get_if<peer::Received>(&event)) {
    return fmt::format("{} {} on link {}", name, kMessageNames[received->message.index()],
                       received->link.slot);
  }
  if (const auto* outcome = std::get_if<peer::Outcome>(&event)) {
    return fmt::format("{}: {}", name, kOutcomeNames[outcome->index()]);
  }
  return name;
}

}  // namespace

base::Time World::local(const Node& node) const {
  const double passed = base::seconds(now_ - node.rate_since);
  return node.rate_base +
         (node.rate == 1 ? now_ - node.rate_since : base::from_seconds(passed * node.rate));
}

base::Time World::world_time(const Node& node, base::Time local_time) const {
  const base::Duration ahead = local_time - local(node);
  if (ahead <= base::Duration{}) return now_;
  if (node.rate == 1) return now_ + ahead;
  return now_ + base::from_seconds(base::seconds(ahead) / node.rate) + base::Duration(1);
}

void World::set_rate(Node& node, double rate) {
  node.rate_base = local(node);
  node.rate_since = now_;
  node.rate = rate;
  node.wake_at.reset();
  if (is_up(node)) schedule(node);
}

void World::schedule(Node& node) {
  if (node.state != NodeState::running) return;
  const auto deadline = node.core->next_deadline();
  if (!deadline) return;
  const base::Time when = world_time(node, *deadline);
  if (node.wake_at && *node.wake_at <= when) return;
  node.wake_at = when;
  at(when, Wake{node.number, node.life});
}

void World::begin(const PlannedEvent& event, std::size_t index) {
  if (cuts_paths(event.kind) || event.kind == Kind::degrade) {
    path_faults_[index] = paths_.add(event);
    if (event.kind == Kind::router_restart) strike_routers(event);
    return;
  }
  if (event.kind == Kind::mapping_lost) return strike_routers(event);
  for (const std::uint32_t number : event.peers) {
    Node& node = *nodes_[number];
    switch (event.kind) {
      case Kind::join:
        node.join = addresses_of(event.via);
        start(number);
        break;
      case Kind::restart:
        if (has_run(node)) break;
        if (is_up(node)) kill(node);
        if (event.address == Address::fresh) move(node);
        restart(node, event.disk);
        break;
      case Kind::kill:
        node.waits_for_room = false;
        if (is_up(node)) kill(node);
        break;
      case Kind::stop:
      case Kind::throttle:
      case Kind::disk_full:
      case Kind::skew:
        node.faults.push_back(index);
        apply_faults(node);
        break;
      case Kind::leave:
        node.waits_for_room = false;
        if (is_up(node)) give(node, peer::Leave{});
        break;
      case Kind::twin: {
        auto twin = std::make_unique<Node>();
        twin->number = static_cast<std::uint32_t>(nodes_.size());
        twin->peer = number;
        twin->id = node.id;
        twin->join = {node.address};
        twin->address = fmt::format("{}-twin-{}:1", plan_.peers[number].name, twin->number);
        addresses_[twin->address] = twin->number;
        twins_[index].push_back(twin->number);
        nodes_.push_back(std::move(twin));
        start(nodes_.back()->number, true);
        break;
      }
      case Kind::address_change:
        change_address(node);
        break;
      case Kind::partition:
      case Kind::degrade:
      case Kind::heal:
      case Kind::router_restart:
      case Kind::mapping_lost:
        break;
    }
  }
}

void World::end(const PlannedEvent& event, std::size_t index) {
  if (cuts_paths(event.kind) || event.kind == Kind::degrade) {
    paths_.remove(path_faults_.at(index));
    path_faults_.erase(index);
    return;
  }
  if (event.kind == Kind::twin) {
    for (const std::uint32_t number : twins_[index]) {
      if (is_up(*nodes_[number])) kill(*nodes_[number]);
    }
    return;
  }
  for (const std::uint32_t number : event.peers) {
    Node& node = *nodes_[number];
    if (std::erase(node.faults, index) > 0) apply_faults(node);
  }
}

// Several faults of one kind may overlap: the effect lasts until the last of them is over, and the
// one that began last decides its size.
void World::apply_faults(Node& node) {
  double speed = 1;
  double rate = 1;
  bool stands = false;
  node.folder.full = false;
  for (const std::size_t index : node.faults) {
    const PlannedEvent& event = plan_.events[index];
    if (event.kind == Kind::throttle) speed = event.speed;
    if (event.kind == Kind::skew) rate = event.rate;
    if (event.kind == Kind::stop) stands = true;
    if (event.kind == Kind::disk_full) node.folder.full = true;
  }
  node.speed = plan_.peers[node.peer].speed * speed;
  if (rate != node.rate) set_rate(node, rate);
  if (stands && node.state == NodeState::running) stop(node);
  if (!stands && node.state == NodeState::stopped) resume(node);
  if (node.waits_for_room && !node.folder.full) start(node.number);
}

void World::start(std::uint32_t number, bool twin) {
  Node& node = *nodes_[number];
  if (is_up(node)) return;
  // A peer ends at once if it cannot write its identity.
  node.waits_for_room = node.folder.full;
  if (node.waits_for_room) {
    if (tracing()) trace(fmt::format("peer-{} cannot start: its disk is full", node.number));
    return;
  }
  ++node.life;
  node.state = NodeState::running;
  // The machine's faults continue; the stop applied to another process.
  std::erase_if(node.faults, [&](std::size_t i) { return plan_.events[i].kind == Kind::stop; });
  node.started = now_;
  node.finished.reset();
  node.held.clear();
  node.links.clear();
  node.wake_at.reset();
  node.working = false;
  node.dials = 0;
  node.sent_bytes = 0;
  // Monotonic clocks of different machines are unrelated.
  node.rate_since = now_;
  node.rate_base = base::Time(std::chrono::seconds(1 + rng_.below(1'000'000)));
  // As the system's clock gives it, in seconds; at another start that clock may be set back.
  const auto off = static_cast<std::int64_t>(clocks_.below(2 * kClockOff + 1)) - kClockOff;
  const auto wall = static_cast<std::int64_t>(base::seconds(now_.time_since_epoch())) + off;
  node.incarnation = static_cast<std::uint64_t>(wall);
  if (twin) ++node.incarnation;
  peer::Config config =
      is_relay(node) ? peer::relay_config({}, {}, reach::kRelayConfig) : task_.config;
  config.membership.join.insert(config.membership.join.end(), node.join.begin(), node.join.end());
  peer::Resume resume{.addresses = node.folder.addresses()};
  if (const Checkpoint* saved = node.folder.newest_whole(); saved != nullptr) {
    resume.step = saved->step;
    resume.samples = saved->samples;
    resume.progress = saved->progress;
    resume.weight = saved->weight.value_or(wire::kNoWeight);
    resume.counters = saved->counters;
  }
  const double step_ms = plan_.scenario.sim.step_ms;
  node.worker = std::make_unique<TimedWorker>(
      task_.learner(node.id),
      exchange::make_replica(task_.initial, task_.run_file.exchange, task_.buffers), node.folder,
      resume.step, resume.samples, base::from_seconds(step_ms / 1000), task_.run_file.train.batch);
  wire::MemberRecord self{.id = node.id,
                          .name = plan_.peers[node.peer].name,
                          .addresses = own_addresses(node),
                          .incarnation = node.incarnation,
                          .has_replica = !is_relay(node)};
  node.signer = std::make_unique<membership::SimulatedSigner>(node.id);
  node.core = std::make_unique<peer::Core>(std::move(config), std::move(self), *task_.shards,
                                           resume, *node.signer, rng_.fork());
  if (observer_ != nullptr) observer_->started(node);
  give(node, peer::Start{});
}

std::vector<std::string> World::addresses_of(const std::vector<std::uint32_t>& peers) const {
  std::vector<std::string> addresses;
  addresses.reserve(peers.size());
  for (const std::uint32_t peer : peers) {
    if (!nat_) {
      addresses.push_back(nodes_[peer]->address);
      continue;
    }
    for (const base::IpPort& end : nat_->outer(peer)) addresses.push_back(to_string(end));
  }
  return addresses;
}

/// The addresses that its machine and its router tell it.
std::vector<std::string> World::own_addresses(const Node& node) const {
  if (!nat_) return {node.address};
  std::vector<std::string> addresses;
  for (const base::IpPort& end : nat_->own(node.peer)) addresses.push_back(to_string(end));
  return addresses;
}

// Its run is over, and it has nothing to come back to.
bool World::has_run(const Node& node) const {
  return !is_relay(node) && node.state == NodeState::finished &&
         node.finished->reason == peer::EndReason::done;
}

// Its old address no longer answers.
void World::move(Node& node) {
  addresses_.erase(node.address);
  if (nat_) {
    const bool mapped = nat_->is_mapped(node.peer);
    lose_links(mapped ? nat_->neighbours(node.peer) : std::vector{node.peer}, mapped);
    nat_->change_address(node.peer);
    node.address = to_string(nat_->outer(node.peer).front());
  } else {
    // A running peer may move several times.
    std::string name = fmt::format("{}-life-{}", plan_.peers[node.peer].name, node.life + 1);
    if (is_up(node)) name += fmt::format("-at-{:.3f}", seconds());
    node.address = name + ":1";
  }
  addresses_[node.address] = node.number;
}

// While it runs. Its links, and those of all peers mapped to the same address, are as silent as if
// they were cut. A peer that has an address from the router tells the new one, too.
void World::change_address(Node& node) {
  const std::vector<std::uint32_t> concerned =
      nat_ ? nat_->neighbours(node.peer) : std::vector{node.peer};
  std::vector<std::vector<std::string>> before;
  for (const std::uint32_t peer : concerned) before.push_back(own_addresses(*nodes_[peer]));
  if (!nat_) lose_links({node.peer}, false);
  move(node);
  for (std::size_t i = 0; i < concerned.size(); ++i) {
    Node& other = *nodes_[concerned[i]];
    std::vector<std::string> after = own_addresses(other);
    if (is_up(other) && after != before[i]) give(other, peer::Moved{std::move(after)});
  }
}

// They forget their connections, each router once for all peers behind it.
void World::strike_routers(const PlannedEvent& event) {
  std::vector<std::uint32_t> done;
  for (const std::uint32_t number : event.peers) {
    Node& node = *nodes_[number];
    if (event.kind == Kind::mapping_lost) {
      nat_->lose_mappings(number);
      lose_links({number}, true);
      continue;
    }
    if (std::ranges::find(done, plan_.peers[number].router) != done.end()) continue;
    done.push_back(plan_.peers[number].router);
    nat_->restart(number);
    lose_links(nat_->neighbours(number), true);
    if (event.address == Address::fresh) change_address(node);
  }
}

void World::restart(Node& node, Disk disk) {
  switch (disk) {
    case Disk::kept:
      break;
    case Disk::lost:
      node.folder.lose();
      for (std::uint8_t& byte : node.id.bytes) byte = static_cast<std::uint8_t>(rng_.below(256));
      break;
    case Disk::torn:
      node.folder.tear();
      break;
    case Disk::flipped:
      node.folder.flip(rng_());
      break;
  }
  start(node.number);
}

void World::kill(Node& node) {
  if (observer_ != nullptr) observer_->killed(node);
  node.up_seconds += base::seconds(now_ - node.started);
  node.state = NodeState::down;
  // Its machine resets the links.
  const auto links = node.links;
  for (const auto& [link, connection] : links) close(node, link, true);
  node.links.clear();
  node.held.clear();
  node.core.reset();
  node.worker.reset();
}

void World::stop(Node& node) {
  node.state = NodeState::stopped;
  // The current job does not go on meanwhile.
  ++node.work;
  if (node.working) node.work_left = node.work_ends - now_;
}

void World::resume(Node& node) {
  node.state = NodeState::running;
  const std::uint32_t life = node.life;
  if (node.working) end_work_after(node, node.work_left);
  while (!node.held.empty() && node.life == life && node.state == NodeState::running) {
    peer::Event event = std::move(node.held.front());
    node.held.pop_front();
    give(node, std::move(event));
  }
  if (node.state == NodeState::running && node.life == life) {
    node.wake_at.reset();
    schedule(node);
  }
}

void World::give(Node& node, peer::Event event) {
  if (node.state == NodeState::stopped) {
    node.held.push_back(std::move(event));
    return;
  }
  if (node.state != NodeState::running) return;
  digest(node, static_cast<std::uint32_t>(event.index()) + 1, digest_of(event));
  if (tracing()) trace(fmt::format("peer-{} {}", node.number, text_of(event)));
  peer::Outbox out;
  node.core->handle(std::move(event), local(node), out);
  act(node, out);
  if (node.state != NodeState::running) return;
  if (observer_ != nullptr) observer_->touched(node);
  schedule(node);
}

void World::act(Node& node, peer::Outbox& out) {
  for (peer::Action& action : out) {
    std::visit([&](auto& of_kind) { act(node, of_kind); }, action);
  }
}

void World::act(Node& node, const peer::Dial& action) { dial(node, action); }

void World::act(Node& node, const peer::Send& action) { send(node, action.link, action.message); }

void World::act(Node& node, const peer::Accept& action) {
  const auto found = node.links.find(action.link);
  if (found == node.links.end()) return;
  Connection& connection = connections_[found->second];
  connection.ends[side_of(connection, node, action.link)].accepts = true;
}

void World::act(Node& node, const peer::Close& action) { close(node, action.link, false); }

void World::act(Node& node, peer::Run& action) {
  note_opening(node, action.job);
  node.worker->submit(std::move(action.job));
  if (!node.working) begin_work(node);
}

void World::act(Node& node, const base::LogEntry& action) {
  if (tracing()) trace(fmt::format("peer-{}   \"{}\"", node.number, action.text));
  if (observer_ != nullptr) observer_->noticed(node, action);
}

// A row of a file that nobody reads here.
void World::act(Node&, const peer::Report&) {}

void World::act(Node& node, const peer::Remember& action) {
  node.folder.write_addresses(action.addresses);
}

void World::act(Node& node, const peer::Refused& action) {
  if (breach_.empty()) {
    breach_ =
        fmt::format("peer-{} was refused at {}: of one run all are", node.peer, action.address);
  }
  stop();
}

void World::act(Node& node, peer::Finished& action) {
  node.finished = std::move(action);
  if (observer_ != nullptr) observer_->finished(node);
  node.up_seconds += base::seconds(now_ - node.started);
  node.state = NodeState::finished;
  const auto links = node.links;
  for (const auto& [link, connection] : links) close(node, link, false);
}

// Both ends identify the link on which they set their mirrors by its connection.
void World::note_opening(Node& node, const peer::Job& job) {
  const auto* exchange = std::get_if<exchange::Job>(&job);
  const auto* open = exchange == nullptr ? nullptr : std::get_if<exchange::OpenJob>(exchange);
  if (open == nullptr) return;
  for (const auto& neighbour : node.core->membership().neighbours(local(node))) {
    const auto link = node.links.find(neighbour.link);
    if (neighbour.peer != open->peer || link == node.links.end()) continue;
    const std::uint64_t generation = connections_[link->second].generation;
    node.worker->ledger().opens_on(open->peer, (std::uint64_t{link->second} << 32) | generation);
  }
}

void World::begin_work(Node& node) {
  if (node.state != NodeState::running || node.working) return;
  const auto takes = node.worker->begin();
  if (!takes) return;
  node.working = true;
  end_work_after(node, base::from_seconds(base::seconds(*takes) / node.speed));
}

void World::end_work_after(Node& node, base::Duration delay) {
  node.work_ends = now_ + delay;
  after(delay, Work{node.number, node.life, ++node.work});
}

Node* World::find_address(const std::string& address) {
  const auto found = addresses_.find(address);
  return found == addresses_.end() ? nullptr : nodes_[found->second].get();
}

}  // namespace starling::sim
