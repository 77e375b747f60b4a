// Others that cannot be kept away: who has this peer's key, who speaks on its network, whom it
// wronged.
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "membership/core.hpp"
#include "membership/limits.hpp"
#include "membership/record.hpp"
#include "membership/simulated_signer.hpp"

using namespace std::chrono_literals;
using namespace starling;
using namespace starling::membership;

namespace {

base::PeerId id_of(std::uint8_t fill) {
  base::PeerId id;
  id.bytes.fill(fill);
  return id;
}

wire::MemberRecord record_of(std::uint8_t fill, const std::string& address,
                             std::uint64_t incarnation = 1,
                             wire::MemberState state = wire::MemberState::alive) {
  wire::MemberRecord record{.id = id_of(fill),
                            .name = "peer-" + std::to_string(fill),
                            .addresses = {address},
                            .incarnation = incarnation,
                            .state = state};
  SimulatedSigner signer(record.id);
  sign(record, signer);
  return record;
}

/// One core, whose other ends are the test.
class Alone {
 public:
  static constexpr std::uint8_t kSelf = 1;

  explicit Alone(std::vector<std::string> join = {}, std::uint32_t degree = 4)
      : signer_(id_of(kSelf)),
        core({.degree = degree, .join = std::move(join)}, record_of(kSelf, "self:1"), signer_,
             base::Rng(7)) {
    out_.clear();
    core.expire(now, out_);
    take();
  }

  void give(const Event& event) {
    core.handle(event, now, out_);
    take();
  }
  /// A neighbour that dialed it, over link `number`.
  base::LinkId add_neighbour(std::uint8_t fill, std::uint32_t number) {
    const base::LinkId link{number, 1};
    give(LinkReady{link, record_of(fill, "other:1"), false, ""});
    give(Received{link, wire::Neighbour{wire::NeighbourKind::request}});
    return link;
  }
  /// Time goes by; what is on `link` is heard of all the while.
  void pass(base::Duration duration, std::optional<base::LinkId> link = {}) {
    const base::Time end = now + duration;
    for (auto due = core.next_deadline(); due && *due <= end; due = core.next_deadline()) {
      now = std::max(now, *due);
      if (link) give(Heard{*link});
      core.expire(now, out_);
      take();
    }
    now = end;
  }
  [[nodiscard]] std::size_t warnings(std::string_view part) const {
    return static_cast<std::size_t>(std::ranges::count_if(
        said, [&](const std::string& text) { return text.find(part) != std::string::npos; }));
  }
  void require_bounds() const {
    base::Bounds bounds;
    core.add_bounds(bounds);
    core.add_timers(now, bounds);
    BOOST_TEST((bounds.broken() ? bounds.broken()->what : "") == "");
  }

 private:
  SimulatedSigner signer_;
  Outbox out_;

  void take() {
    for (const Action& action : out_) {
      if (const auto* dial = std::get_if<Dial>(&action)) dials.push_back(dial->address);
      const auto* notice = std::get_if<base::LogEntry>(&action);
      if (notice != nullptr && notice->severity == base::Severity::warning)
        said.push_back(notice->text);
      const auto* sent = std::get_if<Send>(&action);
      const auto* gossip = sent == nullptr ? nullptr : std::get_if<wire::Gossip>(&sent->message);
      if (gossip == nullptr) continue;
      for (const wire::MemberRecord& record : gossip->members) {
        ++(record.id == id_of(kSelf) ? announced : named);
      }
    }
    out_.clear();
  }

 public:
  Core core;
  base::Time now{1s};
  std::vector<std::string> dials;
  std::vector<std::string> said;  ///< warnings
  std::size_t announced = 0;      ///< own records told, over one link
  std::size_t named = 0;          ///< records of others told
};

}  // namespace

BOOST_AUTO_TEST_SUITE(hostile)

BOOST_AUTO_TEST_CASE(a_second_process_with_its_key_is_named_and_starts_no_storm_of_records) {
  Alone peer;
  const base::LinkId link = peer.add_neighbour(2, 1);
  constexpr auto kMinutes = 30;
  std::uint64_t answered = 0;
  for (int tick = 0; tick < kMinutes * 600; ++tick) {
    peer.pass(100ms, link);
    // The other process overrules each record at once, as one without the limit would.
    const std::uint64_t own = peer.core.self().incarnation;
    if (tick == 0 || own > answered) {
      answered = own + 1;
      peer.give(Received{link, wire::Gossip{{record_of(Alone::kSelf, "twin:1", answered)}, {}}});
      peer.require_bounds();
    }
  }
  BOOST_TEST(peer.announced > 50U);   // it never gives up
  BOOST_TEST(peer.announced < 140U);  // with a round trip of 100 ms it would be 18,000
  BOOST_TEST(peer.warnings("twin:1") == 3U);
  BOOST_TEST(peer.said.size() == 3U);
}

BOOST_AUTO_TEST_CASE(a_record_of_a_former_life_is_overruled_at_once_and_nobody_is_told) {
  Alone peer;
  const base::LinkId link = peer.add_neighbour(2, 1);
  peer.give(Received{link, wire::Gossip{{record_of(Alone::kSelf, "before:1", 40)}, {}}});
  BOOST_TEST(peer.core.self().incarnation == 41U);
  peer.pass(60s, link);
  BOOST_TEST(peer.announced == 1U);
  BOOST_TEST(peer.said.empty());
}

BOOST_AUTO_TEST_CASE(claims_that_foresee_what_they_are_refuted_with_are_refuted_once) {
  Alone peer;
  const base::LinkId link = peer.add_neighbour(2, 1);
  const std::uint64_t incarnation = peer.core.self().incarnation;
  wire::Gossip gossip;
  for (std::uint64_t i = 0; i < 256; ++i) {
    gossip.claims.push_back({.subject = id_of(Alone::kSelf).prefix(),
                             .by = 5,
                             .incarnation = incarnation + i,
                             .state = wire::MemberState::suspect,
                             .reason = wire::DeathReason::silent});
  }
  peer.give(Received{link, gossip});
  BOOST_TEST(peer.core.self().incarnation == incarnation + 1);
}

BOOST_AUTO_TEST_CASE(while_another_has_its_key_suspicions_are_refuted_at_once) {
  Alone peer;
  const base::LinkId link = peer.add_neighbour(2, 1);
  const auto meet = [&](std::uint64_t incarnation) {
    peer.give(Received{link, wire::Gossip{{record_of(Alone::kSelf, "twin:1", incarnation)}, {}}});
  };
  meet(10);
  meet(20);  // is not overruled yet
  BOOST_REQUIRE(peer.core.self().incarnation == 11U);
  const auto accuse = [&](std::uint64_t incarnation, wire::MemberState state) {
    const wire::Claim claim{.subject = id_of(Alone::kSelf).prefix(),
                            .by = 5,
                            .incarnation = incarnation,
                            .state = state,
                            .reason = wire::DeathReason::silent};
    peer.give(Received{link, wire::Gossip{{}, {claim}}});
  };
  accuse(15, wire::MemberState::suspect);  // nobody told such a record
  BOOST_TEST(peer.core.self().incarnation == 11U);
  accuse(20, wire::MemberState::suspect);
  BOOST_TEST(peer.core.self().incarnation == 21U);
  accuse(21, wire::MemberState::dead);
  BOOST_TEST(peer.core.self().incarnation == 22U);
  meet(30);
  BOOST_TEST(peer.core.self().incarnation == 22U);
  for (const auto state : {wire::MemberState::dead, wire::MemberState::left}) {
    const std::uint64_t newer = peer.core.self().incarnation + 20;
    peer.give(Received{link, wire::Gossip{{record_of(Alone::kSelf, "twin:1", newer, state)}, {}}});
    BOOST_TEST(peer.core.self().incarnation == newer + 1);
  }
}

BOOST_AUTO_TEST_CASE(who_leaves_while_another_has_its_key_is_believed) {
  Alone peer;
  const base::LinkId link = peer.add_neighbour(2, 1);
  for (const std::uint64_t incarnation : {10, 20}) {
    peer.give(Received{link, wire::Gossip{{record_of(Alone::kSelf, "twin:1", incarnation)}, {}}});
  }
  peer.give(Leave{});
  BOOST_TEST(peer.core.self().incarnation == 21U);
  BOOST_TEST((peer.core.self().state == wire::MemberState::left));
}

BOOST_AUTO_TEST_CASE(who_asks_for_a_place_again_and_again_is_told_of_others_once) {
  Alone peer({}, 2);
  for (const std::uint8_t fill : {2, 3}) static_cast<void>(peer.add_neighbour(fill, fill));
  const base::LinkId asker{4, 1};
  peer.give(LinkReady{asker, record_of(4, "asker:1"), false, ""});
  const auto ask = [&] {
    peer.give(Received{asker, wire::Neighbour{wire::NeighbourKind::request}});
  };
  const std::size_t before = peer.named;
  ask();
  BOOST_TEST(peer.named == before + 2);
  for (int i = 0; i < 100; ++i) ask();
  BOOST_TEST(peer.named == before + 2);
}

BOOST_AUTO_TEST_CASE(addresses_that_were_heard_leave_dials_for_the_others) {
  const std::vector<std::string> join{"join-1:1", "join-2:1", "join-3:1"};
  Alone peer(join, 1);  // one that is on its way is enough for it
  const auto of_join = [&] {
    return std::ranges::count_if(peer.dials, [](const auto& at) { return at.starts_with("join"); });
  };
  const auto heard = [&](int number) {
    peer.give(
        Found{id_of(static_cast<std::uint8_t>(number)), "10.9.8." + std::to_string(number) + ":1"});
  };
  for (const std::string& address : join) peer.give(DialFailed{address, "nobody there", false});
  peer.dials.clear();
  // A flood of announcements whose addresses never answer.
  for (int second = 0; second < 60; ++second) {
    for (int i = 10; i < 250; ++i) heard(i);
    peer.require_bounds();
    peer.pass(1s);
    std::vector<std::string> configured;
    for (const std::string& at : peer.dials) {
      if (at.starts_with("join")) configured.push_back(at);
    }
    BOOST_REQUIRE(peer.dials.size() - configured.size() <= kFoundDialsMax * (second / 5 + 1));
    for (const std::string& at : join) peer.give(DialFailed{at, "nobody there", false});
  }
  BOOST_TEST(of_join() >= 12);  // each is tried every 15 s or sooner
}

BOOST_AUTO_TEST_CASE(whom_it_wronged_is_left_alone_for_as_long_as_a_ban) {
  Alone peer({"other:1"});
  BOOST_REQUIRE(peer.dials.size() == 1U);
  const base::LinkId link{1, 1};
  peer.give(LinkReady{link, record_of(2, "other:1"), true, "other:1"});
  peer.give(Received{link, wire::Neighbour{wire::NeighbourKind::accept}});
  BOOST_REQUIRE(peer.core.neighbours(peer.now).size() == 1U);
  peer.give(Received{link, wire::Bye{wire::ByeReason::misbehaved, "why"}});
  BOOST_TEST(peer.core.neighbours(peer.now).empty());
  peer.pass(kBanTime - 1ms);
  BOOST_TEST(peer.dials.size() == 1U);
  peer.require_bounds();
  peer.pass(1s);
  BOOST_TEST(peer.dials.size() == 2U);
}

// As at an address that each machine has for itself, such as that of a bridge for containers.
BOOST_AUTO_TEST_CASE(who_answers_in_another_s_place_accuses_nobody_that_is_heard_of) {
  for (const bool heard : {true, false}) {
    BOOST_TEST_CONTEXT("heard of: " << heard) {
      Alone peer;
      const base::LinkId link = peer.add_neighbour(2, 1);
      peer.give(Received{link, wire::Gossip{{record_of(3, "shared:1")}, {}}});
      const auto is_dialed = [&] { return std::ranges::count(peer.dials, "shared:1") == 1; };
      for (int second = 0; second < 60 && !is_dialed(); ++second) peer.pass(1s, link);
      BOOST_REQUIRE(is_dialed());
      if (heard) {
        const wire::Progress moved{.id_prefix = id_of(3).prefix(), .samples = 64};
        peer.give(Received{link, wire::Heartbeat{.progress = {moved}}});
      }
      peer.give(LinkReady{{2, 1}, record_of(4, "shared:1"), true, "shared:1"});
      const wire::MemberRecord* record = peer.core.table().find(id_of(3));
      BOOST_REQUIRE(record != nullptr);
      BOOST_TEST((record->state == wire::MemberState::suspect) == !heard);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
