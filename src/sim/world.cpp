#include "sim/world.hpp"

#include <utility>

#include "base/assert.hpp"

namespace starling::sim {

World::World(const Plan& plan, Task& task, std::function<void(const std::string&)> trace,
             MakeConduct make_conduct)
    : shared_(plan, task, std::move(trace), std::move(make_conduct)),
      paths_(plan),
      addresses_(plan, shared_.nodes),
      circuits_(shared_, processes_),
      links_(shared_, paths_, circuits_, processes_),
      dialing_(shared_, paths_, addresses_, links_, processes_),
      processes_(shared_, addresses_, links_, dialing_),
      timeline_(shared_, paths_, addresses_, links_, processes_) {
  for (const PlannedPeer& peer : plan.peers) {
    auto node = std::make_unique<Node>();
    node->number = node->peer = peer.number;
    node->relay = peer.relay;
    node->hostile = peer.attack.has_value();
    ASSERT(!node->hostile || shared_.make_conduct);
    node->speed = peer.speed;
    node->id = draw_id(shared_.rng);
    addresses_.settle(*node);
    shared_.nodes.push_back(std::move(node));
  }
  shared_.agenda.after(std::chrono::seconds(1), Second{});
}

void World::run() {
  const auto happens = [&](auto& value) {
    if constexpr (requires { links_.happen(value); }) {
      links_.happen(value);
    } else if constexpr (requires { circuits_.happen(value); }) {
      circuits_.happen(value);
    } else if constexpr (requires { dialing_.happen(value); }) {
      dialing_.happen(value);
    } else if constexpr (requires { processes_.happen(value); }) {
      processes_.happen(value);
    } else if constexpr (requires { timeline_.happen(value); }) {
      timeline_.happen(value);
    } else {
      happen(value);
    }
  };
  while (auto happening = shared_.agenda.next()) std::visit(happens, *happening);
}

void World::happen(const Second&) {
  shared_.observer->second();
  shared_.agenda.after(std::chrono::seconds(1), Second{});
}

double World::peer_seconds() const {
  double sum = 0;
  for (const auto& node : shared_.nodes) {
    sum += node->up_seconds;
    if (node->is_up()) sum += base::seconds(now() - node->started);
  }
  return sum;
}

}  // namespace starling::sim
