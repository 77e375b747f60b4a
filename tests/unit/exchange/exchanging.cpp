// Exchanges alone, on links that the tests open by hand.
#include "exchange/exchanging.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include <boost/test/unit_test.hpp>

#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;

namespace {

class ExchangingAlone {
 public:
  explicit ExchangingAlone(const Options& options = plain_options())
      : links(options.config.grace),
        history(options),
        settling(options.config.settle_timeout, links, tree),
        exchanging(options, links, history, settling, tree) {}

  Lines begin(char peer, std::optional<wire::Delta> early = {}) {
    links.begin_opening(peer_named(peer), now, out_).state = OpenState{{.id = 9}};
    exchanging.begin(at(peer), std::move(early), now, out_);
    return lines();
  }
  Lines resume(char peer, Session session, std::uint64_t theirs) {
    links.begin_opening(peer_named(peer), now, out_).state = OpenState{std::move(session)};
    exchanging.resume(at(peer), {theirs}, now, out_);
    return lines();
  }
  Lines delta(char peer, std::uint64_t t) {
    exchanging.receive(at(peer), {.exchange = {t}}, now, out_);
    return lines();
  }
  Lines encoded(std::size_t bytes = 4) {
    Encoded event{.peer = encode.peer,
                  .tag = encode.tag,
                  .exchange = encode.exchange,
                  .status = {},
                  .payload = base::Bytes(bytes),
                  .density = encode.options.density};
    exchanging.on(event, now, out_);
    return lines();
  }
  Lines committed(CommitResult result = CommitResult::applied) {
    Committed event{commit.peer, commit.tag, commit.exchange, result};
    exchanging.on(event, now, out_);
    return lines();
  }
  Lines expire() {
    exchanging.expire(now, out_);
    return lines();
  }
  [[nodiscard]] std::optional<base::Time> due() const {
    base::Earliest next;
    exchanging.visit_timers([&next](std::string_view, std::optional<base::Time> when,
                                    base::Duration) { next.add(when); });
    return next.value();
  }
  Links::iterator at(char peer) { return links.find(peer_named(peer)); }

  Links links;
  History history;
  Tree tree{7, 10s};
  Settling settling;
  Exchanging exchanging;
  base::Time now{};
  EncodeJob encode;
  CommitJob commit;

 private:
  Lines lines() {
    const Outbox done = std::exchange(out_, {});
    for (const Action& action : done) {
      const auto* run = std::get_if<Run>(&action);
      if (run == nullptr) continue;
      if (const auto* job = std::get_if<EncodeJob>(&run->job)) encode = *job;
      if (const auto* job = std::get_if<CommitJob>(&run->job)) commit = *job;
    }
    return lines_of(done);
  }

  Outbox out_;
};

// Three exchanges are committed here, and two own deltas kept.
Session broken_session() {
  Session session{.id = 9, .committed = {3}};
  session.kept = {{.exchange = {3}, .payload = base::Bytes(100)},
                  {.exchange = {4}, .payload = base::Bytes(100)}};
  return session;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exchanging)

BOOST_AUTO_TEST_CASE(a_link_that_begins_asks_for_its_first_delta_at_the_own_step) {
  ExchangingAlone peer;
  TEST_LINES(peer.begin('a'), "a: run encode 1 at 0");
  peer.exchanging.on({{5}, 160, 0.0}, peer.now);
  TEST_LINES(peer.begin('b'), "b: run encode 1 at 5");
}

BOOST_AUTO_TEST_CASE(an_early_delta_waits_for_the_own_one) {
  ExchangingAlone peer;
  TEST_LINES(peer.begin('a', wire::Delta{.exchange = {1}}), "a: run encode 1 at 0");
  TEST_LINES(peer.encoded(), "a: delta 1 of 1", "a: run commit 1 w 0.5", "a: run encode 2 at 2");
}

BOOST_AUTO_TEST_CASE(a_session_that_goes_on_sends_again_what_the_other_end_lacks) {
  ExchangingAlone equal;
  TEST_LINES(equal.resume('a', broken_session(), 3), "a: delta 4 of 1");
  ExchangingAlone behind;
  TEST_LINES(behind.resume('a', broken_session(), 2), "a: delta 3 of 1", "a: delta 4 of 1");
  ExchangingAlone ahead;
  TEST_LINES(ahead.resume('a', broken_session(), 4));
  BOOST_TEST(ahead.at('a')->second.session()->kept.size() == 1U);  // it is to be committed here
}

BOOST_AUTO_TEST_CASE(what_is_sent_keeps_its_link_from_the_next_delta_by_its_share_of_the_limit) {
  Options options = plain_options();
  options.config.upload_limit = 0.008;  // 1000 bytes/s
  ExchangingAlone peer(options);
  peer.begin('a');
  BOOST_TEST(!peer.due().has_value());
  TEST_LINES(peer.encoded(2000), "a: delta 1 of 1");
  TEST_LINES(peer.delta('a', 1), "a: run commit 1 w 0.5");
  BOOST_TEST((peer.due() == peer.now + 2s));
  TEST_LINES(peer.committed());
  peer.now += 1s;
  TEST_LINES(peer.expire());
  peer.now += 1s;
  TEST_LINES(peer.expire(), "a: run encode 2 at 2");
  BOOST_TEST(!peer.due().has_value());
}

BOOST_AUTO_TEST_CASE(mirrors_that_differ_open_the_link_again) {
  ExchangingAlone peer;
  peer.begin('a');
  Link& link = peer.at('a')->second;
  link.rounds.send();
  link.rounds.receive();
  peer.encoded();
  peer.delta('a', 1);
  TEST_LINES(peer.committed(CommitResult::mismatch), "notice", "a: run close");
  BOOST_TEST((link.silent() != nullptr));
  BOOST_TEST(link.rounds.count() == 2U);
}

BOOST_AUTO_TEST_CASE(nothing_of_an_older_round_and_nothing_too_long_is_taken) {
  ExchangingAlone peer;
  peer.begin('a');
  Outbox out;
  BOOST_TEST(peer.exchanging.check(peer.at('a'), {.exchange = {1}}, {}, out));
  Link& link = peer.at('a')->second;
  link.rounds.send();
  link.rounds.receive();
  link.rounds.start();
  BOOST_TEST(!peer.exchanging.check(peer.at('a'), {.exchange = {1}}, {}, out));
  BOOST_TEST(out.empty());
  link.rounds.receive();
  wire::Delta large{.exchange = {1}};
  large.payload.resize(payload_bytes_max(1000) + 1);
  BOOST_TEST(!peer.exchanging.check(peer.at('a'), large, {}, out));
  BOOST_TEST(peer.links.status().empty());
}

BOOST_AUTO_TEST_CASE(when_settling_begins_a_delta_that_waits_for_a_step_is_asked_for_at_once) {
  ExchangingAlone peer;
  peer.begin('a');
  Outbox out;
  BOOST_REQUIRE(peer.settling.on(Phase::settling, peer.now));
  peer.exchanging.on_settling(out);
  TEST_LINES(lines_of(out), "a: run encode 1 at once");
}

BOOST_AUTO_TEST_SUITE_END()
