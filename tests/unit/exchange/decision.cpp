#include "exchange/decision.hpp"

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

using namespace starling::exchange;
using starling::base::Rng;
using starling::wire::LinkOpen;

BOOST_TEST_DONT_PRINT_LOG_VALUE(OpenDecision)

BOOST_AUTO_TEST_SUITE(decision)

BOOST_AUTO_TEST_CASE(every_pair_of_link_opens_opens_as_the_table_says) {
  const LinkOpen start{.progress = 0.02};
  const LinkOpen start_adopts{.progress = 0.0, .may_adopt = true};
  const LinkOpen later{.samples = 100, .progress = 0.021};
  const LinkOpen early{.samples = 100, .progress = 0.1, .told_little = true};
  const LinkOpen late_adopts{.progress = 0.5, .may_adopt = true};
  const LinkOpen at_five{.progress = 0.5, .session = 9, .committed = {5}};
  const LinkOpen at_six{.progress = 0.5, .session = 9, .committed = {6}};
  const LinkOpen at_seven{.progress = 0.5, .session = 9, .committed = {7}};
  const LinkOpen other{.progress = 0.5, .session = 8, .committed = {5}};
  struct Case {
    const char* name;
    LinkOpen mine;
    LinkOpen theirs;
    OpenDecision expected;
  };
  const Case cases[] = {
      {"both at the start", start, start, OpenDecision::fresh},
      {"both at the start, one may adopt", start_adopts, start, OpenDecision::fresh},
      {"only one end at the start", start, later, OpenDecision::merge},
      {"both with a history", later, later, OpenDecision::merge},
      {"both have told little", early, early, OpenDecision::fresh},
      {"one has told little", early, later, OpenDecision::merge},
      {"one has told little, the other comes late", early, late_adopts, OpenDecision::give},
      {"I come late", start_adopts, later, OpenDecision::adopt},
      {"I come late and know the progress", late_adopts, later, OpenDecision::adopt},
      {"the other comes late", later, late_adopts, OpenDecision::give},
      {"both come late", late_adopts, late_adopts, OpenDecision::wait},
      {"one knows no progress yet, both come late", start_adopts, late_adopts, OpenDecision::wait},
      {"same session, equal", at_five, at_five, OpenDecision::resume},
      {"same session, one ahead", at_five, at_six, OpenDecision::resume},
      {"same session, one behind", at_six, at_five, OpenDecision::resume},
      {"same session, two apart", at_five, at_seven, OpenDecision::merge},
      {"other session", at_five, other, OpenDecision::merge},
      {"only one has a session", at_five, later, OpenDecision::merge},
      {"neither has a session, equal counts", later, later, OpenDecision::merge},
  };
  for (const Case& one : cases) {
    BOOST_TEST_CONTEXT(one.name) {
      BOOST_TEST(decide_opening(one.mine, one.theirs) == one.expected);
    }
  }
}

BOOST_AUTO_TEST_CASE(both_ends_decide_alike) {
  Rng rng(5);
  int roles = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto any = [&] {
      return LinkOpen{.nonce = rng(),
                      .samples = rng.below(3),
                      .progress = static_cast<double>(rng.below(4)) * 0.01,
                      .may_adopt = rng.below(2) == 0,
                      .session = rng.below(3),
                      .committed = {rng.below(4)},
                      .told_little = rng.below(2) == 0};
    };
    const LinkOpen one = any();
    const LinkOpen other = any();
    const OpenDecision here = decide_opening(one, other);
    const OpenDecision there = decide_opening(other, one);
    const bool gives_and_takes = (here == OpenDecision::adopt && there == OpenDecision::give) ||
                                 (here == OpenDecision::give && there == OpenDecision::adopt);
    roles += gives_and_takes ? 1 : 0;
    BOOST_TEST((gives_and_takes || here == there));
    BOOST_TEST(session_of(one.nonce, other.nonce) == session_of(other.nonce, one.nonce));
  }
  BOOST_TEST(roles > 100);
}

BOOST_AUTO_TEST_CASE(sessions_of_other_nonces_have_other_names) {
  BOOST_TEST(session_of(1, 2) != session_of(1, 3));
  BOOST_TEST(session_of(1, 2) != session_of(2, 2));
}

BOOST_AUTO_TEST_SUITE_END()
