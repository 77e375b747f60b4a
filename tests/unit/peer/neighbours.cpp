#include "peer/neighbours.hpp"

#include <boost/test/unit_test.hpp>

using namespace starling;

BOOST_AUTO_TEST_SUITE(neighbours)

BOOST_AUTO_TEST_CASE(a_neighbour_has_its_newest_link_until_it_is_removed) {
  base::PeerId peer;
  peer.bytes.fill(2);
  peer::Neighbours neighbours;
  BOOST_TEST(!neighbours.link_of(peer).valid());
  BOOST_TEST(!neighbours.met_one());
  neighbours.add(peer, {1, 1});
  neighbours.add(peer, {2, 1});
  BOOST_TEST(neighbours.count() == 1U);
  BOOST_TEST((neighbours.link_of(peer) == base::LinkId{2, 1}));
  neighbours.remove(peer);
  BOOST_TEST(neighbours.count() == 0U);
  BOOST_TEST(neighbours.met_one());
}

BOOST_AUTO_TEST_SUITE_END()
