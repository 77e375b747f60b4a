#include "exchange/core.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <tuple>

#include <boost/test/unit_test.hpp>

#include "delta/codec.hpp"
#include "delta/dense.hpp"
#include "transcript.hpp"

using namespace std::chrono_literals;
using namespace starling::exchange;
using namespace starling::exchange::test;

BOOST_AUTO_TEST_SUITE(core)

BOOST_AUTO_TEST_CASE(an_exchange_is_committed_with_both_deltas_and_the_next_keeps_the_pace) {
  Transcript peer(plain_options());
  TEST_LINES(peer.open_fresh('a'), "a: run encode 1 at 0");
  TEST_LINES(peer.encoded(), "a: delta 1 of 1");
  TEST_LINES(peer.step(1));
  TEST_LINES(peer.delta('a', 1), "a: run commit 1 w 0.5", "a: run encode 2 at 2");
  TEST_LINES(peer.committed());
  TEST_LINES(peer.step(2));
  TEST_LINES(peer.encoded(), "a: delta 2 of 1");
  TEST_LINES(peer.step(3));
  TEST_LINES(peer.step(9));  // the other end is slow: nothing but waiting
  TEST_LINES(peer.delta('a', 2), "a: run commit 2 w 0.5", "a: run encode 3 at 4");
}

BOOST_AUTO_TEST_CASE(an_early_delta_waits_for_the_own_one_and_its_commit) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  TEST_LINES(peer.delta('a', 1));
  TEST_LINES(peer.encoded(), "a: delta 1 of 1", "a: run commit 1 w 0.5", "a: run encode 2 at 2");
  // The other end has committed already, and is the faster one.
  TEST_LINES(peer.delta('a', 2), "a: run encode 2 at once");
  TEST_LINES(peer.encoded(), "a: delta 2 of 1");
  TEST_LINES(peer.committed(), "a: run commit 2 w 0.5", "a: run encode 3 at 2");
}

BOOST_AUTO_TEST_CASE(the_end_that_writes_first_sets_the_pace) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.encoded();
  TEST_LINES(peer.delta('a', 1), "a: run commit 1 w 0.5", "a: run encode 2 at 2");
  peer.committed();
  TEST_LINES(peer.delta('a', 2), "a: run encode 2 at once");
  TEST_LINES(peer.encoded(), "a: delta 2 of 1", "a: run commit 2 w 0.5", "a: run encode 3 at 2");
  peer.committed();
  // With half of the steps made, there is no hurry.
  TEST_LINES(peer.step(1));
  TEST_LINES(peer.delta('a', 3));
}

BOOST_AUTO_TEST_CASE(answers_take_a_part_of_the_computing_time) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.took = 60ms;
  peer.now += 1s;  // of which a fifth may go into answers
  peer.encoded();
  peer.delta('a', 1);
  peer.committed();
  TEST_LINES(peer.delta('a', 2), "a: run encode 2 at once");
  peer.encoded();
  peer.committed();
  TEST_LINES(peer.delta('a', 3));  // 0.08 s are left of it
  peer.step(2);
  TEST_LINES(peer.encoded(), "a: delta 3 of 1", "a: run commit 3 w 0.5", "a: run encode 4 at 4");
  peer.committed();
  peer.now += 1s;
  TEST_LINES(peer.delta('a', 4), "a: run encode 4 at once");
}

BOOST_AUTO_TEST_CASE(weights_of_both_deltas_part_the_step) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.on(Progressed{.step = {1}, .weight = 3});
  peer.encoded();
  peer.on(Progressed{.step = {2}, .weight = 5});  // of later deltas
  wire::Delta delta{.exchange = {1}, .weight = 1, .payload = base::Bytes(4)};
  peer.on(Received{peer_named('a'), delta});
  BOOST_TEST(peer.commit->parts.own == 0.25F);
  BOOST_TEST(peer.commit->parts.their == 1.0F);
}

// The other end says that it weighs 2^9, and is vouched for 100 samples a second.
BOOST_AUTO_TEST_CASE(a_neighbour_that_exaggerates_weighs_what_it_is_vouched_for) {
  for (const auto& [own, believed] : {std::pair(3, 7), {8, 8}}) {
    Transcript peer(plain_options());
    peer.open_fresh('a');
    peer.on(Progressed{.step = {1}, .weight = static_cast<std::int8_t>(own)});
    peer.on(Vouched{peer_named('a'), 0});
    peer.now += 1s;
    peer.on(Vouched{peer_named('a'), 100});
    const auto delta = [&](std::uint64_t exchange) {
      peer.on(Received{peer_named('a'), wire::Delta{.exchange = {exchange},
                                                    .weight = 9,
                                                    .believed = wire::kNoWeight,
                                                    .payload = base::Bytes(4)}});
    };
    peer.encoded();
    delta(1);  // nothing was said yet
    peer.committed();
    peer.steps = 2;
    peer.on(Progressed{.step = {2}, .weight = static_cast<std::int8_t>(own)});
    peer.encoded();
    BOOST_TEST(int{peer.sent->believed} == believed);
    delta(2);
    BOOST_TEST(peer.commit->parts.own == 1.0F);
    BOOST_TEST(peer.commit->parts.their == std::ldexp(1.0F, own - believed));
  }
}

BOOST_AUTO_TEST_CASE(where_all_weigh_the_same_nobody_is_believed_to_weigh_more) {
  Options options = plain_options();
  options.weighs_by_speed = false;
  Transcript peer(options);
  peer.open_fresh('a');
  peer.encoded();
  peer.on(Received{peer_named('a'),
                   wire::Delta{.exchange = {1}, .weight = 9, .payload = base::Bytes(4)}});
  peer.committed();
  peer.step(2);
  peer.encoded();
  BOOST_TEST(int{peer.sent->believed} == 0);
  peer.on(Received{peer_named('a'),
                   wire::Delta{.exchange = {2}, .weight = 9, .payload = base::Bytes(4)}});
  BOOST_TEST(peer.commit->parts.own == 1.0F);
  BOOST_TEST(peer.commit->parts.their == 1.0F);
}

BOOST_AUTO_TEST_CASE(a_link_with_a_light_end_carries_less) {
  for (const auto& [own, their, part] : {std::tuple(0, 0, 1.0),
                                         {0, -1, 1.0},
                                         {0, -5, 0.25},
                                         {-5, 0, 0.0625},
                                         {0, int{wire::kNoWeight}, 0.044194}}) {
    Options options = plain_options();
    options.elements = 1'000'000;
    Transcript peer(options);
    peer.open_fresh('a');
    peer.on(Progressed{.step = {1}, .weight = static_cast<std::int8_t>(own)});
    peer.encoded();
    const double usual = peer.encode->options.density;
    wire::Delta delta{
        .exchange = {1}, .weight = static_cast<std::int8_t>(their), .payload = base::Bytes(4)};
    peer.on(Received{peer_named('a'), delta});
    BOOST_TEST(peer.encode->exchange.value == 2);
    BOOST_TEST(peer.encode->options.density == usual * part, boost::test_tools::tolerance(1e-4));
  }
}

BOOST_AUTO_TEST_CASE(w_comes_from_the_larger_of_the_two_degrees_in_the_frames) {
  for (const std::uint16_t degree : {1, 2, 3, 7, 64}) {
    Transcript peer(plain_options());
    peer.open_fresh('b');
    peer.open_fresh('a');
    TEST_LINES(peer.encoded(), "a: delta 1 of 2");
    peer.delta('a', 1, degree);
    const float expected = 1.0F / (1.0F + static_cast<float>(std::max<int>(degree, 2)));
    BOOST_TEST(std::bit_cast<std::uint32_t>(peer.commit->w) ==
               std::bit_cast<std::uint32_t>(expected));
    BOOST_TEST(peer.commit->degree_inverse == 0.5F);  // of its own
  }
}

BOOST_AUTO_TEST_CASE(deltas_that_are_not_due_are_reported_and_end_the_link) {
  struct Case {
    const char* name;
    std::vector<std::uint64_t> deltas;
  };
  const Case cases[] = {{"twice", {1, 1}},
                        {"ahead", {2}},
                        {"far ahead", {1000}},
                        {"none", {0}},
                        {"one too early", {1, 2}}};
  for (const Case& one : cases) {
    BOOST_TEST_CONTEXT(one.name) {
      Transcript peer(plain_options());
      peer.open_fresh('a');
      for (std::size_t i = 0; i + 1 < one.deltas.size(); ++i) {
        TEST_LINES(peer.delta('a', one.deltas[i]));
      }
      TEST_LINES(peer.delta('a', one.deltas.back()), "a: run close", "a: misbehaved");
      BOOST_TEST(peer.core.links().empty());
      TEST_LINES(peer.encoded());  // an outcome for a link that is gone
    }
  }
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.encoded();
  peer.delta('a', 1);
  peer.committed();
  TEST_LINES(peer.delta('a', 1), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(no_delta_of_a_run_file_and_no_keyframe_is_longer_than_a_payload_may_be) {
  starling::base::Rng rng(5);
  for (const std::size_t n : {std::size_t{1}, std::size_t{20}, std::size_t{5000}}) {
    const std::vector<float> zeros(n, 0.0F);
    for (const std::size_t clustered : {std::size_t{0}, n / 3, n}) {
      // The largest elements lie side by side at first, and anywhere behind.
      std::vector<float> x(n);
      for (std::size_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(rng.uniform()) + (i < clustered ? 1.0F : 0.1F);
      }
      const starling::delta::Difference difference{.base = x, .offset = {}, .mirror = zeros};
      starling::base::Bytes bytes;
      for (const double density : {1e-6, 0.01, 0.1, 0.4, 0.7, 1.0}) {
        starling::delta::HostDelta delta;
        BOOST_REQUIRE(starling::delta::encode(
            difference, {.density = density, .bits = 8, .block = kBlockMin}, bytes, delta));
        BOOST_TEST(bytes.size() <= payload_bytes_max(n));
      }
      BOOST_REQUIRE(starling::delta::encode_dense(difference, bytes));
      BOOST_TEST(bytes.size() <= payload_bytes_max(n));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_delta_that_is_too_long_is_reported) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  starling::wire::Delta large{.exchange = {1}};
  large.payload.resize(payload_bytes_max(1000) + 1);
  TEST_LINES(peer.on(Received{peer_named('a'), large}), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(messages_before_the_opening_or_from_strangers_are_reported) {
  Transcript peer(plain_options());
  TEST_LINES(peer.delta('x', 1), "x: misbehaved");
  TEST_LINES(peer.link_open('x', {}), "x: misbehaved");
  peer.up('a');
  TEST_LINES(peer.delta('a', 1), "a: misbehaved");
  peer.up('b');
  TEST_LINES(peer.keyframe('b'), "b: misbehaved");
  peer.open_fresh('c');
  TEST_LINES(peer.keyframe('c'), "c: run close", "c: misbehaved");
}

BOOST_AUTO_TEST_CASE(a_delta_that_cannot_be_applied_is_reported) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.encoded();
  peer.delta('a', 1);
  TEST_LINES(peer.committed(CommitResult::invalid), "a: run close", "a: misbehaved");
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_not_finite_ends_the_run) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  TEST_LINES(peer.on(Encoded{.peer = peer.encode->peer,
                             .tag = peer.encode->tag,
                             .exchange = {1},
                             .status = starling::base::fail(starling::base::ErrorCode::diverged,
                                                            "not finite")}),
             "failed");
}

BOOST_AUTO_TEST_CASE(every_so_many_deltas_carry_the_hash_of_their_mirror_which_the_commit_checks) {
  Options options = plain_options();
  options.config.hash_every = 2;
  Transcript peer(options);
  peer.open_fresh('a');
  BOOST_TEST(!peer.encode->with_hash);
  peer.encoded();
  peer.delta('a', 1);
  BOOST_TEST(!peer.commit->expected_hash.has_value());
  BOOST_TEST(peer.encode->with_hash);
  peer.committed();
  peer.encoded();
  starling::wire::Delta delta{.exchange = {2}, .mirror_hash = 77};
  peer.on(Received{peer_named('a'), delta});
  BOOST_TEST(peer.commit->expected_hash.value() == 77U);
}

BOOST_AUTO_TEST_CASE(every_so_many_deltas_carry_the_buffers) {
  Options options = plain_options();
  options.buffers = 2;
  options.config.buffers_every = 2;
  Transcript peer(options);
  peer.open_fresh('a');
  BOOST_TEST(!peer.encode->with_buffers);
  peer.encoded();
  BOOST_TEST(peer.sent->buffers.empty());
  peer.delta('a', 1);
  BOOST_TEST(peer.encode->with_buffers);
  peer.committed();
  const starling::base::Bytes own(8, std::byte{1});
  const starling::base::Bytes theirs(8, std::byte{2});
  peer.on(Encoded{.peer = peer.encode->peer,
                  .tag = peer.encode->tag,
                  .exchange = {2},
                  .status = {},
                  .density = 0.1,
                  .buffers = own});
  BOOST_TEST((peer.sent->buffers == own));
  peer.on(Received{peer_named('a'), starling::wire::Delta{.exchange = {2}, .buffers = theirs}});
  BOOST_TEST((peer.commit->own_buffers == own));
  BOOST_TEST((peer.commit->their_buffers == theirs));
  peer.committed();
  BOOST_TEST(!peer.encode->with_buffers);
}

BOOST_AUTO_TEST_CASE(in_settling_every_fourth_delta_carries_the_buffers_or_more_often) {
  for (const std::uint32_t every : {20U, 3U}) {
    Options options = plain_options();
    options.buffers = 1;
    options.config.buffers_every = every;
    Transcript peer(options);
    peer.open_fresh('a');
    peer.settle_without_tree();
    std::vector<std::uint64_t> carry;
    for (std::uint64_t t = 1; t <= 8; ++t) {
      if (peer.encode->with_buffers) carry.push_back(t);
      peer.encoded();
      peer.delta('a', t);
      peer.committed();
    }
    const auto expected =
        every == 20U ? std::vector<std::uint64_t>{4, 8} : std::vector<std::uint64_t>{3, 6};
    BOOST_TEST(carry == expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(a_run_without_buffers_never_asks_for_them) {
  Options options = plain_options();
  options.config.buffers_every = 1;
  Transcript peer(options);
  peer.open_fresh('a');
  BOOST_TEST(!peer.encode->with_buffers);
  peer.settle_without_tree();
  BOOST_TEST(!peer.encode->with_buffers);
}

BOOST_AUTO_TEST_CASE(buffers_of_another_size_are_reported) {
  for (const std::size_t bytes : {4U, 7U, 12U}) {
    Options options = plain_options();
    options.buffers = 2;
    Transcript peer(options);
    peer.open_fresh('a');
    const starling::wire::Delta delta{.exchange = {1}, .buffers = starling::base::Bytes(bytes)};
    TEST_LINES(peer.on(Received{peer_named('a'), delta}), "a: run close", "a: misbehaved");
  }
}

BOOST_AUTO_TEST_CASE(a_peer_does_not_settle_before_its_buffers_agree) {
  Options options = plain_options();
  options.buffers = 1;
  Transcript peer(options);
  peer.open_fresh('a');
  peer.settle_without_tree();
  const auto encoded = [&](double buffer_drift) {
    return peer.on(Encoded{.peer = peer.encode->peer,
                           .tag = peer.encode->tag,
                           .exchange = peer.encode->exchange,
                           .status = {},
                           .drift = 0.001,
                           .density = 0.1,
                           .buffers = starling::base::Bytes(4),
                           .buffer_drift = buffer_drift});
  };
  TEST_LINES(encoded(0.02), "a: delta 1 of 1");
  peer.delta('a', 1, 1, true);
  peer.committed();
  TEST_LINES(encoded(0.001), "a: delta 2 of 1 settled");
}

BOOST_AUTO_TEST_CASE(density_is_another_at_the_finish_and_in_settling) {
  Options options = plain_options();
  options.config.density = 0.01;
  options.config.finish_factor = 5;
  options.config.settle_density = 0.2;
  const auto density_at = [&](double progress, bool settling) {
    Transcript peer(options);
    peer.step(1, progress);
    if (settling) {
      peer.open_fresh('b');
      peer.settle_without_tree();
    }
    peer.up('a');
    peer.link_open('a', {.nonce = 7, .progress = progress});
    if (peer.make_keyframe) {
      peer.keyframe_made();
      peer.keyframe('a');
    } else if (peer.open) {  // fresh: nobody waits for a keyframe
      peer.opened();
      return peer.encode->options.density;
    } else {
      peer.keyframe('a');
    }
    peer.opened();
    return peer.encode->options.density;
  };
  const auto near = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(density_at(0.0, false) == 0.01, near);
  BOOST_TEST(density_at(0.5, false) == 0.01, near);
  BOOST_TEST(density_at(0.97, false) == 0.05, near);
  BOOST_TEST(density_at(0.0, true) == 0.2, near);
  options.config.density = 0.5;
  BOOST_TEST(density_at(0.97, false) == 1.0, near);
  options.config.density = 1e-9;
  BOOST_TEST(density_at(0.5, false) == 0.001, near);
}

BOOST_AUTO_TEST_CASE(a_peer_without_neighbours_settles_at_once) {
  Transcript peer(plain_options());
  TEST_LINES(peer.settle_without_tree(), "settled");
  TEST_LINES(peer.on(Phase::done));
  TEST_LINES(peer.expire());
  BOOST_TEST(!peer.core.next_deadline().has_value());
}

BOOST_AUTO_TEST_CASE(a_peer_settles_when_both_ends_agree_and_then_only_answers) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  TEST_LINES(peer.settle_without_tree(), "a: run encode 1 at once");
  TEST_LINES(peer.encoded(0.02), "a: delta 1 of 1");  // drift above the limit
  TEST_LINES(peer.delta('a', 1, 1, true), "a: run commit 1 w 0.5", "a: run encode 2 at once");
  TEST_LINES(peer.committed());
  TEST_LINES(peer.encoded(0.001), "a: delta 2 of 1 settled");
  TEST_LINES(peer.delta('a', 2, 1, false), "a: run commit 2 w 0.5", "a: run encode 3 at once");
  TEST_LINES(peer.committed());
  TEST_LINES(peer.encoded(0.001), "a: delta 3 of 1 settled");
  TEST_LINES(peer.delta('a', 3, 1, true), "a: run commit 3 w 0.5", "a: run encode 4 at once");
  TEST_LINES(peer.committed(), "settled");
  TEST_LINES(peer.encoded(0.001), "a: delta 4 of 1 settled");
  TEST_LINES(peer.delta('a', 4, 1, true), "a: run commit 4 w 0.5");
  TEST_LINES(peer.committed());
  TEST_LINES(peer.delta('a', 5, 1, true), "a: run encode 5 at once");
  TEST_LINES(peer.on(Phase::done));
}

BOOST_AUTO_TEST_CASE(a_link_that_has_settled_rests_until_the_replica_moves_or_the_other_end_asks) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.open_fresh('b');
  peer.settle_without_tree();
  const EncodeJob for_b = *peer.encode;
  peer.encode->peer = peer_named('a');
  peer.encode->tag = for_b.tag - 1;
  peer.encoded(0.001);
  TEST_LINES(peer.delta('a', 1, 1, true), "a: run commit 1 w 0.3333", "a: run encode 2 at once");
  peer.committed();
  peer.encoded(0.001);
  TEST_LINES(peer.delta('a', 2, 1, true), "a: run commit 2 w 0.3333", "a: run encode 3 if need be");
  peer.committed();
  TEST_LINES(peer.skipped());
  BOOST_TEST(peer.core.drift() == 0.001);

  // An exchange with b moves the replica.
  peer.encode = for_b;
  peer.encoded(0.02);
  TEST_LINES(peer.delta('b', 1, 1, false), "b: run commit 1 w 0.3333", "b: run encode 2 at once");
  TEST_LINES(peer.committed(), "a: run encode 3 if need be");
  TEST_LINES(peer.skipped());

  // Whoever asks is answered.
  TEST_LINES(peer.delta('a', 3, 1, true), "a: run encode 3 at once");
  TEST_LINES(peer.encoded(0.001), "a: delta 3 of 2 settled", "a: run commit 3 w 0.3333");
  TEST_LINES(peer.committed(), "a: run encode 4 if need be");
  // Also where that crosses with a look.
  TEST_LINES(peer.delta('a', 4, 1, true));
  TEST_LINES(peer.skipped(), "a: run encode 4 at once");
}

BOOST_AUTO_TEST_CASE(a_link_does_not_rest_on_an_exchange_that_has_not_settled_it) {
  Transcript peer(plain_options());
  peer.open_fresh('b');
  peer.open_fresh('a');
  peer.settle_without_tree();
  peer.encode->peer = peer_named('a');
  peer.encode->tag -= 1;
  peer.encoded(0.001);
  peer.delta('a', 1, 1, true);
  peer.committed();
  peer.encoded(0.001);
  // Exchange 1 settled it and 2 takes that back, in a commit that runs before this look.
  TEST_LINES(peer.delta('a', 2, 1, false), "a: run commit 2 w 0.3333",
             "a: run encode 3 if need be");
  peer.committed();
  TEST_LINES(peer.skipped(), "a: run encode 3 at once");
}

BOOST_AUTO_TEST_CASE(settling_ends_at_its_timeout_or_when_the_last_link_is_gone) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.settle_without_tree();
  peer.now += 29s;
  TEST_LINES(peer.expire());
  peer.now += 1s;
  BOOST_TEST((peer.core.next_deadline() == peer.now));
  TEST_LINES(peer.expire(), "unsettled without a: it commits no exchange");
  TEST_LINES(peer.expire());

  Transcript other(plain_options());
  other.open_fresh('a');
  other.settle_without_tree();
  TEST_LINES(other.down('a'), "a: run suspend", "settled without a: its link was lost");
}

BOOST_AUTO_TEST_CASE(who_has_lost_all_links_waits_for_one_while_there_are_members_to_link_with) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.on(Company{true});
  peer.settle_without_tree();
  TEST_LINES(peer.down('a'), "a: run suspend");
  TEST_LINES(peer.on(Company{false}), "settled without a: its link was lost");

  Transcript other(plain_options());
  other.open_fresh('a');
  other.on(Company{true});
  other.settle_without_tree();
  TEST_LINES(other.down('a'), "a: run suspend");
  other.open_fresh('b');
  other.encoded(0.001);
  other.delta('b', 1, 1, true);
  TEST_LINES(other.committed(), "settled without a: its link was lost");
}

BOOST_AUTO_TEST_CASE(a_neighbour_that_says_for_ever_that_it_is_apart_is_left_out) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.open_fresh('b');
  peer.settle_without_tree();
  EncodeJob for_b = *peer.encode;
  peer.encode->peer = peer_named('a');
  peer.encode->tag = for_b.tag - 1;
  peer.encoded(0.001);
  peer.delta('a', 1, 1, true);
  peer.committed();
  // From the first exchange on, the two are near. Two more may take as long as they did so far.
  for (std::uint64_t t = 1; t <= 7; ++t) {
    peer.encode = for_b;
    peer.encoded(0.001);
    peer.delta('b', t, 1, false);
    for_b = *peer.encode;
    peer.now += kLateAfter / 4;
    const Lines lines = peer.committed();
    const bool ends = !lines.empty() && lines.back().starts_with("settled without b: it does not");
    BOOST_TEST(ends == (t == 7));
  }
}

BOOST_AUTO_TEST_CASE(who_has_the_other_ends_word_agrees_though_it_leaves_before_the_commit) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.settle_without_tree();
  peer.encoded(0.001);
  peer.delta('a', 1, 1, true);
  TEST_LINES(peer.on(NeighbourDown{peer_named('a'), true, true}), "a: run close", "settled");

  Transcript other(plain_options());
  other.open_fresh('a');
  other.settle_without_tree();
  TEST_LINES(other.on(NeighbourDown{peer_named('a'), true, true}), "a: run close", "unsettled");
}

BOOST_AUTO_TEST_CASE(a_delta_that_was_waiting_for_a_step_is_asked_for_anew_in_settling) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  const EncodeJob held = *peer.encode;
  TEST_LINES(peer.settle_without_tree(), "a: run encode 1 at once");
  BOOST_TEST(peer.encode->tag != held.tag);
  TEST_LINES(peer.on(Encoded{.peer = held.peer, .tag = held.tag, .exchange = {1}, .status = {}}));
  TEST_LINES(peer.encoded(), "a: delta 1 of 1");
}

BOOST_AUTO_TEST_CASE(status_tells_what_a_link_has_done) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.encoded(0.25);
  peer.delta('a', 1);
  peer.committed();
  const auto links = peer.core.links();
  BOOST_REQUIRE(links.size() == 1U);
  BOOST_TEST((links[0].stage == LinkStage::open));
  BOOST_TEST(links[0].committed.value == 1U);
  BOOST_TEST(links[0].drift == 0.25);
  BOOST_TEST(links[0].counters.exchanges == 1U);
  BOOST_TEST(peer.core.drift() == 0.25);
  BOOST_TEST(peer.core.open_links() == 1U);
  peer.down('a', true);
  BOOST_TEST(peer.core.totals().exchanges == 1U);
  BOOST_TEST(peer.core.drift() == 0.0);
}

BOOST_AUTO_TEST_SUITE_END()
