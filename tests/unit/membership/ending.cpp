// Swarms that train to a common count, while peers stop in every way there is.
#include <algorithm>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "swarm.hpp"

using namespace std::chrono_literals;
using namespace starling;
using membership::testing::address_of;
using membership::testing::Swarm;

namespace {

constexpr base::Duration kStep = 100ms;

/// All peers of a swarm make steps until they hold the sum of all for reached.
class Training {
 public:
  Training(Swarm& swarm, std::uint64_t seed) : swarm_(swarm), peers_(swarm.size()) {
    base::Rng rng(seed);
    for (Peer& peer : peers_) peer.a_step = 5 + rng.below(11);
  }

  void run(base::Duration duration, std::uint64_t target) {
    for (const base::Time end = swarm_.now() + duration; swarm_.now() < end;) {
      for (std::size_t i = 0; i < peers_.size(); ++i) step(i, target);
      swarm_.run_for(kStep);
      most_ahead_ = std::max(most_ahead_, ahead());
    }
  }
  void stop(std::size_t i) { peers_[i].stands = true; }

  [[nodiscard]] std::uint64_t sum() const {
    std::uint64_t sum = 0;
    for (const Peer& peer : peers_) sum += peer.samples;
    return sum;
  }
  /// Samples a second of a peer.
  [[nodiscard]] double rate(std::size_t i) const {
    return static_cast<double>(peers_[i].a_step) / base::seconds(kStep);
  }
  [[nodiscard]] double rate() const {
    double sum = 0;
    for (std::size_t i = 0; i < peers_.size(); ++i) sum += rate(i);
    return sum;
  }
  /// How far the peer that is most wrong holds the sum above what it is.
  [[nodiscard]] double ahead() {
    double most = 0;
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (!swarm_.up(i) || peers_[i].stands) continue;
      const auto total = swarm_.core(i).progress().total(swarm_.now());
      most = std::max(most, static_cast<double>(total) - static_cast<double>(sum()));
    }
    return most;
  }
  [[nodiscard]] double take_most_ahead() { return std::exchange(most_ahead_, 0); }
  [[nodiscard]] bool ended() const {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (swarm_.up(i) && !peers_[i].done && !peers_[i].stands) return false;
    }
    return true;
  }

 private:
  struct Peer {
    std::uint64_t samples = 0;
    std::uint64_t a_step = 0;
    bool stands = false;
    bool done = false;
  };

  void step(std::size_t i, std::uint64_t target) {
    Peer& peer = peers_[i];
    if (!swarm_.up(i) || peer.stands) return;
    membership::Core& core = swarm_.core(i);
    peer.done = peer.done || core.progress().total(swarm_.now()) >= target;
    if (!peer.done) peer.samples += peer.a_step;
    core.set_own_progress({.samples = peer.samples}, !peer.done, swarm_.now());
  }

  Swarm& swarm_;
  std::vector<Peer> peers_;
  double most_ahead_ = 0;
};

enum class Stop { crash, silent_crash, process_pause, trainer_pause, leave };
constexpr Stop kStops[] = {Stop::crash, Stop::silent_crash, Stop::process_pause,
                           Stop::trainer_pause, Stop::leave};

void stop(Swarm& swarm, Training& training, std::size_t i, Stop how) {
  training.stop(i);
  if (how == Stop::crash || how == Stop::silent_crash) swarm.kill(i, how == Stop::silent_crash);
  if (how == Stop::process_pause) swarm.pause(i);
  if (how == Stop::leave) swarm.leave(i);
}

void start(Swarm& swarm, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    swarm.add(i == 0 ? std::vector<std::string>{} : std::vector{address_of(0)});
  }
  swarm.run_for(15s);
}

constexpr std::uint64_t kNever = 1'000'000'000;

}  // namespace

BOOST_AUTO_TEST_SUITE(ending)

BOOST_AUTO_TEST_CASE(peers_that_stop_in_any_way_are_taken_further_for_3_s_at_most) {
  for (const std::size_t count : {8U, 64U}) {
    Swarm swarm(count, {});
    start(swarm, count);
    Training training(swarm, 1);
    training.run(20s, kNever);
    std::size_t next = 1;
    for (const Stop how : kStops) {
      (void)training.take_most_ahead();
      double rate = 0;
      for (std::size_t n = 0; n < count / 8; ++n, ++next) {
        rate += training.rate(next);
        stop(swarm, training, next, how);
      }
      training.run(20s, kNever);
      BOOST_TEST(training.take_most_ahead() < 3 * rate,
                 count << " peers, stop " << static_cast<int>(how));
      BOOST_TEST(training.ahead() < 0.1 * training.rate());
    }
  }
}

BOOST_AUTO_TEST_CASE(a_swarm_ends_at_the_count_although_peers_stop_just_before) {
  for (const std::size_t count : {4U, 8U, 64U}) {
    for (const Stop how : kStops) {
      BOOST_TEST_CONTEXT(count << " peers, stop " << static_cast<int>(how)) {
        Swarm swarm(count, {});
        start(swarm, count);
        Training training(swarm, 2);
        const auto target = static_cast<std::uint64_t>(40 * training.rate());
        training.run(38s, target);
        double stopped = 0;
        for (std::size_t i = 1; i <= count / 4; ++i) {
          stopped += training.rate(i);
          stop(swarm, training, i, how);
        }
        training.run(20s, target);
        BOOST_TEST(training.ended());
        const double error = static_cast<double>(training.sum()) - static_cast<double>(target);
        BOOST_TEST(error > -3 * stopped - 0.1 * training.rate());
        // Samples that the dead made since they last sent their count are lost.
        const auto mirror_error = membership::progress_interval(count, 1s);
        BOOST_TEST(error < base::seconds(mirror_error) * stopped + 0.1 * training.rate());
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
