#include "io/trainer_port.hpp"

#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <unistd.h>

using namespace starling;
using namespace starling::io;

namespace {

struct PortFixture {
  int woken = 0;
  TrainerPort port{[this] { ++woken; }};
  std::vector<peer::Outcome> outcomes;
};

/// As the kernel sees it: 'R' runs, 'S' waits.
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  return text.at(text.rfind(')') + 2);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(trainer_port, PortFixture)

BOOST_AUTO_TEST_CASE(jobs_go_one_way_and_outcomes_the_other) {
  port.submit(peer::StepJob{0.5F});
  port.submit(peer::SaveJob{});
  BOOST_TEST(std::get<peer::StepJob>(port.next().value()).lr == 0.5F);
  BOOST_TEST(std::holds_alternative<peer::SaveJob>(port.try_next().value()));
  BOOST_TEST(!port.try_next().has_value());
  outcomes = {peer::OuterStepDone{}, peer::StepDone{}};
  port.hand_back(outcomes);
  BOOST_TEST(outcomes.empty());
  BOOST_TEST(woken == 1);
  BOOST_TEST(std::holds_alternative<peer::OuterStepDone>(port.take().value()));
  BOOST_TEST(std::holds_alternative<peer::StepDone>(port.take().value()));
  BOOST_TEST(!port.take().has_value());
}

BOOST_AUTO_TEST_CASE(a_program_that_does_not_come_for_its_jobs_finds_few) {
  base::PeerId peer;
  port.submit(peer::StepJob{});
  for (std::size_t i = 0; i < 3 * peer::kJobsMax; ++i) {
    // Links of strangers that open and break, and one that is lost and comes back.
    peer.bytes[1] = static_cast<std::uint8_t>(i);
    peer.bytes[2] = static_cast<std::uint8_t>(i >> 8);
    port.submit(exchange::Job(exchange::KeyframeJob{peer, i}));
    port.submit(exchange::Job(exchange::CloseJob{peer}));
    port.submit(exchange::Job(exchange::SuspendJob{}));
    if (i % 2 == 0) port.submit(exchange::Job(exchange::ResumeJob{}));
  }
  BOOST_TEST(std::holds_alternative<peer::StepJob>(port.try_next().value()));
  const auto last = std::get<exchange::Job>(port.try_next().value());
  BOOST_TEST(std::holds_alternative<exchange::SuspendJob>(last));
  BOOST_TEST(!port.try_next().has_value());
}

BOOST_AUTO_TEST_CASE(handing_nothing_back_wakes_nobody) {
  port.hand_back(outcomes);
  BOOST_TEST(woken == 0);
}

BOOST_AUTO_TEST_CASE(who_leaves_is_heard_once) {
  BOOST_TEST(!port.asked_to_leave());
  port.leave();
  BOOST_TEST(woken == 1);
  BOOST_TEST(port.asked_to_leave());
  BOOST_TEST(!port.asked_to_leave());
}

BOOST_AUTO_TEST_CASE(what_waits_when_it_is_closed_is_dropped_and_nobody_is_woken) {
  port.submit(peer::StepJob{});
  port.close();
  port.close();
  BOOST_TEST(port.closed());
  BOOST_TEST(!port.try_next().has_value());
  BOOST_TEST(!port.next().has_value());
  outcomes = {peer::StepDone{}};
  port.hand_back(outcomes);
  port.leave();
  port.submit(peer::StepJob{});  // harmless
  BOOST_TEST(woken == 0);
  BOOST_TEST(!port.take().has_value());
}

BOOST_AUTO_TEST_CASE(closing_ends_the_wait_for_a_job) {
  std::optional<peer::Job> job = peer::SaveJob{};
  std::promise<pid_t> started;
  std::thread waiting([&] {
    started.set_value(::gettid());
    job = port.next();
  });
  const pid_t thread = started.get_future().get();
  while (state_of(thread) != 'S') std::this_thread::yield();
  port.close();
  waiting.join();
  BOOST_TEST(!job.has_value());
}

BOOST_AUTO_TEST_SUITE_END()
