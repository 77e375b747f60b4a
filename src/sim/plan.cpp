#include "sim/plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/hash.hpp"
#include "base/rng.hpp"

namespace starling::sim {
namespace {

using base::ErrorCode;
using base::fail;
using Numbers = std::vector<std::uint32_t>;

/// Something of the timeline at one time: an entry's turn, or the restart that a kill brings.
struct Occurrence {
  double at = 0;
  std::size_t order = 0;
  const Entry* entry = nullptr;
  Numbers restart{};  ///< of these; empty: the entry itself

  friend bool operator<(const Occurrence& a, const Occurrence& b) {
    return std::tie(a.at, a.order) > std::tie(b.at, b.order);  // earliest on top
  }
};

Numbers without(const Numbers& all, const Numbers& some) {
  Numbers rest;
  std::ranges::set_difference(all, some, std::back_inserter(rest));
  return rest;
}

class Planner {
 public:
  explicit Planner(Plan& plan) : plan_(plan), scenario_(plan.scenario), rng_(plan.seed) {}

  base::Status run() {
    start_peers();
    for (const Entry& entry : scenario_.timeline) line_up(entry);
    while (!occurrences_.empty() && !error_) {
      Occurrence next = occurrences_.top();
      occurrences_.pop();
      // Joins that a spacing puts later come into the table of peers at once, so that numbers
      // follow the order of the timeline.
      if (next.restart.empty()) {
        happen(*next.entry, next.at);
      } else {
        restart(next.restart, *next.entry, next.at);
      }
      if (plan_.events.size() > kEventsMax) reject(*next.entry, "more than {} events", kEventsMax);
    }
    if (error_) return fail(std::move(*error_));
    std::ranges::stable_sort(plan_.events, {}, &PlannedEvent::at);
    return {};
  }

 private:
  template <class... Args>
  void reject(const Entry& entry, fmt::format_string<Args...> format, Args&&... args) {
    if (error_) return;
    error_ =
        base::Error{ErrorCode::run_file,
                    fmt::format("{}:{}: {}: {}", scenario_.file, entry.line, to_string(entry.kind),
                                fmt::format(format, std::forward<Args>(args)...))};
  }

  void line_up(const Entry& entry) {
    if (entry.at >= scenario_.duration) {
      return reject(entry, "at {} s the scenario is over: it lasts {} s", entry.at,
                    scenario_.duration);
    }
    if (entry.until && *entry.until < entry.at) {
      return reject(entry, "until {} s is before it begins, at {} s", *entry.until, entry.at);
    }
    const double end = std::min(entry.until.value_or(scenario_.duration), scenario_.duration);
    if (!entry.every) return occurrences_.push({entry.at, order_++, &entry});
    for (std::size_t turn = 0; turn < kEventsMax; ++turn) {
      const double at = entry.at + static_cast<double>(turn) * *entry.every;
      if (at > end) return;
      occurrences_.push({at, order_++, &entry});
    }
    reject(entry, "happens more than {} times", kEventsMax);
  }

  void start_peers() {
    for (std::uint32_t i = 0; i < scenario_.count; ++i) add_peer({});
    start(0, scenario_.count, 0, scenario_.spacing, 0);
  }

  void add_peer(const std::string& region) {
    const auto number = static_cast<std::uint32_t>(plan_.peers.size());
    const auto& regions = scenario_.regions;
    plan_.peers.push_back({.number = number,
                           .name = fmt::format("peer-{}", number),
                           .region = region.empty() ? regions[number % regions.size()] : region,
                           .speed = scenario_.speeds[number % scenario_.speeds.size()]});
    up_.push_back(number);
  }

  void start(std::uint32_t first, std::uint32_t count, double at, double spacing, int line) {
    for (std::uint32_t i = 0; i < count; ++i) {
      const double when = at + i * spacing;
      const Numbers via = choose_via(first + i);
      PlannedEvent* const last = plan_.events.empty() ? nullptr : &plan_.events.back();
      if (last != nullptr && last->kind == Kind::join && last->at == when && last->line == line &&
          last->via == via) {
        last->peers.push_back(first + i);
        continue;
      }
      plan_.events.push_back({.at = when,
                              .until = {},
                              .kind = Kind::join,
                              .peers = {first + i},
                              .via = via,
                              .paths = {},
                              .conditions = {},
                              .line = line});
    }
  }

  /// The addresses that a starting peer gets: of peers with lower numbers.
  Numbers choose_via(std::uint32_t number) {
    Numbers before(number);
    std::iota(before.begin(), before.end(), 0U);
    Numbers via = choose(scenario_.via, before);
    std::erase_if(via, [&](std::uint32_t other) { return other >= number; });
    return via;
  }

  /// Of rising candidates.
  Numbers choose(const Selector& selector, const Numbers& candidates) {
    using enum Selector::Kind;
    const std::size_t count = std::min<std::size_t>(selector.count, candidates.size());
    const auto size = static_cast<std::ptrdiff_t>(count);
    switch (selector.kind) {
      case all:
        return candidates;
      case first:
        return {candidates.begin(), candidates.begin() + size};
      case last:
        return {candidates.end() - size, candidates.end()};
      case random:
        return draw(candidates, selector.percent > 0 ? percent_of(selector, candidates) : count);
      case next:
        return next_ones(candidates, count);
      case region: {
        Numbers chosen;
        for (const std::uint32_t peer : candidates) {
          if (plan_.peers[peer].region == selector.region) chosen.push_back(peer);
        }
        return chosen;
      }
      case numbers:
        break;
    }
    Numbers chosen;
    std::ranges::set_intersection(selector.numbers, candidates, std::back_inserter(chosen));
    return chosen;
  }

  static std::size_t percent_of(const Selector& selector, const Numbers& candidates) {
    if (candidates.empty()) return 0;
    const double exact = selector.percent / 100 * static_cast<double>(candidates.size());
    return std::clamp<std::size_t>(static_cast<std::size_t>(std::llround(exact)), 1,
                                   candidates.size());
  }

  Numbers draw(Numbers candidates, std::size_t count) {
    base::shuffle(candidates, rng_);
    candidates.resize(count);
    std::ranges::sort(candidates);
    return candidates;
  }

  /// The following ones in order of number, and around.
  Numbers next_ones(const Numbers& candidates, std::size_t count) {
    Numbers chosen;
    for (; chosen.size() < count; ++next_) {
      const auto from = std::ranges::lower_bound(candidates, next_);
      next_ = from == candidates.end() ? candidates.front() : *from;
      chosen.push_back(next_);
    }
    std::ranges::sort(chosen);
    return chosen;
  }

  PlannedEvent& add(const Entry& entry, double at, Numbers peers) {
    PlannedEvent event{.at = at,
                       .until = {},
                       .kind = entry.kind,
                       .peers = std::move(peers),
                       .via = {},
                       .paths = {},
                       .conditions = {},
                       .line = entry.line};
    if (entry.duration) event.until = std::min(at + *entry.duration, scenario_.duration);
    plan_.events.push_back(std::move(event));
    return plan_.events.back();
  }

  void happen(const Entry& entry, double at) {
    if (entry.kind == Kind::join) return join(entry, at);
    if (entry.kind == Kind::heal) return heal(at);
    if (entry.kind == Kind::partition) return partition(entry, at);
    if (entry.kind == Kind::degrade) return degrade(entry, at);
    if (!check_numbers(entry)) return;
    Numbers all(plan_.peers.size());
    std::iota(all.begin(), all.end(), 0U);
    // Those that run restart only where they are named, or each in turn.
    const bool restarts = entry.kind == Kind::restart;
    const bool of_any = restarts && (entry.peers->kind == Selector::Kind::numbers ||
                                     entry.peers->kind == Selector::Kind::next);
    Numbers peers = choose(*entry.peers, of_any ? all : restarts ? down_ : up_);
    if (peers.empty()) return;
    if (entry.kind == Kind::restart) return restart(peers, entry, at);
    if (entry.kind == Kind::kill || entry.kind == Kind::leave) {
      set_up(peers, false);
      add(entry, at, peers).until.reset();
      if (entry.duration) {
        occurrences_.push({at + *entry.duration, order_++, &entry, std::move(peers)});
      }
      return;
    }
    PlannedEvent& event = add(entry, at, std::move(peers));
    event.speed = entry.speed;
    event.rate = entry.rate;
  }

  void restart(const Numbers& peers, const Entry& entry, double at) {
    Numbers running;
    std::ranges::set_intersection(peers, up_, std::back_inserter(running));
    if (!running.empty()) {
      // Those that a kill brings back may have been restarted by another entry meanwhile.
      if (entry.kind != Kind::restart) {
        const Numbers rest = without(peers, running);
        if (!rest.empty()) restart(rest, entry, at);
        return;
      }
      add(entry, at, running).kind = Kind::kill;
    }
    set_up(peers, true);
    PlannedEvent& event = add(entry, at, peers);
    event.kind = Kind::restart;
    event.until.reset();
    event.disk = entry.disk;
    event.address = entry.address;
  }

  void set_up(const Numbers& peers, bool up) {
    Numbers& to = up ? up_ : down_;
    Numbers merged;
    std::ranges::set_union(to, peers, std::back_inserter(merged));
    to = std::move(merged);
    Numbers& from = up ? down_ : up_;
    from = without(from, peers);
  }

  void join(const Entry& entry, double at) {
    if (plan_.peers.size() + entry.count > kPeersMax) {
      return reject(entry, "more than {} peers", kPeersMax);
    }
    const auto first = static_cast<std::uint32_t>(plan_.peers.size());
    for (std::uint32_t i = 0; i < entry.count; ++i) add_peer(entry.region);
    start(first, entry.count, at, entry.spacing, entry.line);
  }

  void heal(double at) {
    for (PlannedEvent& event : plan_.events) {
      const bool open = !event.until || *event.until > at;
      if (of_paths(event) && open) event.until = at;
    }
    // Of a cut in turns those that were still to come.
    std::erase_if(plan_.events,
                  [&](const PlannedEvent& event) { return of_paths(event) && event.at >= at; });
  }

  static bool of_paths(const PlannedEvent& event) {
    return event.kind == Kind::partition || event.kind == Kind::degrade;
  }

  bool check_numbers(const Entry& entry) {
    Numbers named = entry.peers ? entry.peers->numbers : Numbers{};
    for (const Numbers& group : entry.groups) named.insert(named.end(), group.begin(), group.end());
    for (const std::uint32_t number : named) {
      if (number < plan_.peers.size()) continue;
      reject(entry, "there is no peer {}: there are {} at that time, from 0", number,
             plan_.peers.size());
      return false;
    }
    return true;
  }

  void partition(const Entry& entry, double at) {
    if (!check_numbers(entry)) return;
    Numbers all(plan_.peers.size());
    std::iota(all.begin(), all.end(), 0U);
    if (entry.shape == Shape::flip_flop) return flip_flop(entry, at, all);
    if (entry.shape == Shape::swizzle) return swizzle(entry, at, all);
    PlannedEvent& event = add(entry, at, {});
    using enum Shape;
    if (entry.shape == one) {
      event.peers = choose(*entry.peers, up_);
      for (const std::uint32_t peer : event.peers) cut_both(event, {peer}, without(all, {peer}));
    } else if (entry.shape == asymmetric) {
      event.peers = choose(*entry.peers, up_);
      event.paths.push_back({event.peers, without(all, event.peers)});
    } else if (entry.shape == groups) {
      for (std::size_t a = 0; a < entry.groups.size(); ++a) {
        event.peers.insert(event.peers.end(), entry.groups[a].begin(), entry.groups[a].end());
        for (std::size_t b = 0; b < a; ++b) cut_both(event, entry.groups[a], entry.groups[b]);
      }
      std::ranges::sort(event.peers);
    } else if (entry.shape == ring) {
      event.peers = all;
      cut_ring(event, draw_order(all));
    } else {
      event.peers = all;
      Numbers order = draw_order(all);
      // One that stands in the middle is in neither part.
      if (entry.shape == bridge) order.pop_back();
      const std::size_t size = order.size() / (entry.shape == minority ? 3 : 2);
      Numbers a(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(size));
      Numbers b(order.begin() + static_cast<std::ptrdiff_t>(size), order.end());
      std::ranges::sort(a);
      std::ranges::sort(b);
      cut_both(event, a, b);
    }
  }

  Numbers draw_order(Numbers all) {
    base::shuffle(all, rng_);
    return all;
  }

  static void cut_both(PlannedEvent& event, const Numbers& a, const Numbers& b) {
    event.paths.push_back({a, b});
    event.paths.push_back({b, a});
  }

  /// On a circle each peer reaches the quarter before and the quarter after itself, which with
  /// itself is a majority.
  static void cut_ring(PlannedEvent& event, const Numbers& circle) {
    const std::size_t n = circle.size();
    const std::size_t reach = n / 4 + 1;
    for (std::size_t i = 0; i < n; ++i) {
      Numbers far;
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t forth = (j + n - i) % n;
        if (std::min(forth, n - forth) > reach) far.push_back(circle[j]);
      }
      std::ranges::sort(far);
      if (!far.empty()) event.paths.push_back({{circle[i]}, std::move(far)});
    }
  }

  void flip_flop(const Entry& entry, double at, const Numbers& all) {
    const Numbers peers = choose(*entry.peers, up_);
    const Numbers others = without(all, peers);
    const double end = std::min(at + *entry.duration, scenario_.duration);
    if (*entry.duration / entry.period > static_cast<double>(kEventsMax)) {
      return reject(entry, "flips more than {} times", kEventsMax);
    }
    for (int turn = 0;; ++turn) {
      const double from = at + turn * entry.period;
      if (from >= end) return;
      PlannedEvent& event = add(entry, from, peers);
      event.until = std::min(from + entry.period, end);
      if (turn % 2 == 0) {
        event.paths.push_back({peers, others});
      } else {
        event.paths.push_back({others, peers});
      }
    }
  }

  /// FoundationDB's swizzle-clogging: in the first third of the time one after the other is cut
  /// off, in the last third they come back, in another order.
  void swizzle(const Entry& entry, double at, const Numbers& all) {
    const double end = std::min(at + *entry.duration, scenario_.duration);
    const double third = (end - at) / 3;
    for (const std::uint32_t peer : choose(*entry.peers, up_)) {
      PlannedEvent& event = add(entry, at + rng_.uniform() * third, {peer});
      event.until = end - rng_.uniform() * third;
      cut_both(event, {peer}, without(all, {peer}));
    }
  }

  void degrade(const Entry& entry, double at) {
    if (!check_numbers(entry)) return;
    Numbers all(plan_.peers.size());
    std::iota(all.begin(), all.end(), 0U);
    Numbers a;
    Numbers b = all;
    if (entry.peers) {
      a = choose(*entry.peers, up_);
    } else {
      a = in_region(entry.between[0]);
      b = in_region(entry.between[1]);
    }
    if (a.empty() || b.empty()) return;
    PlannedEvent& event = add(entry, at, a);
    event.conditions = entry.conditions;
    if (!entry.peers) {
      event.peers.clear();
      std::ranges::set_union(a, b, std::back_inserter(event.peers));
    }
    if (entry.direction != Direction::in) event.paths.push_back({a, b});
    if (entry.direction != Direction::out) event.paths.push_back({b, a});
  }

  Numbers in_region(const std::string& region) const {
    Numbers found;
    for (const PlannedPeer& peer : plan_.peers) {
      if (peer.region == region) found.push_back(peer.number);
    }
    return found;
  }

  Plan& plan_;
  const Scenario& scenario_;
  base::Rng rng_;
  std::priority_queue<Occurrence> occurrences_;
  std::size_t order_ = 0;
  std::uint32_t next_ = 0;
  Numbers up_, down_;  ///< as the plan knows them, rising
  std::optional<base::Error> error_;
};

}  // namespace

FaultTimes fault_times(const Plan& plan) {
  FaultTimes times;
  for (const PlannedEvent& event : plan.events) {
    using enum Kind;
    const bool starts = event.kind == join || event.kind == restart;
    if (starts) times.last_start = std::max(times.last_start, event.at);
    if (event.kind == join) continue;
    const bool happens_at_once = starts || event.kind == kill || event.kind == leave;
    const double no_end = happens_at_once ? event.at : plan.scenario.duration;
    times.first = times.first < 0 ? event.at : std::min(times.first, event.at);
    times.last = std::max(times.last, event.until.value_or(no_end));
  }
  times.last = std::max(times.last, times.last_start);
  return times;
}

base::Result<Plan> make_plan(Scenario scenario, std::optional<std::uint64_t> seed) {
  Plan plan;
  plan.seed = seed.value_or(scenario.seed);
  plan.scenario = std::move(scenario);
  if (base::Status status = Planner(plan).run(); !status) return fail(status.error());
  return plan;
}

}  // namespace starling::sim
