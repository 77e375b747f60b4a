#include "ring/member.hpp"

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace std::chrono_literals;
using membership::LossReason;

namespace {

using Actions = std::vector<ring::Member::Action>;

constexpr base::Time kBegin{100s};
constexpr std::size_t kElements = 10;
constexpr std::uint64_t kSteps = 7;  // made before the ring

base::PeerId member_id(std::uint8_t number) { return {{number}}; }

ring::Member seat_of_three(std::uint8_t self) {
  return ring::Member({.self = member_id(self),
                       .peers = 3,
                       .elements = kElements,
                       .first = base::StepNumber{kSteps + 1},
                       .life = self});
}

Actions give(ring::Member& seat, ring::Member::Event event, base::Time now = kBegin) {
  Actions out;
  seat.handle(std::move(event), now, out);
  return out;
}

Actions expire(ring::Member& seat, base::Time now) {
  Actions out;
  seat.expire(now, out);
  return out;
}

template <class T>
const T* find(const Actions& actions) {
  for (const ring::Member::Action& action : actions) {
    if (const auto* found = std::get_if<T>(&action)) return found;
  }
  return nullptr;
}

/// The seat of peer 1 in a ring that was made at kBegin: 2 is its successor, 3 its predecessor.
ring::Member made_seat() {
  ring::Member seat = seat_of_three(1);
  for (const std::uint8_t other : {2, 3}) {
    (void)give(seat, ring::Member::LinkUp{member_id(other)}, kBegin - ring::kQuiet);
    const wire::ReduceReceived received{.life = other, .step = {kSteps + 1}};
    (void)give(seat, ring::Member::Received{member_id(other), received});
  }
  BOOST_TEST(find<ring::Member::Made>(expire(seat, kBegin)));
  return seat;
}

ring::Member::Ready ready(std::uint64_t step, float value) {
  return {base::StepNumber{step}, 0, std::vector<float>(kElements, value)};
}

/// Three seats in a ring, and what is on its links.
struct SeatsOfThree {
  SeatsOfThree() {
    for (auto& [self, seat] : seats) {
      for (const std::uint8_t other : {1, 2, 3}) {
        if (other != self) take(self, give(seat, ring::Member::LinkUp{member_id(other)}));
      }
    }
    deliver_all();
    for (auto& [self, seat] : seats) take(self, expire(seat, kBegin + ring::kQuiet));
    deliver_all();
  }

  void take(std::uint8_t from, Actions actions) {
    for (ring::Member::Action& action : actions) {
      if (auto* averaged = std::get_if<ring::Member::Averaged>(&action)) {
        averages[from].push_back(std::move(*averaged));
      } else if (auto* send = std::get_if<ring::Member::Send>(&action)) {
        on_the_way.emplace_back(from, std::move(*send));
      } else {
        BOOST_TEST(!std::get_if<ring::Member::Failed>(&action));
        BOOST_TEST(!std::get_if<ring::Member::Broken>(&action));
      }
    }
  }

  void deliver_all() {
    for (; !on_the_way.empty(); on_the_way.pop_front()) {
      auto& [from, send] = on_the_way.front();
      const std::uint8_t to = send.peer.bytes[0];
      ring::Member::Received received{member_id(from), {}};
      if (auto* reduce = std::get_if<wire::Reduce>(&send.message)) {
        received.message = std::move(*reduce);
      } else {
        received.message = std::get<wire::ReduceReceived>(send.message);
      }
      take(to, give(seats.at(to), std::move(received)));
    }
  }

  void average(std::uint64_t step) {
    for (auto& [self, seat] : seats) take(self, give(seat, ready(step, self)));
    deliver_all();
  }

  std::map<std::uint8_t, ring::Member> seats{
      {1, seat_of_three(1)}, {2, seat_of_three(2)}, {3, seat_of_three(3)}};
  std::deque<std::pair<std::uint8_t, ring::Member::Send>> on_the_way;
  std::map<std::uint8_t, std::vector<ring::Member::Averaged>> averages;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(ring_seat)

BOOST_AUTO_TEST_CASE(a_ring_is_made_when_all_have_been_here_for_a_while) {
  ring::Member seat = seat_of_three(1);
  BOOST_TEST(!find<ring::Member::Made>(give(seat, ring::Member::LinkUp{member_id(2)})));
  BOOST_TEST(!seat.next_deadline());
  (void)give(seat, ring::Member::LinkUp{member_id(3)});
  BOOST_TEST((seat.next_deadline() == kBegin + ring::kQuiet));
  // A link that is replaced begins the wait anew.
  (void)give(seat, ring::Member::LinkDown{member_id(2), LossReason::duplicate}, kBegin + 100ms);
  BOOST_TEST(!seat.next_deadline());
  (void)give(seat, ring::Member::LinkUp{member_id(2)}, kBegin + 100ms);
  BOOST_TEST(expire(seat, kBegin + ring::kQuiet).empty());
  BOOST_TEST(seat.admits(member_id(4)));
  BOOST_TEST(find<ring::Member::Made>(expire(seat, kBegin + ring::kQuiet + 100ms)));
  BOOST_TEST(seat.is_made());
  BOOST_TEST(seat.goes_on());
  BOOST_TEST(!seat.admits(member_id(4)));
  BOOST_TEST((seat.others() == std::vector{member_id(2), member_id(3)}));
}

BOOST_AUTO_TEST_CASE(one_too_many_is_told_of_unless_it_leaves_soon) {
  for (const bool leaves : {false, true}) {
    ring::Member seat = seat_of_three(1);
    for (const std::uint8_t other : {2, 3, 4})
      (void)give(seat, ring::Member::LinkUp{member_id(other)});
    base::Time due = kBegin + ring::kQuiet;
    if (leaves) {
      (void)give(seat, ring::Member::LinkDown{member_id(4), LossReason::left}, kBegin + 100ms);
      due += 100ms;
    }
    BOOST_TEST((seat.next_deadline() == due));
    const Actions actions = expire(seat, due);
    const auto* failed = find<ring::Member::Failed>(actions);
    BOOST_TEST(seat.is_made() == leaves);
    BOOST_REQUIRE((failed == nullptr) == leaves);
    if (failed != nullptr) {
      BOOST_TEST(failed->error.text.find("4 peers are here, and swarm.peers says 3") !=
                 std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(who_waits_for_one_that_has_ended_its_run_fails_unless_its_own_is_over) {
  for (const bool finished : {false, true}) {
    ring::Member seat = seat_of_three(1);
    (void)give(seat, ring::Member::LinkUp{member_id(2)});
    if (finished) seat.finish();
    const Actions actions = give(seat, ring::Member::LinkDown{member_id(2), LossReason::done});
    const auto* failed = find<ring::Member::Failed>(actions);
    BOOST_REQUIRE((failed == nullptr) == finished);
    if (failed != nullptr) {
      BOOST_TEST(failed->error.text.find("of step 7") != std::string::npos, failed->error.text);
    }
  }
}

BOOST_AUTO_TEST_CASE(all_get_the_same_mean_with_nothing_behind_it) {
  SeatsOfThree all;
  for (std::uint64_t step = 1; step <= 3; ++step) all.average(kSteps + step);
  for (auto& [self, seat] : all.seats) {
    BOOST_REQUIRE(all.averages[self].size() == 3U);
    for (const ring::Member::Averaged& averaged : all.averages[self]) {
      BOOST_TEST((averaged.mean == std::vector<float>(kElements, 2)));
      BOOST_TEST(!averaged.save);
    }
    BOOST_TEST(seat.is_served());
    BOOST_TEST((seat.step() == base::StepNumber{kSteps + 4}));
  }
}

BOOST_AUTO_TEST_CASE(what_one_wishes_all_do_at_the_same_step) {
  SeatsOfThree all;
  all.seats.at(2).wish_to_save();
  all.average(kSteps + 1);
  all.average(kSteps + 2);
  all.seats.at(3).wish_to_leave();
  all.average(kSteps + 3);
  for (auto& [self, seat] : all.seats) {
    BOOST_REQUIRE(all.averages[self].size() == 3U);
    BOOST_TEST(all.averages[self][0].save);
    BOOST_TEST(!all.averages[self][1].save);
    BOOST_TEST(all.averages[self][2].save);
    BOOST_TEST(seat.stops());
    BOOST_TEST(!seat.goes_on());
  }
}

BOOST_AUTO_TEST_CASE(what_comes_before_the_ring_is_made_is_kept_and_bounded) {
  wire::Reduce message{.step = {kSteps + 1}, .phase = wire::ReducePhase::scatter};
  message.payload.resize(sizeof(float));
  ring::Member seat = seat_of_three(1);
  (void)give(seat, ring::Member::LinkUp{member_id(2)});
  std::size_t taken = 0;
  while (give(seat, ring::Member::Received{member_id(2), message}).empty()) {
    BOOST_REQUIRE(++taken < 100U);
    base::Bounds bounds;
    seat.add_bounds(bounds);
    BOOST_TEST(!bounds.broken());
  }
  BOOST_TEST(taken > 1U);
  message.payload.resize(0);
  ring::Member other = seat_of_three(1);
  (void)give(other, ring::Member::LinkUp{member_id(2)});
  BOOST_TEST(
      find<ring::Member::Misbehaved>(give(other, ring::Member::Received{member_id(2), message})));
}

BOOST_AUTO_TEST_CASE(a_link_that_is_missing_for_long_breaks_a_ring_that_is_needed) {
  for (const bool needed : {true, false}) {
    ring::Member seat = made_seat();
    if (!needed) seat.finish();
    (void)give(seat, ring::Member::LinkDown{member_id(2), LossReason::reset});
    BOOST_TEST((seat.next_deadline() == kBegin + ring::kGrace));
    ring::Member back = seat;
    (void)give(back, ring::Member::LinkUp{member_id(2)}, kBegin + 1s);
    BOOST_TEST(!back.next_deadline());
    const Actions actions = expire(seat, kBegin + ring::kGrace);
    const auto* broken = find<ring::Member::Broken>(actions);
    BOOST_REQUIRE((broken != nullptr) == needed);
    if (broken != nullptr) BOOST_TEST(broken->text.ends_with("was not reached for 30 s"));
    BOOST_TEST((find<ring::Member::Served>(actions) != nullptr) != needed);
  }
}

BOOST_AUTO_TEST_CASE(another_life_breaks_a_ring_and_the_same_one_does_not) {
  ring::Member seat = made_seat();
  const auto says = [&](std::uint64_t life) {
    const wire::ReduceReceived received{.life = life, .step = {kSteps + 1}};
    return give(seat, ring::Member::Received{member_id(3), received});
  };
  BOOST_TEST(says(3).empty());
  const Actions actions = says(33);
  const auto* broken = find<ring::Member::Broken>(actions);
  BOOST_REQUIRE(broken);
  BOOST_TEST(broken->text.ends_with("was started again"));
}

BOOST_AUTO_TEST_CASE(who_leaves_breaks_the_ring_at_once_and_who_is_done_when_it_is_missed) {
  ring::Member left = made_seat();
  BOOST_TEST(find<ring::Member::Broken>(
      give(left, ring::Member::LinkDown{member_id(3), LossReason::left})));
  ring::Member done = made_seat();
  const Actions ended = give(done, ring::Member::LinkDown{member_id(3), LossReason::done});
  BOOST_TEST(!find<ring::Member::Broken>(ended));
  BOOST_TEST(find<ring::Member::Broken>(give(done, ready(kSteps + 1, 1))));
}

BOOST_AUTO_TEST_CASE(who_was_held_lost_and_is_back_is_not_missed) {
  ring::Member seat = made_seat();
  (void)give(seat, ring::Member::LinkDown{member_id(3), LossReason::silent});
  (void)give(seat, ring::Member::HeldLost{member_id(3)});  // nothing of it is due
  (void)give(seat, ring::Member::LinkUp{member_id(3)});
  BOOST_TEST(!find<ring::Member::Broken>(give(seat, ready(kSteps + 1, 1))));
}

BOOST_AUTO_TEST_CASE(who_is_held_lost_is_missed_only_without_a_link) {
  ring::Member seat = made_seat();
  (void)give(seat, ready(kSteps + 1, 1));
  BOOST_TEST(give(seat, ring::Member::HeldLost{member_id(3)}).empty());
  (void)give(seat, ring::Member::LinkDown{member_id(3), LossReason::silent});
  BOOST_TEST(find<ring::Member::Broken>(give(seat, ring::Member::HeldLost{member_id(3)})));
}

BOOST_AUTO_TEST_SUITE_END()
