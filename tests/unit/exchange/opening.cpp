// Openings alone: the links that they hand over are only noted.
#include "exchange/opening.hpp"

#include <chrono>
#include <set>
#include <string>
#include <utility>

#include <boost/test/unit_test.hpp>
#include <fmt/core.h>

#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;
using starling::wire::LinkOpen;

namespace {

class OpeningAlone final : public AfterOpening {
 public:
  explicit OpeningAlone(const Options& options = plain_options())
      : links(options.config.grace),
        history(options),
        opening(options, base::Rng(1), links, history, *this) {}

  Lines up(char peer) {
    opening.begin(links.begin_opening(peer_named(peer), now, out_), now);
    return go_on();
  }
  Lines link_open(char peer, const LinkOpen& message) {
    opening.receive(links.find(peer_named(peer)), message, now, out_);
    return go_on();
  }
  Lines delta(char peer) {
    wire::Delta message{.exchange = {1}};
    opening.receive(links.find(peer_named(peer)), message, out_);
    return go_on();
  }
  Lines keyframe(char peer) {
    wire::Keyframe message{.samples = 0, .payload = base::Bytes(8)};
    opening.receive(links.find(peer_named(peer)), message, out_);
    return go_on();
  }
  Lines keyframe_made() {
    const auto& job = std::get<KeyframeJob>(job_);
    KeyframeMade event{job.peer, job.tag, {}, base::Bytes(8)};
    opening.on(event, now, out_);
    return go_on();
  }
  Lines opened() {
    const auto& job = std::get<OpenJob>(job_);
    Opened event{job.peer, job.tag, {}};
    opening.on(event, now, out_);
    return go_on();
  }
  Lines expire() {
    opening.expire(now, out_);
    return go_on();
  }
  [[nodiscard]] const Link& link(char peer) { return links.find(peer_named(peer))->second; }
  /// The timers that run.
  [[nodiscard]] std::set<std::string> timers() const {
    std::set<std::string> names;
    opening.visit_timers(
        [&names](std::string_view name, std::optional<base::Time> at, base::Duration) {
          if (at) names.emplace(name);
        });
    return names;
  }

  void begin(Links::iterator at, std::optional<wire::Delta> early, base::Time,
             Outbox& out) override {
    note(at, early ? "begins with a delta" : "begins", out);
  }
  void resume(Links::iterator at, base::ExchangeNumber theirs, base::Time, Outbox& out) override {
    note(at, fmt::format("goes on, the other end has {}", theirs.value), out);
  }
  void reserve_upload(Link&, std::size_t bytes, base::Time) override { uploaded += bytes; }

  Links links;
  History history;
  Opening opening;
  base::Time now{};
  std::size_t uploaded = 0;

 private:
  Lines go_on() {
    opening.send_due_opens(now, out_);
    take_lines(out_);
    return std::exchange(lines_, {});
  }
  void note(Links::iterator at, const std::string& what, Outbox& out) {
    take_lines(out);
    lines_.push_back(fmt::format("{}: {}", static_cast<char>(at->first.bytes[0]), what));
  }
  void take_lines(Outbox& out) {
    for (const Action& action : out) {
      lines_.push_back(line_of(action));
      if (const auto* run = std::get_if<Run>(&action)) job_ = run->job;
    }
    out.clear();
  }

  Outbox out_;
  Lines lines_;
  Job job_;  // the last one
};

const LinkOpen kTrained{.nonce = 7, .samples = 5000, .progress = 0.5};
const LinkOpen kLate{.nonce = 7, .progress = 0.5, .may_adopt = true};

Options trained_options() {
  Options options = plain_options();
  options.has_state = true;
  options.progress = 0.5;
  return options;
}

// A link of a session in which both ends have committed three exchanges, in grace.
void add_broken(OpeningAlone& peer, char name) {
  Outbox none;
  peer.links.begin_opening(peer_named(name), peer.now, none).state =
      BrokenState{.session = {.id = 9, .committed = {3}}, .until = peer.now + 30s};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(opening)

BOOST_AUTO_TEST_CASE(a_link_is_handed_over_when_its_mirrors_are_set) {
  OpeningAlone peer;
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  TEST_LINES(peer.link_open('a', {.nonce = 7}), "a: run open fresh");
  BOOST_TEST(!peer.link('a').opened);
  TEST_LINES(peer.opened(), "a: begins");
  BOOST_TEST(peer.link('a').opened);
  BOOST_TEST(peer.link('a').session()->id != 0U);
  BOOST_TEST(!peer.history.never_joined());
}

BOOST_AUTO_TEST_CASE(a_delta_that_came_while_the_mirrors_were_set_is_handed_over_with_the_link) {
  OpeningAlone peer;
  peer.up('a');
  peer.link_open('a', {.nonce = 7});
  TEST_LINES(peer.delta('a'));
  TEST_LINES(peer.opened(), "a: begins with a delta");
}

BOOST_AUTO_TEST_CASE(a_delta_in_any_other_state_is_reported) {
  OpeningAlone peer(trained_options());
  peer.up('a');
  TEST_LINES(peer.delta('a'), "a: misbehaved");
  peer.up('a');
  peer.link_open('a', kLate);
  TEST_LINES(peer.delta('a'), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(each_decision_leads_to_a_state_of_its_own) {
  OpeningAlone late;
  late.up('a');
  BOOST_TEST(std::holds_alternative<Said>(late.link('a').in<Greeting>()->messages));
  late.up('b');
  BOOST_TEST((late.link('b').silent() != nullptr));
  late.link_open('b', kTrained);  // only one is asked at a time
  BOOST_TEST(std::holds_alternative<Heard>(late.link('b').in<Greeting>()->messages));
  late.link_open('a', kTrained);
  BOOST_TEST((late.link('a').in<Adopting>() != nullptr));
  late.keyframe('a');
  BOOST_TEST(late.link('a').in<SettingMirrors>()->adopts);

  OpeningAlone trained(trained_options());
  trained.up('a');
  trained.link_open('a', kLate);
  BOOST_TEST((trained.link('a').in<Giving>() != nullptr));
  trained.keyframe_made();
  BOOST_TEST(!trained.link('a').in<SettingMirrors>()->adopts);
  trained.up('b');
  trained.link_open('b', kTrained);
  BOOST_TEST((trained.link('b').in<Merging>() != nullptr));

  OpeningAlone both_late;
  both_late.up('a');
  both_late.link_open('a', kLate);
  BOOST_TEST((both_late.link('a').in<Waiting>() != nullptr));
}

BOOST_AUTO_TEST_CASE(a_merge_waits_for_both_keyframes_in_either_order) {
  for (const bool own_first : {true, false}) {
    OpeningAlone peer(trained_options());
    peer.up('a');
    TEST_LINES(peer.link_open('a', kTrained), "a: link open", "a: run keyframe");
    if (own_first) {
      TEST_LINES(peer.keyframe_made(), "a: keyframe");
      TEST_LINES(peer.keyframe('a'), "a: run open merge");
    } else {
      TEST_LINES(peer.keyframe('a'));
      TEST_LINES(peer.keyframe_made(), "a: keyframe", "a: run open merge");
    }
    TEST_LINES(peer.opened(), "a: begins");
  }
}

BOOST_AUTO_TEST_CASE(an_own_keyframe_takes_its_part_of_the_upload) {
  OpeningAlone peer(trained_options());
  peer.up('a');
  peer.link_open('a', kTrained);
  BOOST_TEST(peer.uploaded == 0U);
  peer.keyframe_made();
  BOOST_TEST(peer.uploaded == 8U);
}

BOOST_AUTO_TEST_CASE(a_session_goes_on_where_both_ends_still_have_it) {
  OpeningAlone peer;
  add_broken(peer, 'a');
  TEST_LINES(peer.up('a'), "a: link open, may adopt");
  TEST_LINES(peer.link_open('a', {.nonce = 7, .session = 9, .committed = {3}}), "a: run resume",
             "a: goes on, the other end has 3");
  BOOST_TEST(peer.history.is_mixed());
}

BOOST_AUTO_TEST_CASE(a_session_that_the_other_end_has_lost_is_dropped) {
  OpeningAlone peer;
  add_broken(peer, 'a');
  peer.up('a');
  TEST_LINES(peer.link_open('a', {.nonce = 7}), "a: run close", "a: run open fresh");
}

BOOST_AUTO_TEST_CASE(an_adoption_hands_its_link_over_and_starts_the_others_again) {
  OpeningAlone peer;
  peer.up('b');
  peer.link_open('b', {.nonce = 7});
  TEST_LINES(peer.opened(), "b: begins");
  peer.up('a');
  peer.link_open('a', kTrained);
  peer.keyframe('a');
  TEST_LINES(peer.opened(), "b: run close", "a: begins", "b: link open");
}

BOOST_AUTO_TEST_CASE(in_each_state_only_its_own_timer_runs) {
  using Names = std::set<std::string>;
  OpeningAlone restarted(trained_options());
  restarted.up('a');
  BOOST_TEST((restarted.timers() == Names{"another end's LinkOpen"}));
  restarted.link_open('a', kTrained);
  BOOST_TEST(restarted.timers().empty());

  OpeningAlone peer;
  peer.up('a');
  BOOST_TEST((peer.timers() == Names{"a replica to adopt"}));
  peer.link_open('a', kTrained);
  BOOST_TEST((peer.timers() == Names{"a replica to adopt"}));
  peer.now += kAskTimeout;
  TEST_LINES(peer.expire(), "notice");
  BOOST_TEST((peer.timers() == Names{"to ask for a replica again"}));
  peer.now += kAskTimeout;
  TEST_LINES(peer.expire(), "a: link open, may adopt");
  peer.link_open('a', kTrained);
  peer.keyframe('a');
  BOOST_TEST(peer.timers().empty());

  OpeningAlone both_late;
  both_late.up('a');
  both_late.link_open('a', kLate);
  BOOST_TEST((both_late.timers() == Names{"a better replica to adopt"}));
}

BOOST_AUTO_TEST_CASE(of_two_latecomers_the_one_with_more_samples_keeps_its_replica) {
  struct Case {
    std::uint64_t own;
    std::uint64_t others;
    bool keeps;
  };
  for (const Case& one : {Case{64, 32, true}, Case{32, 64, false}}) {
    OpeningAlone peer;
    peer.history.on({{1}, one.own, 0.5}, 0);
    peer.up('a');
    LinkOpen other = kLate;
    other.samples = one.others;
    peer.link_open('a', other);
    BOOST_TEST(peer.link('a').in<Waiting>()->keeps == one.keeps);
    peer.now += kWaitTimeout;
    peer.expire();
    BOOST_TEST(peer.history.is_mixed() == one.keeps);
    BOOST_TEST((peer.link('a').in<Waiting>() == nullptr) == one.keeps);
  }
}

BOOST_AUTO_TEST_SUITE_END()
