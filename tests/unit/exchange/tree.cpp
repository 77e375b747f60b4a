#include "exchange/tree.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::exchange;
using exchange::test::peer_named;
using wire::Turn;

namespace {

constexpr base::Duration kTreePatience = 10s;

/// Peers whose links are a graph, and one number each as its replica. Messages and exchanges of a
/// link keep their order; which link is next is drawn.
class Grove {
 public:
  Grove(const std::vector<std::string>& edges, std::uint64_t seed) : rng_(seed) {
    for (const std::string& edge : edges) {
      links_[edge[0]].push_back(edge[1]);
      links_[edge[1]].push_back(edge[0]);
    }
    for (const auto& [name, others] : links_) {
      trees_.emplace(name, Tree(rng_(), kTreePatience));
      x_[name] = static_cast<double>(name - 'a') + 1;
    }
  }

  /// `name` takes no link with `other` for its tree.
  void leave_out(char name, char other) { left_out_.insert({name, other}); }
  void slow_down(char name, char other) { slow_.insert(std::minmax(name, other)); }
  [[nodiscard]] bool is_slow(char name, char other) const {
    return slow_.contains(std::minmax(name, other));
  }
  void begin(char name) {
    std::vector<Branch> branches;
    for (const char other : links_.at(name)) {
      if (left_out_.contains({name, other})) continue;
      branches.push_back({.peer = peer_named(other), .slow = is_slow(name, other)});
    }
    Outbox out;
    trees_.at(name).begin(weight_of(name), branches, {}, now, out);
    send(name, out);
  }
  void begin_all() {
    for (const auto& [name, tree] : trees_) begin(name);
  }
  /// False: there is nothing to do.
  bool act() {
    std::vector<std::pair<char, char>> ready;
    for (const auto& [link, messages] : wires_) {
      if (!messages.empty()) ready.push_back(link);
    }
    if (!ready.empty() && rng_.below(3) != 0) {
      const auto [from, to] = ready[rng_.below(ready.size())];
      const wire::Settle said = wires_[{from, to}].front();
      wires_[{from, to}].pop_front();
      Outbox out;
      trees_.at(to).hear(peer_named(from), said, now, out);
      send(to, out);
      return true;
    }
    return exchange() || !ready.empty();
  }
  void run() {
    for (int i = 0; i < 10'000 && act();) ++i;
    if (slow_.empty()) return;
    for (base::Duration waited{}; waited < 8 * kSlowAfter; waited += 5ms) {
      pass(5ms);
      for (int i = 0; i < 10'000 && act();) ++i;
    }
  }
  void pass(base::Duration time) {
    now += time;
    for (auto& [name, tree] : trees_) {
      Outbox out;
      tree.expire(now, out);
      send(name, out);
    }
  }

  [[nodiscard]] Tree& tree(char name) { return trees_.at(name); }
  [[nodiscard]] bool all_done() const {
    return std::ranges::all_of(trees_, [](const auto& entry) { return entry.second.is_done(); });
  }
  [[nodiscard]] bool all_off() const {
    return std::ranges::none_of(trees_, [](const auto& entry) { return entry.second.is_on(); });
  }
  [[nodiscard]] double x(char name) const { return x_.at(name); }
  [[nodiscard]] double mean(const std::string& without = "") const {
    double sum = 0;
    double weights = 0;
    for (const auto& [name, others] : links_) {
      if (without.find(name) != std::string::npos) continue;
      sum += weight_of(name) * (static_cast<double>(name - 'a') + 1);
      weights += weight_of(name);
    }
    return sum / weights;
  }
  [[nodiscard]] std::size_t exchanges() const { return exchanges_; }
  [[nodiscard]] std::size_t slow_exchanges() const { return slow_exchanges_; }

  base::Time now{100s};

 private:
  static double weight_of(char name) { return name % 3 == 0 ? 4 : 1; }

  void send(char from, const Outbox& out) {
    for (const Action& action : out) {
      const auto* sent = std::get_if<Send>(&action);
      if (sent == nullptr) continue;
      wires_[{from, static_cast<char>(sent->peer.bytes[0])}].push_back(
          std::get<wire::Settle>(sent->message));
    }
  }

  /// One exchange, of a link on which somebody has something to tell.
  bool exchange() {
    std::vector<std::pair<char, char>> due;
    for (const auto& [name, others] : links_) {
      for (const char other : others) {
        const Duty duty = trees_.at(name).duty(peer_named(other));
        if (duty == Duty::tell_up && trees_.at(other).duty(peer_named(name)) != Duty::gather) {
          continue;
        }
        if (duty == Duty::tell_up || duty == Duty::tell_down) due.emplace_back(name, other);
      }
    }
    if (due.empty()) return false;
    const auto [from, to] = due[rng_.below(due.size())];
    ++exchanges_;
    slow_exchanges_ += is_slow(from, to) ? 1 : 0;
    Tree& here = trees_.at(from);
    Tree& there = trees_.at(to);
    const Turn own = here.turn(peer_named(to), true, std::nullopt);
    const Turn their = there.turn(peer_named(from), true, own);
    if (own == Turn::up && their == Turn::gather) {
      x_[to] +=
          static_cast<double>(there.gather(peer_named(from), here.weight())) * (x_[from] - x_[to]);
    }
    if (own == Turn::down && their == Turn::hold) x_[to] = x_[from];
    Outbox out;
    here.committed(peer_named(to), effect_of(own, their), now, out);
    send(from, out);
    out.clear();
    there.committed(peer_named(from), effect_of(their, own), now, out);
    send(to, out);
    return true;
  }

  base::Rng rng_;
  std::map<char, std::vector<char>> links_;
  std::set<std::pair<char, char>> left_out_;
  std::map<char, Tree> trees_;
  std::map<char, double> x_;
  std::map<std::pair<char, char>, std::deque<wire::Settle>> wires_;
  std::set<std::pair<char, char>> slow_;
  std::size_t exchanges_ = 0;
  std::size_t slow_exchanges_ = 0;
};

const std::vector<std::vector<std::string>> kTreeGraphs{
    {"ab"},
    {"ab", "bc", "cd"},
    {"ab", "ac", "ad", "bc", "bd", "cd"},
    {"ab", "bc", "cd", "de", "ef", "fa", "ad", "be"},
    {"ab", "bc", "cd", "da", "ef", "fg", "gh", "he", "ae", "bf", "cg", "dh"}};

}  // namespace

BOOST_AUTO_TEST_SUITE(tree)

BOOST_AUTO_TEST_CASE(all_come_to_the_weighted_mean_with_two_exchanges_a_link_of_the_tree) {
  for (const auto& graph : kTreeGraphs) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      Grove grove(graph, seed);
      grove.begin_all();
      grove.run();
      std::string names;
      for (const std::string& edge : graph) names += edge;
      std::ranges::sort(names);
      names.erase(std::unique(names.begin(), names.end()), names.end());
      BOOST_TEST_CONTEXT("seed " << seed << ", graph " << graph.front() << " " << graph.size()) {
        BOOST_REQUIRE(grove.all_done());
        BOOST_TEST(grove.exchanges() == 2 * (names.size() - 1));
        for (const char name : names) {
          BOOST_REQUIRE(std::abs(grove.x(name) - grove.mean()) < 1e-5);
        }
      }
    }
  }
}

// A peer that comes late is waited for by its neighbours; if others gather meanwhile, it joins.
BOOST_AUTO_TEST_CASE(a_peer_that_comes_late_is_in_the_mean) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Grove grove({"ab", "bc", "cd", "de", "ef"}, seed);
    for (const char name : {'a', 'b', 'c', 'd', 'e'}) grove.begin(name);
    grove.run();
    BOOST_TEST_CONTEXT("seed " << seed) {
      BOOST_TEST(!grove.all_done());
      grove.begin('f');
      grove.run();
      BOOST_REQUIRE(grove.all_done());
      BOOST_TEST(std::abs(grove.x('a') - grove.mean()) < 1e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_lost_link_of_the_tree_ends_it_for_all) {
  Grove grove({"ab", "bc", "cd"}, 1);
  grove.begin_all();
  for (int i = 0; i < 12; ++i) grove.act();
  BOOST_REQUIRE(!grove.all_done());
  Outbox out;
  grove.tree('b').lose(peer_named('c'), grove.now, out);
  BOOST_TEST(!grove.tree('b').is_on());
  BOOST_TEST(out.size() > 0U);
}

BOOST_AUTO_TEST_CASE(a_tree_that_stands_still_is_given_up_and_all_hear_of_it) {
  Grove grove({"ab", "bc", "cd"}, 1);
  for (const char name : {'a', 'b', 'c'}) grove.begin(name);
  grove.run();
  grove.now += kTreePatience;
  Outbox out;
  grove.tree('c').expire(grove.now, out);
  BOOST_TEST(!grove.tree('c').is_on());
  Outbox more;
  grove.tree('b').hear(peer_named('c'), {.root = 1, .off = true}, grove.now, more);
  BOOST_TEST(!grove.tree('b').is_on());
  BOOST_TEST((grove.tree('b').duty(peer_named('a')) == Duty::none));
}

// The parent has told that all have begun, and has only to take in what it is told.
BOOST_AUTO_TEST_CASE(a_neighbour_that_does_not_answer_ends_the_tree_sooner) {
  for (const base::Duration usual : {0s, 3s}) {
    base::Time now{100s};
    Outbox out;
    Tree child(5, kTreePatience);
    child.begin(1, {{peer_named('a')}}, usual, now, out);
    now += kTreePatience + usual - 1s;
    child.expire(now, out);
    BOOST_TEST(child.is_on());
    child.hear(peer_named('a'), {.root = 1, .ready = true, .begun = true}, now, out);
    BOOST_TEST((child.duty(peer_named('a')) == Duty::tell_up));
    now += kAnswerWait + usual - 1ms;
    child.expire(now, out);
    BOOST_TEST(child.is_on());
    // A delta more of what is told is an answer.
    child.committed(peer_named('a'), Effect::holds, now, out);
    now += kAnswerWait + usual - 1ms;
    child.expire(now, out);
    BOOST_TEST(child.is_on());
    now += 1ms;
    child.expire(now, out);
    BOOST_TEST(!child.is_on());
  }
}

// A link may be open at one end only, or one end may not trust the other.
BOOST_AUTO_TEST_CASE(a_link_that_only_one_end_takes_for_the_tree_is_in_none) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Grove grove({"ab", "bc", "cd", "da", "ef", "eb"}, seed);
      grove.leave_out('a', 'd');
      grove.leave_out('e', 'b');
      grove.leave_out('f', 'e');
      grove.begin_all();
      grove.run();
      for (const char name : {'a', 'b', 'c', 'd'}) BOOST_TEST(grove.tree(name).is_done());
      // Whoever is left without a link settles with each neighbour by itself.
      for (const char name : {'e', 'f'}) BOOST_TEST(!grove.tree(name).is_on());
    }
  }
}

// Nobody takes it into the mean, and it would train alone for nothing.
BOOST_AUTO_TEST_CASE(a_peer_that_all_leave_out_takes_the_mean) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Grove grove({"ab", "bc", "cd", "da", "ae", "be"}, seed);
      grove.leave_out('a', 'e');
      grove.leave_out('b', 'e');
      grove.begin_all();
      grove.run();
      BOOST_REQUIRE(grove.all_done());
      for (const char name : {'a', 'b', 'c', 'd', 'e'}) {
        BOOST_TEST(std::abs(grove.x(name) - grove.mean("e")) < 1e-5);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_peer_that_follows_and_does_not_answer_holds_nobody_up) {
  Outbox out;
  base::Time now{100s};
  Tree root(1, kTreePatience);
  root.begin(1, {{peer_named('b')}}, {}, now, out);
  root.hear(peer_named('b'), {.root = 1, .child = true, .ready = true}, now, out);
  root.hear(peer_named('c'), {.root = 9, .follows = true}, now, out);
  root.committed(peer_named('b'), Effect::gathers, now, out);
  BOOST_TEST((root.duty(peer_named('c')) == Duty::tell_down));
  root.committed(peer_named('b'), Effect::spreads, now, out);
  BOOST_TEST(!root.is_done());
  root.expire(now + kAnswerWait, out);
  BOOST_TEST(root.is_done());
}

BOOST_AUTO_TEST_CASE(slow_links_carry_nothing_where_others_lead_everywhere) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Grove grove({"ab", "bc", "cd", "da", "ac", "bd"}, seed);
      for (const std::string edge : {"ab", "ac", "bd"}) grove.slow_down(edge[0], edge[1]);
      grove.begin_all();
      grove.run();
      BOOST_REQUIRE(grove.all_done());
      BOOST_TEST(grove.slow_exchanges() == 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(slow_links_are_taken_where_no_others_lead) {
  int in_vain = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      Grove grove({"ab", "bc", "cd", "da", "ae"}, seed);
      for (const std::string edge : {"ab", "cd", "ae"}) grove.slow_down(edge[0], edge[1]);
      grove.begin_all();
      grove.run();
      BOOST_REQUIRE(grove.all_done());
      // Of four links of the tree, two, there and back. At one moment, both ways are taken.
      BOOST_TEST(grove.slow_exchanges() >= 4U);
      in_vain += grove.slow_exchanges() > 4U ? 1 : 0;
      for (const char name : {'a', 'b', 'c', 'd', 'e'}) {
        BOOST_TEST(std::abs(grove.x(name) - grove.mean()) < 1e-5);
      }
    }
  }
  BOOST_TEST(in_vain < 10);
}

// What happens far away is waited for, and nobody hears of it twice.
BOOST_AUTO_TEST_CASE(a_neighbour_tells_that_something_happens_beyond_it) {
  base::Time now{100s};
  Outbox out;
  const auto beats_to = [&out](char name) {
    return std::ranges::count_if(out, [name](const Action& action) {
      const auto* sent = std::get_if<Send>(&action);
      return sent != nullptr && sent->peer == peer_named(name) &&
             std::get<wire::Settle>(sent->message).beat > 0;
    });
  };
  Tree middle(5, kTreePatience);
  middle.begin(1, {{peer_named('a')}, {peer_named('c')}}, {}, now, out);
  wire::Settle child{.root = 1, .child = true, .ready = true};
  middle.hear(peer_named('a'), {.root = 1, .ready = true}, now, out);
  middle.hear(peer_named('c'), child, now, out);
  middle.hear(peer_named('a'), {.root = 1, .ready = true, .begun = true}, now, out);
  now += kBeatEvery;
  middle.expire(now, out);
  out.clear();
  for (int i = 0; i < 10; ++i) {
    now += kTreePatience / 2;
    ++child.beat;
    middle.hear(peer_named('c'), child, now, out);
    middle.expire(now, out);
    BOOST_TEST(middle.is_on());
  }
  BOOST_TEST(beats_to('a') == 10);
  BOOST_TEST(beats_to('c') == 0);
  middle.expire(now + kTreePatience, out);
  BOOST_TEST(!middle.is_on());
}

BOOST_AUTO_TEST_CASE(without_a_link_or_with_a_neighbour_that_wants_none_there_is_no_tree) {
  Outbox out;
  Tree alone(5, kTreePatience);
  alone.begin(1, {}, {}, {}, out);
  BOOST_TEST(!alone.is_on());
  Tree other(5, kTreePatience);
  other.hear(peer_named('a'), {.root = 1, .off = true}, {}, out);
  other.begin(1, {{peer_named('a')}}, {}, {}, out);
  BOOST_TEST(!other.is_on());
}

BOOST_AUTO_TEST_CASE(a_neighbour_that_has_the_mean_may_leave) {
  Grove grove({"ab"}, 3);
  grove.begin_all();
  grove.run();
  BOOST_REQUIRE(grove.all_done());
  Outbox out;
  for (const char name : {'a', 'b'}) {
    grove.tree(name).lose(peer_named(name == 'a' ? 'b' : 'a'), grove.now, out);
    BOOST_TEST(grove.tree(name).is_done());
  }
}

BOOST_AUTO_TEST_SUITE_END()
