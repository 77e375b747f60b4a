#include "exchange/job_queue.hpp"

#include <vector>

#include <boost/test/unit_test.hpp>

#include "exchange/replica.hpp"
#include "transcript.hpp"

using namespace starling::exchange;
using namespace starling::exchange::test;

namespace {

std::vector<std::string> names(const std::vector<Job>& jobs) {
  std::vector<std::string> all;
  for (const Job& job : jobs) all.push_back(line_of(Run{job}));
  return all;
}

EncodeJob encode(char peer, std::uint64_t t, std::uint64_t at) {
  return {.peer = peer_named(peer),
          .tag = t,
          .exchange = {t},
          .not_before = {at},
          .every = 2,
          .options = {.density = 0.01}};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(job_queue)

BOOST_AUTO_TEST_CASE(deltas_wait_for_their_step_without_holding_up_others) {
  JobQueue queue;
  queue.push(encode('a', 1, 4));
  queue.push(encode('b', 1, 2));
  queue.push(KeyframeJob{peer_named('c'), 1});
  BOOST_TEST(names(queue.take({2})) == (Lines{"b: run encode 1 at 2", "c: run keyframe"}),
             boost::test_tools::per_element());
  BOOST_TEST(queue.take({3}).empty());
  BOOST_TEST(names(queue.take({4})) == (Lines{"a: run encode 1 at 4"}),
             boost::test_tools::per_element());
  BOOST_TEST(queue.empty());
}

BOOST_AUTO_TEST_CASE(a_delta_that_is_to_be_written_at_once_does_not_wait) {
  JobQueue queue;
  EncodeJob job = encode('a', 1, 4);
  job.at_once = true;
  queue.push(job);
  BOOST_TEST(queue.take({0}).size() == 1U);
}

BOOST_AUTO_TEST_CASE(a_waiting_delta_goes_with_its_link) {
  const Job ends[] = {SuspendJob{peer_named('a')}, CloseJob{peer_named('a')},
                      OpenJob{.peer = peer_named('a')}, encode('a', 2, 9)};
  for (const Job& end : ends) {
    JobQueue queue;
    queue.push(encode('a', 1, 4));
    queue.push(encode('b', 1, 4));
    queue.push(end);
    BOOST_TEST(names(queue.take({9})) == (Lines{"b: run encode 1 at 4", line_of(Run{end})}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(what_a_link_no_longer_needs_is_not_kept_for_an_owner_who_does_not_come) {
  const Job keyframe = KeyframeJob{peer_named('a'), 1};
  const Job open = OpenJob{.peer = peer_named('a')};
  const Job commit = CommitJob{.peer = peer_named('a'), .exchange = {3}};
  const Job suspend = SuspendJob{peer_named('a')};
  const Job resume = ResumeJob{peer_named('a')};
  const Job close = CloseJob{peer_named('a')};
  struct Case {
    const char* name;
    std::vector<Job> pushed;
    std::vector<Job> kept;
  };
  const Case cases[] = {
      {"a keyframe for a link that is gone", {keyframe, close}, {}},
      {"mirrors that were never set", {open, close}, {}},
      {"mirrors that are there", {close, keyframe, close, open, close}, {close}},
      {"a session that ends", {commit, suspend, close, open}, {commit, close, open}},
      {"there and back", {suspend, resume, suspend, resume}, {}},
      {"a link in grace", {suspend, resume, suspend}, {suspend}},
      {"a link that is back", {resume, suspend, resume}, {resume}},
      {"said twice", {suspend, suspend}, {suspend}},
  };
  for (const Case& one : cases) {
    BOOST_TEST_CONTEXT(one.name) {
      JobQueue queue;
      queue.push(KeyframeJob{peer_named('b'), 1});
      for (const Job& job : one.pushed) queue.push(job);
      std::vector<Job> kept{KeyframeJob{peer_named('b'), 1}};
      kept.insert(kept.end(), one.kept.begin(), one.kept.end());
      BOOST_TEST(names(queue.take({0})) == names(kept), boost::test_tools::per_element());
    }
  }
}

BOOST_AUTO_TEST_CASE(jobs_that_wait_stay_few_however_often_links_open_and_break) {
  struct Case {
    const char* name;
    double progress;
    std::size_t peers;
  };
  const Case cases[] = {
      {"fresh", 0.0, 1}, {"merge", 0.5, 1}, {"fresh, strangers", 0.0, 20}, {"merge", 0.5, 20}};
  for (const Case& one : cases) {
    BOOST_TEST_CONTEXT(one.name << " with " << one.peers) {
      Options options = plain_options();
      options.has_state = one.progress > 0;
      options.progress = one.progress;
      Transcript peer(options);
      JobQueue queue;
      const auto push = [&] {
        for (const Action& action : peer.last) {
          if (const auto* job = std::get_if<Run>(&action)) queue.push(job->job);
        }
      };
      for (std::size_t i = 0; i < 2000; ++i) {
        const char name = static_cast<char>('a' + i % one.peers);
        peer.up(name);
        push();
        for (std::uint64_t round = 1; round < 10; ++round) {
          peer.link_open(name, {.nonce = round, .progress = one.progress});
          push();
        }
        BOOST_REQUIRE(queue.size() <= kLinkJobsMax);
        peer.down(name);
        push();
        BOOST_REQUIRE(queue.empty());
      }
    }
  }
}

// A link came back, exchanged, and broke again, before the owner heard of any of it.
BOOST_AUTO_TEST_CASE(a_commit_is_made_on_a_link_that_broke_again_behind_it) {
  const std::vector<float> initial(1000, 0.5F);
  Replica replica(initial, 0.5F);
  const starling::base::PeerId a = peer_named('a');
  BOOST_REQUIRE(replica.open_fresh(a).has_value());
  CommitJob commit{.peer = a, .tag = 1, .exchange = {1}, .w = 0.25F};
  for (float& value : replica.trained()) value += 1.0F;
  BOOST_REQUIRE(replica.encode(a, {.density = 0.05}, commit.own));
  commit.their = commit.own;
  replica.suspend(a);
  const std::uint64_t before = replica.mirror_hash(a, MirrorOf::mine);
  JobQueue queue;
  queue.push(ResumeJob{a});
  queue.push(commit);
  queue.push(SuspendJob{a});
  const auto outcomes = run_batch(queue.take({0}), replica, {0});
  BOOST_REQUIRE(outcomes.size() == 1U);
  BOOST_TEST((std::get<Committed>(outcomes[0]).result == CommitResult::applied));
  BOOST_TEST(replica.mirror_hash(a, MirrorOf::mine) != before);
  BOOST_TEST(replica.open_links() == 0U);
}

BOOST_AUTO_TEST_CASE(late_deltas_carry_proportionally_more_up_to_a_limit) {
  std::vector<float> initial(10'000);
  for (std::size_t i = 0; i < initial.size(); ++i) initial[i] = 0.001F * static_cast<float>(i % 7);
  Replica replica(initial, 0.5F);
  BOOST_REQUIRE(replica.open_fresh(peer_named('a')).has_value());
  for (float& value : replica.trained()) value += 1.0F;
  const auto lag_at = [&](std::uint64_t step, bool at_once) {
    EncodeJob job = encode('a', 1, 10);
    job.at_once = at_once;
    const auto outcome = run(job, replica, {step});
    const auto& encoded = std::get<Encoded>(*outcome);
    BOOST_TEST(encoded.density == 0.01 * std::min(encoded.lag, kLagFactorMax),
               boost::test_tools::tolerance(1e-9));
    return encoded.lag;
  };
  BOOST_TEST(lag_at(10, false) == 1.0);
  BOOST_TEST(lag_at(12, false) == 2.0);  // `every` is 2: it comes after twice the time
  BOOST_TEST(lag_at(15, false) == 3.5);
  BOOST_TEST(lag_at(100, false) == 46.0);
  BOOST_TEST(lag_at(100, true) == 1.0);
}

BOOST_AUTO_TEST_CASE(in_settling_a_delta_carries_no_more_than_its_other_end_needs) {
  const std::vector<float> initial(10'000, 1.0F);
  Replica replica(initial, 0.0F);
  BOOST_REQUIRE(replica.open_fresh(peer_named('a')).has_value());
  EncodeJob job = encode('a', 1, 0);
  const auto write = [&](double moved, double near_enough, bool may_skip) {
    for (float& value : replica.trained()) value = 1.0F + static_cast<float>(moved);
    job.near_enough = near_enough;
    job.may_skip = may_skip;
    return std::get<Encoded>(*run(job, replica, {0}));
  };
  constexpr double kLeast = 1.0 / 10'000;
  BOOST_TEST(write(0, 0, true).density == 0.01);  // not in settling
  write(1e6, 0.01, false);                        // much was learned
  BOOST_TEST(write(0.0095, 0.01, true).density == 0.01);
  BOOST_TEST(write(0.0085, 0.01, false).density == kLeast);
  BOOST_TEST(!write(0.0085, 0.01, false).skipped);
  const Encoded skipped = write(0.0085, 0.01, true);
  BOOST_TEST(skipped.skipped);
  BOOST_TEST(skipped.payload.empty());
  BOOST_TEST(skipped.drift == 0.0085 / 1.0085, boost::test_tools::tolerance(1e-3));
}

BOOST_AUTO_TEST_CASE(nothing_is_skipped_while_the_other_end_is_far_or_its_buffers_are_not_known) {
  const std::vector<float> initial(10'000, 1.0F);
  EncodeJob job = encode('a', 1, 0);
  job.near_enough = 0.01;
  job.may_skip = true;
  const auto skips = [&](Replica& replica) {
    const auto encoded = std::get<Encoded>(*run(job, replica, {0}));
    if (!encoded.skipped) BOOST_TEST(encoded.density == 1.0 / 10'000);
    return encoded.skipped;
  };
  Replica far(initial, 0.5F);
  Replica other(initial, 0.5F);
  for (float& value : other.trained()) value += 0.05F;
  starling::base::Bytes own;
  starling::base::Bytes theirs;
  BOOST_REQUIRE(far.encode_keyframe(own).has_value());
  BOOST_REQUIRE(other.encode_keyframe(theirs).has_value());
  BOOST_REQUIRE(far.open_merge(peer_named('a'), own, theirs).has_value());
  BOOST_TEST(!skips(far));

  Replica unknown(initial, 0.5F, BufferSpec{{0.0F}, {-1.0F}});
  BOOST_REQUIRE(unknown.open_fresh(peer_named('a')).has_value());
  BOOST_TEST(!skips(unknown));
  Replica near(initial, 0.5F);
  BOOST_REQUIRE(near.open_fresh(peer_named('a')).has_value());
  BOOST_TEST(skips(near));
}

BOOST_AUTO_TEST_CASE(a_batch_of_commits_does_what_they_do_one_by_one) {
  std::vector<float> initial(3000, 0.25F);
  Replica one(initial, 0.5F);
  Replica batch(initial, 0.5F);
  std::vector<Job> jobs;
  for (const char name : {'a', 'b', 'c'}) {
    for (Replica* replica : {&one, &batch}) {
      BOOST_REQUIRE(replica->open_fresh(peer_named(name)).has_value());
    }
  }
  for (Replica* replica : {&one, &batch}) {
    for (std::size_t i = 0; i < initial.size(); ++i) {
      replica->trained()[i] += 0.001F * static_cast<float>(i % 13);
    }
  }
  for (const char name : {'a', 'b', 'c'}) {
    CommitJob job{.peer = peer_named(name), .tag = 1, .exchange = {1}, .w = 0.25F};
    starling::delta::Options options{.density = 0.05};
    BOOST_REQUIRE(one.encode(peer_named(name), options, job.own));
    BOOST_REQUIRE(batch.encode(peer_named(name), options, job.own));
    job.their = job.own;
    if (name == 'b') job.expected_hash = 1;              // wrong
    if (name == 'c') job.their.front() ^= std::byte{1};  // malformed
    jobs.emplace_back(job);
  }
  jobs.emplace_back(encode('a', 2, 0));
  const auto outcomes = run_batch(jobs, batch, {0});
  BOOST_REQUIRE(outcomes.size() == 4U);
  BOOST_TEST((std::get<Committed>(outcomes[0]).result == CommitResult::applied));
  BOOST_TEST((std::get<Committed>(outcomes[1]).result == CommitResult::mismatch));
  BOOST_TEST((std::get<Committed>(outcomes[2]).result == CommitResult::invalid));
  for (const Job& job : jobs) static_cast<void>(run(job, one, {0}));
  BOOST_TEST(one.mirror_hash(peer_named('a'), MirrorOf::mine) ==
             batch.mirror_hash(peer_named('a'), MirrorOf::mine));
  BOOST_TEST(one.mirror_hash(peer_named('b'), MirrorOf::mine) ==
             batch.mirror_hash(peer_named('b'), MirrorOf::mine));
  BOOST_TEST(std::ranges::equal(one.trained(), batch.trained()));
}

BOOST_AUTO_TEST_SUITE_END()
