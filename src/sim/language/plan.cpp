#include "sim/language/plan.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/hash.hpp"
#include "base/rng.hpp"
#include "sim/language/plan_hostile.hpp"
#include "sim/language/plan_nat.hpp"
#include "sim/language/selection.hpp"

namespace starling::sim {
namespace {

using base::ErrorCode;
using base::fail;

/// One thing of the timeline at one time: an entry's turn, or its later effect.
struct Occurrence {
  double at = 0;
  std::size_t order = 0;
  const Entry* entry = nullptr;  ///< null: the peers of the start
  Numbers later{};               ///< these start, or start again; empty: the entry's turn

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
  explicit Planner(Plan& plan) : plan_(plan), scenario_(plan.scenario) {}

  base::Status run() {
    for (std::uint32_t i = 0; i < scenario_.count; ++i) add_peer({}, 0);
    for (const Entry& entry : scenario_.timeline) line_up(entry);
    number_joiners();
    if (error_) return fail(std::move(*error_));
    if (base::Status placed = place_behind_routers(plan_); !placed) return placed;
    if (base::Status cast = cast_hostiles(plan_); !cast) return cast;
    draws_ = draws_of(nullptr);
    start(scenario_.count, 0, scenario_.spacing, nullptr);
    while (!occurrences_.empty() && !error_) {
      Occurrence next = occurrences_.top();
      occurrences_.pop();
      draws_ = draws_of(next.entry);
      if (next.later.empty()) {
        happen(*next.entry, next.at);
      } else if (next.entry == nullptr || next.entry->kind == Kind::join) {
        set_up(next.later, true);
      } else {
        restart(next.later, *next.entry, next.at);
      }
      if (struck_ > kStruckMax) {
        reject(*next.entry, "with it, events strike more than {} peers and ends of paths",
               kStruckMax);
      }
      if (plan_.events.size() <= kEventsMax) continue;
      ASSERT(next.entry != nullptr, "a start adds all its events at once, and fewer");
      reject(*next.entry, "more than {} events", kEventsMax);
    }
    if (error_) return fail(std::move(*error_));
    std::ranges::stable_sort(plan_.events, {}, &PlannedEvent::at);
    return {};
  }

 private:
  /// Entries are identified by their contents and the time of their first event, and equal ones by
  /// their order: a scenario that is written anew has different lines. Null: the peers of the
  /// start.
  Draws* draws_of(const Entry* entry) {
    const auto found = draws_by_entry_.find(entry);
    if (found != draws_by_entry_.end()) return &found->second;
    std::uint64_t key[] = {plan_.seed, 0, 0, 0};
    if (entry != nullptr) {
      key[1] = static_cast<std::uint64_t>(entry->kind) + 1;
      key[2] = std::bit_cast<std::uint64_t>(entry->at);
      for (const Entry& other : scenario_.timeline) {
        if (&other == entry) break;
        key[3] += other.kind == entry->kind && other.at == entry->at ? 1 : 0;
      }
    }
    const base::Rng rng(base::xxh3(std::as_bytes(std::span(key))));
    return &draws_by_entry_.emplace(entry, Draws{.rng = rng}).first->second;
  }

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
      if (at > end || at >= scenario_.duration) return;
      if (occurrences_.size() > kEventsMax) return reject(entry, "more than {} events", kEventsMax);
      occurrences_.push({at, order_++, &entry});
    }
    reject(entry, "happens more than {} times", kEventsMax);
  }

  /// All peers that ever join have their numbers from the beginning, in the order of the timeline,
  /// so that cuts also reach those that join while they last.
  void number_joiners() {
    for (auto left = occurrences_; !left.empty() && !error_; left.pop()) {
      const Entry& entry = *left.top().entry;
      if (entry.kind != Kind::join) continue;
      if (plan_.peers.size() + entry.count > kPeersMax) {
        return reject(entry, "more than {} peers", kPeersMax);
      }
      for (std::uint32_t i = 0; i < entry.count; ++i) add_peer(entry.region, left.top().at);
    }
  }

  void add_peer(const std::string& region, double joins_at) {
    const auto number = static_cast<std::uint32_t>(plan_.peers.size());
    const auto& regions = scenario_.regions;
    plan_.peers.push_back({.number = number,
                           .name = fmt::format("peer-{}", number),
                           .region = region.empty() ? regions[number % regions.size()] : region,
                           .speed = scenario_.speeds[number % scenario_.speeds.size()],
                           .relay = std::ranges::binary_search(scenario_.relays, number),
                           .nat = {}});
    joins_at_.push_back(joins_at);
  }

  /// Peers that have joined by then.
  [[nodiscard]] Numbers joined_by(double at) const {
    const auto end = std::ranges::upper_bound(joins_at_, at);
    Numbers peers(static_cast<std::size_t>(end - joins_at_.begin()));
    std::iota(peers.begin(), peers.end(), 0U);
    return peers;
  }

  /// Starts the next peers, one after the other. `entry` is null at the start.
  void start(std::uint32_t count, double at, double spacing, const Entry* entry) {
    const int line = entry == nullptr ? 0 : entry->line;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t number = started_++;
      const double when = at + i * spacing;
      if (when >= scenario_.duration) continue;
      if (when > at) {
        occurrences_.push({when, order_++, entry, {number}});
      } else {
        set_up({number}, true);
      }
      const Numbers via = choose_via(number);
      PlannedEvent* const last = plan_.events.empty() ? nullptr : &plan_.events.back();
      if (last != nullptr && last->kind == Kind::join && last->at == when && last->line == line &&
          last->via == via) {
        last->peers.push_back(number);
        continue;
      }
      plan_.events.push_back({.at = when,
                              .until = {},
                              .kind = Kind::join,
                              .peers = {number},
                              .via = via,
                              .paths = {},
                              .conditions = {},
                              .line = line});
    }
  }

  /// The addresses that a starting peer gets: those of peers with lower numbers.
  Numbers choose_via(std::uint32_t number) {
    Numbers before(number);
    std::iota(before.begin(), before.end(), 0U);
    Numbers via = choose(scenario_.via, before);
    std::erase_if(via, [&](std::uint32_t other) { return other >= number; });
    return via;
  }

  Numbers choose(const Selector& selector, const Numbers& candidates) {
    return sim::choose(selector, candidates, plan_.peers, *draws_);
  }

  /// Whether there is room for that many more; run() reports if there is not.
  bool count(std::size_t struck) {
    struck_ += struck;
    return struck_ <= kStruckMax;
  }

  PlannedEvent& add(const Entry& entry, double at, Numbers peers) {
    if (!count(peers.size())) peers.clear();
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
    if (entry.kind == Kind::join) return start(entry.count, at, entry.spacing, &entry);
    if (entry.kind == Kind::heal) return heal(at);
    if (entry.kind == Kind::partition) return partition(entry, at);
    if (entry.kind == Kind::degrade) return degrade(entry, at);
    if (!check_numbers(entry, at)) return;
    if (entry.kind == Kind::router_restart || entry.kind == Kind::mapping_lost) {
      return strike_routers(entry, at);
    }
    // Running peers restart only if they are named, or each in turn.
    const bool restarts = entry.kind == Kind::restart;
    const bool of_any = restarts && (entry.peers->kind == Selector::Kind::numbers ||
                                     entry.peers->kind == Selector::Kind::next);
    Numbers started;
    if (of_any) std::ranges::set_union(up_, down_, std::back_inserter(started));
    Numbers peers = choose(*entry.peers, of_any ? started : restarts ? down_ : up_);
    if (peers.empty()) return;
    if (entry.kind == Kind::restart) return restart(peers, entry, at);
    if (entry.kind == Kind::kill || entry.kind == Kind::leave) {
      set_up(peers, false);
      add(entry, at, peers).until.reset();
      if (entry.duration && at + *entry.duration < scenario_.duration) {
        occurrences_.push({at + *entry.duration, order_++, &entry, std::move(peers)});
      }
      return;
    }
    PlannedEvent& event = add(entry, at, std::move(peers));
    event.speed = entry.speed;
    event.rate = entry.rate;
  }

  /// Routers of running peers. A router that is off cuts all peers behind it from the rest.
  void strike_routers(const Entry& entry, double at) {
    Numbers behind = up_;
    std::erase_if(behind, [&](std::uint32_t n) { return !is_behind_router(plan_.peers[n]); });
    for (const std::uint32_t number : entry.peers->numbers) {
      if (is_behind_router(plan_.peers[number])) continue;
      return reject(entry, "peer {} is behind no router: a [[network.nat]] entry says who is",
                    number);
    }
    Numbers chosen = choose(*entry.peers, behind);
    if (chosen.empty()) return;
    if (entry.kind == Kind::mapping_lost) {
      add(entry, at, std::move(chosen));
      return;
    }
    std::map<std::uint32_t, Numbers> by_router;
    for (const std::uint32_t number : chosen) by_router[plan_.peers[number].router];
    const Numbers all = joined_by(std::min(at + *entry.duration, scenario_.duration));
    for (const std::uint32_t number : all) {
      const auto router = by_router.find(plan_.peers[number].router);
      if (router != by_router.end()) router->second.push_back(number);
    }
    Numbers struck;
    for (const auto& [router, peers] : by_router)
      struck.insert(struck.end(), peers.begin(), peers.end());
    std::ranges::sort(struck);
    PlannedEvent& event = add(entry, at, std::move(struck));
    event.address = entry.address;
    for (const auto& [router, peers] : by_router) cut_both(event, peers, without(all, peers));
  }

  void restart(const Numbers& peers, const Entry& entry, double at) {
    Numbers running;
    std::ranges::set_intersection(peers, up_, std::back_inserter(running));
    if (!running.empty()) {
      // Another entry may have restarted some of the killed peers meanwhile.
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

  void heal(double at) {
    for (PlannedEvent& event : plan_.events) {
      const bool open = !event.until || *event.until > at;
      if (of_paths(event) && open) event.until = at;
    }
    // Of a cut that changes, the later parts are dropped.
    std::erase_if(plan_.events,
                  [&](const PlannedEvent& event) { return of_paths(event) && event.at >= at; });
  }

  static bool of_paths(const PlannedEvent& event) {
    return event.kind == Kind::partition || event.kind == Kind::degrade;
  }

  bool check_numbers(const Entry& entry, double at) {
    Numbers named = entry.peers ? entry.peers->numbers : Numbers{};
    for (const Numbers& group : entry.groups) named.insert(named.end(), group.begin(), group.end());
    const std::size_t known = joined_by(at).size();
    for (const std::uint32_t number : named) {
      if (number < known) continue;
      reject(entry, "there is no peer {}: there are {} at that time, from 0", number, known);
      return false;
    }
    return true;
  }

  void partition(const Entry& entry, double at) {
    if (!check_numbers(entry, at)) return;
    if (entry.shape == Shape::flip_flop) return flip_flop(entry, at);
    if (entry.shape == Shape::swizzle) return swizzle(entry, at);
    PlannedEvent& event = add(entry, at, {});
    const double until = event.until.value_or(scenario_.duration);
    const Numbers all = joined_by(until);
    using enum Shape;
    if (entry.shape == one) {
      event.peers = choose(*entry.peers, up_);
      for (const std::uint32_t peer : event.peers) cut_both(event, {peer}, without(all, {peer}));
    } else if (entry.shape == asymmetric) {
      event.peers = choose(*entry.peers, up_);
      strike(event, event.peers, without(all, event.peers));
    } else if (entry.shape == groups) {
      for (std::size_t a = 0; a < entry.groups.size(); ++a) {
        event.peers.insert(event.peers.end(), entry.groups[a].begin(), entry.groups[a].end());
        for (std::size_t b = 0; b < a; ++b) cut_both(event, entry.groups[a], entry.groups[b]);
      }
      std::ranges::sort(event.peers);
    } else if (entry.shape == ring) {
      event.peers = all;
      cut_ring(event, draw_circle(joined_by(at), all));
    } else {
      event.peers = all;
      cut_parts(event, entry.shape, joined_by(at), all);
    }
  }

  /// Peers that join meanwhile get random places among the others.
  Numbers draw_circle(const Numbers& present, const Numbers& all) {
    Numbers circle = draw_order(present);
    for (const std::uint32_t joiner : without(all, present)) {
      const std::uint64_t place = draws_->rng.below(circle.size() + 1);
      circle.insert(circle.begin() + static_cast<std::ptrdiff_t>(place), joiner);
    }
    return circle;
  }

  /// Peers that join meanwhile are drawn into one part or the other, in proportion to size.
  void cut_parts(PlannedEvent& event, Shape shape, const Numbers& present, const Numbers& all) {
    Numbers order = draw_order(present);
    // The peer in the middle is in neither part.
    if (shape == Shape::bridge) order.pop_back();
    const std::size_t parts = shape == Shape::minority ? 3 : 2;
    const auto middle = order.begin() + static_cast<std::ptrdiff_t>(order.size() / parts);
    Numbers a(order.begin(), middle);
    Numbers b(middle, order.end());
    for (const std::uint32_t joiner : without(all, present)) {
      (draws_->rng.below(parts) == 0 ? a : b).push_back(joiner);
    }
    std::ranges::sort(a);
    std::ranges::sort(b);
    cut_both(event, a, b);
  }

  Numbers draw_order(Numbers all) {
    base::shuffle(all, draws_->rng);
    return all;
  }

  void strike(PlannedEvent& event, Numbers from, Numbers to) {
    if (!count(from.size() + to.size())) return;
    event.paths.push_back({std::move(from), std::move(to)});
  }

  void cut_both(PlannedEvent& event, const Numbers& a, const Numbers& b) {
    strike(event, a, b);
    strike(event, b, a);
  }

  /// On a circle each peer reaches the quarter before and the quarter after itself. With itself
  /// that is a majority.
  void cut_ring(PlannedEvent& event, const Numbers& circle) {
    const std::size_t n = circle.size();
    const std::size_t reach = n / 4 + 1;
    for (std::size_t i = 0; i < n; ++i) {
      Numbers far;
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t forth = (j + n - i) % n;
        if (std::min(forth, n - forth) > reach) far.push_back(circle[j]);
      }
      std::ranges::sort(far);
      if (!far.empty()) strike(event, {circle[i]}, std::move(far));
    }
  }

  void flip_flop(const Entry& entry, double at) {
    const Numbers peers = choose(*entry.peers, up_);
    const double end = std::min(at + *entry.duration, scenario_.duration);
    const Numbers others = without(joined_by(end), peers);
    if (*entry.duration / entry.period > static_cast<double>(kEventsMax)) {
      return reject(entry, "flips more than {} times", kEventsMax);
    }
    for (int turn = 0;; ++turn) {
      const double from = at + turn * entry.period;
      if (from >= end) return;
      PlannedEvent& event = add(entry, from, peers);
      event.until = std::min(from + entry.period, end);
      if (turn % 2 == 0) {
        strike(event, peers, others);
      } else {
        strike(event, others, peers);
      }
    }
  }

  /// FoundationDB's swizzle-clogging: in the first third of the time peers are cut off one by one,
  /// in the last third they come back in another order.
  void swizzle(const Entry& entry, double at) {
    const double end = std::min(at + *entry.duration, scenario_.duration);
    const Numbers all = joined_by(end);
    const double third = (end - at) / 3;
    for (const std::uint32_t peer : choose(*entry.peers, up_)) {
      PlannedEvent& event = add(entry, at + draws_->rng.uniform() * third, {peer});
      event.until = end - draws_->rng.uniform() * third;
      cut_both(event, {peer}, without(all, {peer}));
    }
  }

  void degrade(const Entry& entry, double at) {
    if (!check_numbers(entry, at)) return;
    const double until = at + entry.duration.value_or(scenario_.duration);
    const Numbers all = joined_by(std::min(until, scenario_.duration));
    Numbers a;
    Numbers b = all;
    if (entry.peers) {
      a = choose(*entry.peers, up_);
    } else {
      a = in_region(all, entry.between[0], plan_.peers);
      b = in_region(all, entry.between[1], plan_.peers);
    }
    if (a.empty() || b.empty()) return;
    PlannedEvent& event = add(entry, at, a);
    event.conditions = entry.conditions;
    if (!entry.peers) {
      event.peers.clear();
      std::ranges::set_union(a, b, std::back_inserter(event.peers));
    }
    if (entry.direction != Direction::in) strike(event, a, b);
    if (entry.direction != Direction::out) strike(event, b, a);
  }

  Plan& plan_;
  const Scenario& scenario_;
  std::map<const Entry*, Draws> draws_by_entry_;
  Draws* draws_ = nullptr;  ///< of the entry whose turn it is
  std::priority_queue<Occurrence> occurrences_;
  std::size_t order_ = 0;
  std::size_t struck_ = 0;        ///< peers of events and ends of paths, so far
  std::vector<double> joins_at_;  ///< by peer, rising; of a spaced group, its start
  std::uint32_t started_ = 0;     ///< peers whose start is planned
  Numbers up_, down_;             ///< as the plan knows them, rising
  std::optional<base::Error> error_;
};

}  // namespace

bool has_hostiles(const Plan& plan) { return !plan.scenario.hostiles.empty(); }

bool has_event(const Plan& plan, Kind kind) {
  return std::ranges::find(plan.events, kind, &PlannedEvent::kind) != plan.events.end();
}

FaultTimes fault_times(const Plan& plan) {
  FaultTimes times;
  for (const PlannedEvent& event : plan.events) {
    using enum Kind;
    const bool starts = event.kind == join || event.kind == restart;
    if (starts) times.last_start = std::max(times.last_start, event.at);
    if (event.kind == join) continue;
    const bool happens_at_once = starts || event.kind == kill || event.kind == leave ||
                                 event.kind == mapping_lost || event.kind == address_change;
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
