#include "runtime/progress.hpp"

#include <boost/test/unit_test.hpp>

namespace starling::runtime {
namespace {

using std::chrono::seconds;

peer::MemberStatus member(std::uint8_t id, const std::string& name, wire::MemberState state) {
  peer::MemberStatus made;
  made.record.id.bytes[0] = id;
  made.record.name = name;
  made.record.state = state;
  made.progress.rate = 100;
  return made;
}

struct Watched {
  std::string at(int second) {
    return progress.tell(status, seconds(second), 1'500'000, base::Time(seconds(second)));
  }

  ProgressLines progress;
  peer::Status status;
};

BOOST_AUTO_TEST_SUITE(progress)

BOOST_AUTO_TEST_CASE(who_joins_leaves_or_dies_is_named_once) {
  using enum wire::MemberState;
  Watched watched;
  auto& members = watched.status.members;
  members = {member(1, "own", alive), member(2, "two", alive), member(3, "three", dead)};
  members[0].self = true;
  const std::string first = watched.at(0);
  BOOST_TEST(first.find("two joined\n0.0 s  2 peers") == 0U, first);  // a dead member is not news
  BOOST_TEST(watched.at(2).empty());
  members[1].record.state = suspect;
  BOOST_TEST(watched.at(4).empty());
  members[1].record.state = dead;
  members[1].lost = wire::DeathReason::silent;
  members[2].record.state = alive;
  BOOST_TEST(watched.at(6) == "two is dead (silent)\nthree joined\n");
  BOOST_TEST(watched.at(8).empty());
}

BOOST_AUTO_TEST_CASE(who_is_no_member_any_more_is_forgotten) {
  using enum wire::MemberState;
  Watched watched;
  auto& members = watched.status.members;
  members = {member(2, "two", alive)};
  BOOST_TEST(watched.at(0).find("two joined\n") == 0U);
  members.clear();
  BOOST_TEST(watched.at(2).empty());
  members = {member(2, "two", alive)};
  BOOST_TEST(watched.at(4) == "two joined\n");
}

BOOST_AUTO_TEST_CASE(how_it_goes_is_said_every_ten_seconds_with_the_speed_of_all) {
  Watched watched;
  watched.status.members = {member(1, "own", wire::MemberState::alive),
                            member(2, "two", wire::MemberState::alive)};
  watched.status.members[0].self = true;
  watched.status.progress = 0.5;
  watched.status.steps = 10;
  watched.status.swarm_samples = 1000;
  watched.status.target_samples = 2000;
  BOOST_TEST(watched.at(0) ==
             "two joined\n0.0 s  2 peers  50.0%  10 steps  200 samples/s  0 links  1.50 MB sent  "
             "ETA 5.0 s\n");
  BOOST_TEST(watched.at(9).empty());
  BOOST_TEST(watched.at(10).find("10.0 s  2 peers") == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::runtime
