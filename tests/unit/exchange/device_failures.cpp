// A device that has too little memory, or fails: what ends a link, and what ends the peer.
#include <memory>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "replica_pair.hpp"
#include "transcript.hpp"

using namespace starling;
using namespace starling::exchange;
using namespace starling::exchange::test;
using starling::base::ErrorCode;

namespace {

constexpr std::size_t kN = 1000;

base::Status failed(ErrorCode code) { return base::fail(code, "as the test has it"); }

Transcript with_broken_link(char name) {
  Transcript peer(plain_options());
  peer.open_fresh(name);
  peer.encoded();
  peer.down(name);
  return peer;
}

/// A device's memory like the processor's, except for the operations that fail.
class Device final : public delta::ReplicaMemory {
 public:
  explicit Device(std::size_t n) : memory_(base::LargeFloats(n), MirrorType::float32) {}

  base::Status mirrors;     ///< result of adding a mirror
  base::Status copies;      ///< result of copying a mirror from there
  base::Status hashes;      ///< result of hashing a mirror
  base::Status distances;   ///< result of measuring a distance
  base::Status deltas;      ///< result of decoding a delta
  base::Status committing;  ///< result of reserving memory for a commit
  base::Status commits;     ///< result of a commit

  std::size_t size() const noexcept override { return memory_.size(); }
  MirrorType mirror_type() const noexcept override { return memory_.mirror_type(); }
  base::Status read(std::span<float> x) override { return memory_.read(x); }
  base::Status write(std::span<const float> values) override { return memory_.write(values); }
  base::Status release() override { return memory_.release(); }
  base::Result<MirrorId> add_mirror(base::LargeFloats values) override {
    if (!mirrors) return base::fail(mirrors.error());
    return memory_.add_mirror(std::move(values));
  }
  void free_mirror(MirrorId mirror) override { memory_.free_mirror(mirror); }
  base::Result<base::LargeFloats> mirror(MirrorId mirror) override {
    if (!copies) return base::fail(copies.error());
    return memory_.mirror(mirror);
  }
  base::Result<std::uint64_t> hash(MirrorId mirror) override {
    if (!hashes) return base::fail(hashes.error());
    return memory_.hash(mirror);
  }
  base::Status values_at(MirrorId mirror, const delta::Delta& elements,
                         std::vector<float>& values) override {
    return memory_.values_at(mirror, elements, values);
  }
  std::unique_ptr<delta::Delta> make_delta() override { return memory_.make_delta(); }
  delta::DeltaSource& difference(MirrorId mirror, const std::optional<HoldBack>& hold) override {
    return memory_.difference(mirror, hold);
  }
  base::Result<bool> decode(const delta::CodedDelta& coded, delta::Delta& into) override {
    if (!deltas) return base::fail(deltas.error());
    return memory_.decode(coded, into);
  }
  base::Result<delta::Squares> squares(MirrorId mirror, std::size_t first,
                                       std::size_t every) override {
    if (!distances) return base::fail(distances.error());
    return memory_.squares(mirror, first, every);
  }
  base::Status reserve_commit(const CommitStep&) override { return committing; }
  base::Status commit(std::span<const CommitStep> steps) override {
    return commits ? memory_.commit(steps) : commits;
  }

 private:
  delta::HostMemory memory_;
};

/// A replica there.
struct There {
  explicit There(float lambda = 0.5F, Averaging averaging = {})
      : device(kN), replica(std::vector<float>(kN, 0.5F), lambda, {}, averaging) {
    replica.move_to(device);
  }

  Device device;
  Replica replica;
};

OpenJob open_job(char name) { return {.peer = peer_named(name), .tag = 1}; }

EncodeJob encode_job(char name) {
  return {.peer = peer_named(name), .tag = 2, .exchange = {1}, .options = {.density = 0.05}};
}

/// A delta that somebody else could have written.
base::Bytes sound_delta() {
  Replica other(std::vector<float>(kN, 0.5F), 0.5F);
  BOOST_REQUIRE(other.open_fresh(peer(9)).has_value());
  for (float& value : other.trained()) value += 1.0F;
  base::Bytes bytes;
  encode(other, peer(9), {.density = 0.05}, bytes);
  return bytes;
}

CommitJob commit_job(char name, base::Bytes own, base::Bytes their) {
  CommitJob job{.peer = peer_named(name), .tag = 3, .exchange = {1}, .w = 0.5F};
  job.own = std::move(own);
  job.their = std::move(their);
  return job;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(device_failures)

BOOST_AUTO_TEST_CASE(only_what_the_other_end_sent_is_held_against_it) {
  for (const ErrorCode own : {ErrorCode::device, ErrorCode::internal, ErrorCode::diverged}) {
    Transcript opening(plain_options());
    opening.up('a');
    opening.link_open('a', {.nonce = 7});
    TEST_LINES(opening.opened(failed(own)), "failed");
    BOOST_TEST((std::get<Failed>(opening.last[0]).error.code == own));
    Transcript committing(plain_options());
    committing.open_fresh('a');
    committing.encoded();
    committing.delta('a', 1);
    TEST_LINES(committing.committed(CommitResult::failed, own), "failed");
    BOOST_TEST((std::get<Failed>(committing.last[0]).error.code == own));
  }
}

BOOST_AUTO_TEST_CASE(a_link_without_room_is_refused_and_the_others_go_on) {
  Transcript opening(plain_options());
  opening.open_fresh('b');
  opening.up('a');
  opening.link_open('a', {.nonce = 7});
  TEST_LINES(opening.opened(failed(ErrorCode::no_room)), "a: run close", "a: no room");
  Transcript committing(plain_options());
  committing.open_fresh('a');
  committing.encoded();
  committing.delta('a', 1);
  TEST_LINES(committing.committed(CommitResult::failed, ErrorCode::no_room), "a: run close",
             "a: no room");
  Transcript encoding(plain_options());
  encoding.open_fresh('a');
  TEST_LINES(encoding.encoded(0.1, failed(ErrorCode::no_room)), "a: run close", "a: no room");
  TEST_LINES(encoding.up('a'), "a: link open, may adopt");  // once it is there again
}

BOOST_AUTO_TEST_CASE(a_link_in_grace_makes_room_for_one_that_is_there) {
  Transcript peer = with_broken_link('b');
  peer.up('a');
  peer.link_open('a', {.nonce = 7});
  const JobTag tag = peer.open->tag;
  TEST_LINES(peer.opened(failed(ErrorCode::no_room)), "b: run close", "a: run open fresh");
  BOOST_TEST(peer.open->tag != tag);
  TEST_LINES(peer.opened(), "a: run encode 1 at 0");
  Transcript encoding = with_broken_link('b');
  encoding.open_fresh('a');
  TEST_LINES(encoding.encoded(0.1, failed(ErrorCode::no_room)), "b: run close",
             "a: run encode 1 at 0");
  TEST_LINES(encoding.encoded(), "a: delta 1 of 1");
}

// The delta of the next exchange may have been written, from mirrors that the commit did not move.
BOOST_AUTO_TEST_CASE(a_link_in_grace_makes_room_for_a_commit_and_the_next_delta_is_written_anew) {
  Transcript peer = with_broken_link('b');
  peer.open_fresh('a');
  peer.encoded();
  peer.delta('a', 1);
  const JobTag commit = peer.commit->tag;
  const EncodeJob too_early = *peer.encode;
  TEST_LINES(peer.committed(CommitResult::failed, ErrorCode::no_room), "b: run close",
             "a: run commit 1 w 0.5", "a: run encode 2 at 2");
  BOOST_TEST(peer.commit->tag != commit);
  TEST_LINES(peer.on(Encoded{
      .peer = too_early.peer, .tag = too_early.tag, .exchange = too_early.exchange, .status = {}}));
  TEST_LINES(peer.committed());
  TEST_LINES(peer.encoded(), "a: delta 2 of 1");
  peer.delta('a', 2);
  TEST_LINES(peer.committed(CommitResult::failed, ErrorCode::no_room), "a: run close",
             "a: no room");
}

BOOST_AUTO_TEST_CASE(a_link_in_grace_whose_own_commit_has_no_room_ends) {
  Transcript peer(plain_options());
  peer.open_fresh('a');
  peer.encoded();
  peer.delta('a', 1);
  peer.down('a');
  TEST_LINES(peer.committed(CommitResult::failed, ErrorCode::no_room), "a: run close");
  BOOST_TEST(peer.core.links().empty());
}

BOOST_AUTO_TEST_CASE(a_link_that_has_no_room_for_its_mirrors_is_not_there) {
  There there;
  there.device.mirrors = failed(ErrorCode::no_room);
  const std::vector<Job> jobs{open_job('a')};
  const auto outcomes = run_batch(jobs, there.replica, {0});
  BOOST_REQUIRE(outcomes.size() == 1U);
  const auto& opened = std::get<Opened>(outcomes[0]);
  BOOST_REQUIRE(!opened.status);
  BOOST_TEST((opened.status.error().code == ErrorCode::no_room));
  BOOST_REQUIRE(opened.again.has_value());
  BOOST_TEST(!there.replica.has(peer_named('a')));
  BOOST_TEST(there.replica.status().has_value());
  there.device.mirrors = {};
  const auto again = run(*opened.again, there.replica, {0});
  BOOST_TEST(std::get<Opened>(*again).status.has_value());
}

BOOST_AUTO_TEST_CASE(no_more_is_asked_of_a_replica_whose_device_has_failed) {
  There there;
  there.device.mirrors = failed(ErrorCode::device);
  const std::vector<Job> jobs{open_job('a'), encode_job('a')};
  const auto outcomes = run_batch(jobs, there.replica, {0});
  BOOST_TEST(outcomes.empty());
  BOOST_TEST((there.replica.status().error().code == ErrorCode::device));
  const std::vector<Job> later{encode_job('a')};
  BOOST_TEST(run_batch(later, there.replica, {0}).empty());
}

BOOST_AUTO_TEST_CASE(a_device_that_fails_ends_an_adoption) {
  base::Bytes keyframe;
  BOOST_REQUIRE(Replica(std::vector<float>(kN, 0.5F), 0.5F).encode_keyframe(keyframe).has_value());
  There there;
  there.device.copies = failed(ErrorCode::device);
  const auto opened = there.replica.open_adopted(peer_named('a'), keyframe, {});
  BOOST_REQUIRE(!opened);
  BOOST_TEST((opened.error().code == ErrorCode::device));
  BOOST_TEST((there.replica.status().error().code == ErrorCode::device));
}

BOOST_AUTO_TEST_CASE(a_momentum_below_the_smallest_float32_is_none) {
  const Config config{.momentum = 1e-50};
  BOOST_TEST(!has_momentum(config));
  BOOST_TEST(make_replica(std::vector<float>(kN, 0.5F), config, {}).size() == kN);
}

// A hash that could not be taken differs from every other, and a distance of 0 looks near.
BOOST_AUTO_TEST_CASE(a_device_that_fails_makes_no_neighbour_look_wrong_or_near) {
  const base::Bytes delta = sound_delta();
  CommitJob commit = commit_job('a', delta, delta);
  EncodeJob settling = encode_job('a');
  settling.near_enough = 0.01;
  for (base::Status Device::*const what : {&Device::hashes, &Device::commits, &Device::distances}) {
    There there;
    BOOST_REQUIRE(there.replica.open_fresh(peer_named('a')).has_value());
    commit.expected_hash = there.replica.mirror_hash(peer_named('a'), MirrorOf::theirs);
    there.device.*what = failed(ErrorCode::device);
    const std::vector<Job> jobs{commit, settling};
    BOOST_TEST(run_batch(jobs, there.replica, {0}).empty());
    BOOST_TEST((there.replica.status().error().code == ErrorCode::device));
  }
}

BOOST_AUTO_TEST_CASE(a_delta_that_there_is_no_room_for_changes_nothing) {
  There there;
  BOOST_REQUIRE(there.replica.open_fresh(peer_named('a')).has_value());
  const base::Bytes delta = sound_delta();
  const std::vector<float> before = x_of(there.replica);
  const auto hash = there.replica.mirror_hash(peer_named('a'), MirrorOf::theirs);
  for (base::Status Device::*const where : {&Device::deltas, &Device::committing}) {
    there.device.*where = failed(ErrorCode::no_room);
    const auto outcome = run(commit_job('a', delta, delta), there.replica, {0});
    there.device.*where = {};
    const auto& committed = std::get<Committed>(*outcome);
    BOOST_TEST((committed.result == CommitResult::failed));
    BOOST_TEST((committed.error.code == ErrorCode::no_room));
    BOOST_TEST(committed.again.has_value());
    BOOST_TEST(there.replica.status().has_value());
    BOOST_TEST(same(x_of(there.replica), before));
    BOOST_TEST(there.replica.mirror_hash(peer_named('a'), MirrorOf::theirs) == hash);
  }
  const auto outcome = run(commit_job('a', delta, delta), there.replica, {0});
  BOOST_TEST((std::get<Committed>(*outcome).result == CommitResult::applied));
}

BOOST_AUTO_TEST_CASE(what_this_end_wrote_itself_is_not_held_against_the_other) {
  Replica replica(std::vector<float>(kN, 0.5F), 0.5F);
  BOOST_REQUIRE(replica.open_fresh(peer_named('a')).has_value());
  const base::Bytes delta = sound_delta();
  base::Bytes bad = delta;
  bad.resize(bad.size() - 1);
  const auto result_of = [&](const base::Bytes& own, const base::Bytes& their) {
    return std::get<Committed>(*run(commit_job('a', own, their), replica, {0}));
  };
  BOOST_TEST((result_of(bad, delta).result == CommitResult::failed));
  BOOST_TEST((result_of(bad, delta).error.code == ErrorCode::internal));
  BOOST_TEST((result_of(delta, bad).result == CommitResult::invalid));
  base::Bytes keyframe;
  BOOST_REQUIRE(replica.encode_keyframe(keyframe).has_value());
  base::Bytes cut = keyframe;
  cut.resize(cut.size() - 1);
  const auto code_of = [&](const base::Status& status) { return status.error().code; };
  BOOST_TEST((code_of(replica.open_merge(peer_named('b'), cut, keyframe)) == ErrorCode::internal));
  BOOST_TEST((code_of(replica.open_merge(peer_named('b'), keyframe, cut)) == ErrorCode::protocol));
  BOOST_TEST((code_of(replica.open_gave(peer_named('b'), cut)) == ErrorCode::internal));
}

BOOST_AUTO_TEST_SUITE_END()
