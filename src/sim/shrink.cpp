#include "sim/shrink.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/core.h>

namespace starling::sim {
namespace {

/// Rounded down; 0: there is nothing to halve.
std::uint32_t half_of(std::uint32_t count) { return count > 1 ? count / 2 : 0; }

class Shrinker {
 public:
  Shrinker(Scenario scenario, const std::function<bool(const Scenario&)>& fails)
      : scenario_(std::move(scenario)), fails_(fails) {}

  Scenario run() {
    drop([](Scenario & scenario) -> auto& { return scenario.timeline; });
    drop([](Scenario & scenario) -> auto& { return scenario.hostiles; });
    drop([](Scenario & scenario) -> auto& { return scenario.set; });
    for (std::size_t i = 0; i < scenario_.timeline.size(); ++i) shrink_entry(i);
    while (scenario_.count > 2 && attempt(drop_peer)) {
    }
    if (scenario_.sim.buggify) attempt([](Scenario& plain) { plain.sim.buggify = false; });
    return std::move(scenario_);
  }

 private:
  /// A ring has as many peers as the scenario.
  static void drop_peer(Scenario& scenario) {
    const std::string all = fmt::format("swarm.peers={}", scenario.count);
    --scenario.count;
    std::ranges::replace(scenario.set, all, fmt::format("swarm.peers={}", scenario.count));
  }

  /// Keeps the change if the changed scenario still fails.
  template <class Change>
  bool attempt(Change&& change) {
    Scenario smaller = scenario_;
    change(smaller);
    if (!fails_(smaller)) return false;
    scenario_ = std::move(smaller);
    return true;
  }

  /// Removes elements of a list, halves first and then one by one.
  template <class List>
  void drop(List&& list_of) {
    const std::size_t all = list_of(scenario_).size();
    for (std::size_t piece = std::max<std::size_t>(1, all / 2); piece > 0; piece /= 2) {
      for (std::size_t at = 0; at < list_of(scenario_).size();) {
        const bool dropped = attempt([&](Scenario& smaller) {
          auto& list = list_of(smaller);
          const std::size_t end = std::min(at + piece, list.size());
          list.erase(list.begin() + static_cast<std::ptrdiff_t>(at),
                     list.begin() + static_cast<std::ptrdiff_t>(end));
        });
        if (!dropped) at += piece;
      }
    }
  }

  /// Tries fewer peers, and a shorter time.
  void shrink_entry(std::size_t i) {
    const auto halve = [&](auto&& count_of) {
      while (half_of(count_of(scenario_.timeline[i])) > 0) {
        const bool smaller = attempt([&](Scenario& scenario) {
          std::uint32_t& count = count_of(scenario.timeline[i]);
          count = half_of(count);
        });
        if (!smaller) return;
      }
    };
    halve([](Entry& entry) -> std::uint32_t& { return entry.count; });
    if (scenario_.timeline[i].peers) {
      halve([](Entry& entry) -> std::uint32_t& { return entry.peers->count; });
    }
    while (scenario_.timeline[i].duration.value_or(0) > kShort) {
      if (!attempt([&](Scenario& scenario) { *scenario.timeline[i].duration /= 2; })) return;
    }
  }

  static constexpr double kShort = 1;  ///< seconds: shorter faults do not make it simpler

  Scenario scenario_;
  const std::function<bool(const Scenario&)>& fails_;
};

}  // namespace

Scenario shrink(Scenario scenario, const std::function<bool(const Scenario&)>& fails) {
  return Shrinker(std::move(scenario), fails).run();
}

}  // namespace starling::sim
