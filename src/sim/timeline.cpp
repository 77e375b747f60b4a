#include "sim/timeline.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace starling::sim {

Timeline::Timeline(Shared& shared, PathTable& paths, Addresses& addresses, Links& links,
                   Processes& processes)
    : shared_(shared), paths_(paths), addresses_(addresses), links_(links), processes_(processes) {
  const auto plan = [&](double seconds, const Planned& planned) {
    shared_.agenda.at(kStart + base::from_seconds(seconds), planned);
  };
  for (std::size_t i = 0; i < shared_.plan.events.size(); ++i) {
    const PlannedEvent& event = shared_.plan.events[i];
    plan(event.at, {i, true});
    if (event.until) plan(*event.until, {i, false});
  }
}

void Timeline::happen(const Planned& planned) {
  const PlannedEvent& event = shared_.plan.events[planned.event];
  if (shared_.trace.is_read()) {
    shared_.trace.line(fmt::format("---- {} {} (line {}), peers [{}]", to_string(event.kind),
                                   planned.begins ? "begins" : "ends", event.line,
                                   fmt::join(event.peers, " ")));
  }
  if (planned.begins) {
    shared_.observer->fault(event, true);
    begin(event, planned.event);
  } else {
    end(event, planned.event);
    shared_.observer->fault(event, false);
  }
}

void Timeline::begin(const PlannedEvent& event, std::size_t index) {
  if (cuts_paths(event.kind) || event.kind == Kind::degrade) {
    path_faults_[index] = paths_.add(event);
    if (event.kind == Kind::router_restart) strike_routers(event);
    return;
  }
  if (event.kind == Kind::mapping_lost) return strike_routers(event);
  for (const std::uint32_t number : event.peers) begin_at(*shared_.nodes[number], event, index);
}

void Timeline::begin_at(Node& node, const PlannedEvent& event, std::size_t index) {
  switch (event.kind) {
    case Kind::join:
      node.join = addresses_.of(event.via);
      return processes_.start(node);
    case Kind::restart:
      return restart(node, event);
    case Kind::kill:
      node.waits_for_room = false;
      if (node.is_up()) processes_.kill(node);
      return;
    case Kind::stop:
    case Kind::throttle:
    case Kind::disk_full:
    case Kind::skew:
      node.faults.push_back(index);
      return apply_faults(node);
    case Kind::leave:
      node.waits_for_room = false;
      if (node.is_up()) processes_.give(node, peer::Leave{});
      return;
    case Kind::twin:
      return start_twin(node, index);
    case Kind::address_change:
      return change_address(node);
    case Kind::partition:
    case Kind::degrade:
    case Kind::heal:
    case Kind::router_restart:
    case Kind::mapping_lost:
      return;
  }
}

void Timeline::end(const PlannedEvent& event, std::size_t index) {
  if (cuts_paths(event.kind) || event.kind == Kind::degrade) {
    paths_.remove(path_faults_.at(index));
    path_faults_.erase(index);
    return;
  }
  if (event.kind == Kind::twin) {
    for (const std::uint32_t number : twins_[index]) {
      if (shared_.nodes[number]->is_up()) processes_.kill(*shared_.nodes[number]);
    }
    return;
  }
  for (const std::uint32_t number : event.peers) {
    Node& node = *shared_.nodes[number];
    if (std::erase(node.faults, index) > 0) apply_faults(node);
  }
}

// Several faults of one kind may overlap: the effect lasts until the last of them is over, and the
// one that began last decides its size.
void Timeline::apply_faults(Node& node) {
  double speed = 1;
  double rate = 1;
  bool stands = false;
  node.folder.full = false;
  for (const std::size_t index : node.faults) {
    const PlannedEvent& event = shared_.plan.events[index];
    if (event.kind == Kind::throttle) speed = event.speed;
    if (event.kind == Kind::skew) rate = event.rate;
    if (event.kind == Kind::stop) stands = true;
    if (event.kind == Kind::disk_full) node.folder.full = true;
  }
  node.speed = shared_.plan.peers[node.peer].speed * speed;
  if (rate != node.clock.rate()) processes_.set_rate(node, rate);
  if (stands && node.state == NodeState::running) processes_.stop(node);
  if (!stands && node.state == NodeState::stopped) processes_.resume(node);
  if (node.waits_for_room && !node.folder.full) processes_.start(node);
}

void Timeline::restart(Node& node, const PlannedEvent& event) {
  // If its run is over, it has nothing to come back to.
  if (!node.relay && node.state == NodeState::finished &&
      node.finished->reason == peer::EndReason::done) {
    return;
  }
  if (node.is_up()) processes_.kill(node);
  if (event.address == Address::fresh) move(node);
  switch (event.disk) {
    case Disk::kept:
      break;
    case Disk::lost:
      node.folder.lose();
      node.id = draw_id(shared_.rng);
      break;
    case Disk::torn:
      node.folder.tear();
      break;
    case Disk::flipped:
      node.folder.flip(shared_.rng());
      break;
  }
  processes_.start(node);
}

void Timeline::start_twin(const Node& node, std::size_t index) {
  auto twin = std::make_unique<Node>();
  twin->number = static_cast<std::uint32_t>(shared_.nodes.size());
  twin->peer = node.number;
  twin->relay = node.relay;
  twin->hostile = node.hostile;
  twin->id = node.id;
  twin->join = {node.address};
  addresses_.add_twin(*twin);
  twins_[index].push_back(twin->number);
  shared_.nodes.push_back(std::move(twin));
  processes_.start(*shared_.nodes.back(), true);
}

void Timeline::move(Node& node) {
  if (const Nat* nat = addresses_.nat(); nat != nullptr) {
    const bool mapped = nat->is_mapped(node.peer);
    links_.lose(mapped ? nat->neighbours(node.peer) : std::vector{node.peer}, mapped);
  }
  addresses_.move(node, shared_.agenda.seconds());
}

// While it runs. Its links, and those of all peers mapped to the same address, are as silent as if
// they were cut. A peer that has an address from the router tells the new one, too.
void Timeline::change_address(Node& node) {
  const std::vector<std::uint32_t> concerned = addresses_.concerned(node.peer);
  std::vector<std::vector<std::string>> before;
  before.reserve(concerned.size());
  for (const std::uint32_t peer : concerned) before.push_back(addresses_.own(*shared_.nodes[peer]));
  if (addresses_.nat() == nullptr) links_.lose({node.peer}, false);
  move(node);
  for (std::size_t i = 0; i < concerned.size(); ++i) {
    Node& other = *shared_.nodes[concerned[i]];
    std::vector<std::string> after = addresses_.own(other);
    if (other.is_up() && after != before[i]) processes_.give(other, peer::Moved{std::move(after)});
  }
}

// They forget their connections, each router once for all peers behind it.
void Timeline::strike_routers(const PlannedEvent& event) {
  Nat& nat = *addresses_.nat();
  std::vector<std::uint32_t> done;
  for (const std::uint32_t number : event.peers) {
    if (event.kind == Kind::mapping_lost) {
      nat.lose_mappings(number);
      links_.lose({number}, true);
      continue;
    }
    const std::uint32_t router = shared_.plan.peers[number].router;
    if (std::ranges::find(done, router) != done.end()) continue;
    done.push_back(router);
    nat.restart(number);
    links_.lose(nat.neighbours(number), true);
    if (event.address == Address::fresh) change_address(*shared_.nodes[number]);
  }
}

}  // namespace starling::sim
