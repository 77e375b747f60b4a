#include "ring/gathering.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling;
using namespace std::chrono_literals;
using ring::Gathering;

namespace {

constexpr base::Time kFirstLink{100s};
constexpr base::PeerId kA{{1}};
constexpr base::PeerId kB{{2}};

wire::Reduce reduce_of(std::size_t bytes) { return {.payload = base::Bytes(bytes)}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(gathering)

BOOST_AUTO_TEST_CASE(a_ring_is_due_once_the_same_peers_have_been_here_for_a_while) {
  Gathering gathering(3, 10);
  gathering.link_up(kA, kFirstLink);
  BOOST_TEST(!gathering.due());
  gathering.link_up(kB, kFirstLink);
  BOOST_TEST((gathering.due() == kFirstLink + ring::kQuiet));
  gathering.link_down(kB, kFirstLink + 100ms);
  BOOST_TEST(!gathering.due());
  gathering.link_up(kB, kFirstLink + 200ms);
  BOOST_TEST((gathering.due() == kFirstLink + 200ms + ring::kQuiet));
  gathering.stop();
  BOOST_TEST(!gathering.due());
}

BOOST_AUTO_TEST_CASE(what_a_peer_sends_early_is_kept_up_to_its_part_of_one_step) {
  Gathering gathering(2, 10);
  gathering.link_up(kA, kFirstLink);
  BOOST_TEST(gathering.take(kA, reduce_of(40)));
  BOOST_TEST(gathering.arrivals().at(kA).early.size() == 1U);
  BOOST_TEST(!gathering.take(kA, reduce_of(4)));
  BOOST_TEST(gathering.arrivals().at(kA).early.empty());
  BOOST_TEST(!gathering.take(kA, reduce_of(0)));
}

BOOST_AUTO_TEST_CASE(a_peer_that_comes_back_starts_anew) {
  Gathering gathering(2, 10);
  gathering.link_up(kA, kFirstLink);
  BOOST_TEST(gathering.take(kA, reduce_of(40)));
  gathering.take(kA, wire::ReduceReceived{.life = 7, .step = {1}});
  gathering.link_down(kA, kFirstLink);
  gathering.link_up(kA, kFirstLink);
  BOOST_TEST(!gathering.arrivals().at(kA).life);
  BOOST_TEST(gathering.arrivals().at(kA).early_bytes == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
