// Dials: which one an outcome belongs to, and how many are made for others.
#include "reach/dials.hpp"

#include <boost/test/unit_test.hpp>

#include "script.hpp"

using namespace starling::reach;
using starling::reach::testing::id;
using Purpose = Dialing::Purpose;

namespace {

bool start(Dials& dials, Purpose purpose, const std::string& address, char peer) {
  Outbox out;
  return dials.start({.purpose = purpose, .address = address, .peer = id(peer)}, DialKind::direct,
                     out);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dials)

BOOST_AUTO_TEST_CASE(an_outcome_belongs_to_the_first_dial_to_its_address) {
  Dials dials;
  start(dials, Purpose::want, "1.1.1.1:1", 'a');
  start(dials, Purpose::back, "1.1.1.1:1", 'b');
  BOOST_TEST(dials.is_wanted("1.1.1.1:1"));
  BOOST_TEST((dials.take("1.1.1.1:1", id('b'))->purpose == Purpose::back));
  BOOST_TEST((dials.take("1.1.1.1:1")->purpose == Purpose::want));
  BOOST_TEST(!dials.take("1.1.1.1:1"));
  BOOST_TEST(dials.empty());
}

BOOST_AUTO_TEST_CASE(dials_for_others_leave_room_for_own_ones) {
  Dials dials;
  for (std::size_t i = 0; i < kBacksMax; ++i) {
    BOOST_TEST(start(dials, Purpose::back, std::to_string(i), 'a'));
  }
  BOOST_TEST(!start(dials, Purpose::probe, "1.1.1.1:1", 'a'));
  BOOST_TEST(start(dials, Purpose::want, "1.1.1.1:1", 'a'));
}

BOOST_AUTO_TEST_CASE(a_late_probe_is_answered_once_and_still_awaited) {
  Dials dials;
  const starling::base::Time now{kProbeTime};
  Outbox out;
  dials.start({.purpose = Purpose::probe, .address = "1.1.1.1:1", .answer_by = now},
              DialKind::direct, out);
  BOOST_TEST(dials.late_probes(now).size() == 1U);
  BOOST_TEST(dials.late_probes(now).size() == 0U);
  BOOST_TEST(dials.count(Purpose::probe) == 1U);
}

BOOST_AUTO_TEST_SUITE_END()
