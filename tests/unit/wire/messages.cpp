#include "wire/messages.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "frame_of.hpp"
#include "wire/delta_head.hpp"
#include "wire/progress.hpp"

namespace wire = starling::wire;
namespace base = starling::base;
using starling::wire::frame_of;

namespace {

template <class T>
T round_trip(const T& message) {
  auto decoded = wire::decode(frame_of(wire::encode(message)));
  BOOST_REQUIRE(decoded.has_value());
  BOOST_REQUIRE(decoded->has_value());
  BOOST_REQUIRE(std::holds_alternative<T>(**decoded));
  return std::get<T>(std::move(**decoded));
}

wire::MemberRecord some_member() {
  wire::MemberRecord member{.name = "alpha",
                            .addresses = {"10.0.0.1:4000", "example.org:4000"},
                            .incarnation = 5,
                            .state = wire::MemberState::suspect,
                            .speed = 2.5F,
                            .weight = -3,
                            .batch = 16,
                            .lr = 0.1F};
  for (std::size_t i = 0; i < 32; ++i) member.id.bytes[i] = static_cast<std::uint8_t>(i);
  return member;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(messages)

BOOST_AUTO_TEST_CASE(a_gossip_message_holds_its_bound_of_records) {
  wire::Gossip gossip;
  gossip.members.assign(wire::kMembersPerGossip, some_member());
  BOOST_TEST((round_trip(gossip).members == gossip.members));
}

BOOST_AUTO_TEST_CASE(addresses_are_visible_ascii) {
  for (const std::string address : {"10.0.0.1:1\n", "a b:1", "\xff\xfe:1", "\x7f:1"}) {
    wire::Gossip gossip{.members = {some_member()}};
    BOOST_TEST(wire::decode(frame_of(wire::encode(gossip))).has_value());
    gossip.members[0].addresses[1] = address;
    const auto decoded = wire::decode(frame_of(wire::encode(gossip)));
    BOOST_REQUIRE(!decoded.has_value());
    BOOST_TEST(decoded.error().text.find("not visible ASCII") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(speeds_are_numbers_from_0_to_their_bound) {
  wire::Gossip gossip{.members = {some_member()}};
  for (const float speed : {0.0F, 1e-6F, wire::kSpeedMax}) {
    gossip.members[0].speed = speed;
    BOOST_TEST((round_trip(gossip).members == gossip.members));
  }
  for (const float speed : {-1.0F, 2 * wire::kSpeedMax, std::nanf(""), HUGE_VALF}) {
    gossip.members[0].speed = speed;
    BOOST_TEST(!wire::decode(frame_of(wire::encode(gossip))).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_bandwidth_is_finite_and_not_negative) {
  const auto back = round_trip(wire::Delta{.exchange = {1}, .bandwidth = 125e3F});
  BOOST_TEST(back.bandwidth == 125e3F, boost::test_tools::tolerance(1e-2F));  // as bfloat16
  for (const float bad : {-1.0F, std::nanf(""), HUGE_VALF}) {
    const wire::Delta bandwidth{.exchange = {1}, .bandwidth = bad};
    BOOST_TEST(!wire::decode(frame_of(wire::encode(bandwidth))).has_value());
  }
}

BOOST_AUTO_TEST_CASE(buffers_travel_behind_the_payload) {
  const base::Bytes payload(1001, std::byte{5});
  const base::Bytes buffers(1376 * 4, std::byte{6});
  const auto delta =
      round_trip(wire::Delta{.exchange = {12}, .payload = payload, .buffers = buffers});
  BOOST_TEST((delta.payload == payload));
  BOOST_TEST((delta.buffers == buffers));
  const auto keyframe = round_trip(wire::Keyframe{5, payload, buffers});
  BOOST_TEST((keyframe.payload == payload));
  BOOST_TEST((keyframe.buffers == buffers));
  const auto alone = round_trip(wire::Keyframe{5, {}, buffers});
  BOOST_TEST(alone.payload.empty());
  BOOST_TEST((alone.buffers == buffers));
}

BOOST_AUTO_TEST_CASE(buffers_that_the_payload_does_not_hold_are_refused) {
  const auto cut = [](wire::Message message, std::size_t payload) {
    wire::Frame frame = frame_of(wire::encode(message));
    frame.bytes.resize(frame.metadata_size + payload);
    return wire::decode(std::move(frame)).has_value();
  };
  const wire::Delta delta{.exchange = {1}, .buffers = base::Bytes(8)};
  const wire::Keyframe keyframe{1, {}, base::Bytes(8)};
  BOOST_TEST(cut(delta, 8));
  BOOST_TEST(!cut(delta, 7));
  BOOST_TEST(!cut(delta, 0));
  BOOST_TEST(cut(keyframe, 8));
  BOOST_TEST(!cut(keyframe, 4));
  const wire::Delta odd{.exchange = {1}, .buffers = base::Bytes(7)};
  BOOST_TEST(!wire::decode(frame_of(wire::encode(odd))).has_value());
}

// The bytes between peers of this major version may not change.
BOOST_AUTO_TEST_CASE(frames_of_this_version_keep_their_bytes) {
  const wire::Delta delta{.exchange = {300},
                          .samples = 640,
                          .mirror_hash = 99,
                          .degree = 3,
                          .weight = -2,
                          .settled = true,
                          .payload = base::Bytes(100, std::byte{5}),
                          .buffers = base::Bytes(8, std::byte{6}),
                          .bandwidth = 1024.0F};
  BOOST_TEST(base::xxh3(base::ByteView(wire::encode(delta))) == 0xef06da850fcc47b0U);
  const wire::Keyframe keyframe{77, base::Bytes(100, std::byte{5})};
  BOOST_TEST(base::xxh3(base::ByteView(wire::encode(keyframe))) == 0x2d45d77c17247e7cU);
}

BOOST_AUTO_TEST_CASE(overhead_of_a_delta_frame_is_small) {
  const wire::Delta delta{.exchange = {100'000},
                          .samples = 100'000'000,
                          .degree = 4,
                          .payload = base::Bytes(64),
                          .bandwidth = 1e6F};
  BOOST_TEST(wire::encode(delta).size() - 64 == 32U);
}

BOOST_AUTO_TEST_CASE(a_delta_s_head_is_refused_where_it_is_cut_or_longer_than_it_says) {
  const wire::Delta delta{.exchange = {300},
                          .samples = 640,
                          .mirror_hash = 99,
                          .degree = 3,
                          .buffers = base::Bytes(8),
                          .bandwidth = 1024.0F};
  std::vector<std::uint8_t> head = wire::pack_head(delta);
  for (std::size_t size = 0; size < head.size(); ++size) {
    BOOST_TEST(!wire::unpack_head(std::span(head).first(size)).has_value());
  }
  for (int zeros = 0; zeros < 8; ++zeros) {
    const auto unpacked = wire::unpack_head(head);
    BOOST_REQUIRE(unpacked.has_value());
    BOOST_TEST((unpacked->delta.exchange == delta.exchange));
    BOOST_TEST(unpacked->buffer_bytes == 8U);
    head.push_back(0);
  }
  BOOST_TEST(!wire::unpack_head(head).has_value());  // frames pad by 7 bytes at most
  head.resize(wire::pack_head(delta).size());
  head.push_back(1);
  BOOST_TEST(!wire::unpack_head(head).has_value());
}

BOOST_AUTO_TEST_CASE(a_delta_s_degree_is_1_to_its_bound_and_its_parts_are_known) {
  for (const std::uint16_t degree : {0, 65, 255}) {
    const wire::Delta delta{.exchange = {1}, .degree = degree};
    BOOST_TEST(!wire::decode(frame_of(wire::encode(delta))).has_value());
  }
  BOOST_TEST(round_trip(wire::Delta{.exchange = {1}, .degree = wire::kDeltaDegreeMax}).degree ==
             64);
  std::vector<std::uint8_t> head = wire::pack_head(wire::Delta{.exchange = {1}});
  head[0] |= 0x80;
  BOOST_TEST(!wire::unpack_head(head).has_value());
}

BOOST_AUTO_TEST_CASE(run_files_are_asked_for_and_handed_out) {
  static_cast<void>(round_trip(wire::RunFileRequest{}));
  for (const std::size_t size : {std::size_t{0}, wire::kRunFileTextMax}) {
    const std::string text(size, '#');
    BOOST_TEST((round_trip(wire::RunFileReply{text}).text == text));
  }
  // A longer one: the metadata ends with the text.
  const auto longest =
      frame_of(wire::encode(wire::RunFileReply{std::string(wire::kRunFileTextMax, '#')}));
  base::Bytes metadata(longest.metadata().begin(), longest.metadata().end());
  metadata.resize(metadata.size() + 16);
  const auto size = static_cast<std::uint32_t>(wire::kRunFileTextMax);
  const base::ByteView bytes_of_size = std::as_bytes(std::span(&size, 1));
  const auto found = std::ranges::search(metadata, bytes_of_size).begin();
  BOOST_REQUIRE((found != metadata.end()));
  const std::uint32_t larger = size + 8;
  std::ranges::copy(std::as_bytes(std::span(&larger, 1)), found);
  const auto decoded =
      wire::decode(frame_of(wire::make_frame(wire::FrameType::run_file_reply, metadata, {})));
  BOOST_REQUIRE(!decoded);
  BOOST_TEST(decoded.error().text.find("text has over") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(reasons_of_earlier_versions_are_not_known) {
  for (const int unknown : {2, 3, 5}) {
    const wire::Refuse refuse{static_cast<wire::RefuseReason>(unknown), "why", ""};
    BOOST_TEST(!wire::decode(frame_of(wire::encode(refuse))).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_progress_entry_without_a_report_is_short) {
  wire::Heartbeat heartbeat;
  heartbeat.progress.push_back({.id_prefix = ~std::uint64_t{0},
                                .samples = std::uint64_t{1} << 50,
                                .rate = 1024,
                                .age_ms = 12'345,
                                .report = false,
                                .links = 3});
  const auto entry = round_trip(heartbeat).progress.at(0);
  BOOST_TEST(entry.age_ms == 12'300U);  // in steps of 50 ms
  BOOST_TEST(!entry.report);
  BOOST_TEST(entry.links == 0U);
  BOOST_TEST(std::isnan(entry.loss));
}

BOOST_AUTO_TEST_CASE(a_heartbeat_is_small) {
  wire::Heartbeat heartbeat{.sequence = 9, .echo = 8, .echo_age_us = 7, .table_hash = 6};
  const std::size_t bare = wire::encode(heartbeat).size();
  BOOST_TEST(bare <= 76U);
  for (std::uint64_t i = 0; i < 100; ++i) {
    heartbeat.progress.push_back({.id_prefix = ~i, .samples = 1'000'000, .report = false});
  }
  BOOST_TEST(wire::encode(heartbeat).size() <= bare + 8 + 100 * 16);
}

BOOST_AUTO_TEST_CASE(packed_progress_is_refused_where_it_is_cut_or_absurd) {
  const std::vector<wire::Progress> entries = {
      {.id_prefix = 1, .samples = 300, .links = 2, .voucher = wire::Voucher{.limit = 400}}};
  const std::vector<std::uint8_t> packed = wire::pack_progress(entries);
  for (std::size_t size = 1; size < packed.size(); ++size) {
    BOOST_TEST(!wire::unpack_progress(std::span(packed).first(size)).has_value());
  }
  for (const float rate :
       {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const std::vector<wire::Progress> absurd = {{.id_prefix = 1, .rate = rate}};
    BOOST_TEST(!wire::unpack_progress(wire::pack_progress(absurd)).has_value());
  }
  for (const std::uint8_t unknown : {4, 7, 128}) {
    std::vector<std::uint8_t> later = packed;
    later[8] = unknown;  // parts of an entry that this version does not know
    BOOST_TEST(!wire::unpack_progress(later).has_value());
  }
  const std::vector<std::uint8_t> bare =
      wire::pack_progress(std::vector<wire::Progress>{{.id_prefix = 1, .samples = 300}});
  const auto repeated = [](const std::vector<std::uint8_t>& entry, std::size_t times) {
    std::vector<std::uint8_t> many;
    for (std::size_t i = 0; i < times; ++i) many.insert(many.end(), entry.begin(), entry.end());
    return wire::unpack_progress(many).has_value();
  };
  BOOST_TEST(repeated(bare, wire::kProgressPerFrame));
  BOOST_TEST(!repeated(bare, wire::kProgressPerFrame + 1));
  BOOST_TEST(repeated(packed, wire::kVouchersPerFrame));
  BOOST_TEST(!repeated(packed, wire::kVouchersPerFrame + 1));
}

BOOST_AUTO_TEST_CASE(unknown_type_is_skipped) {
  const auto bytes = wire::make_frame(static_cast<wire::FrameType>(200), {}, base::Bytes(10));
  const auto decoded = wire::decode(frame_of(bytes));
  BOOST_REQUIRE(decoded.has_value());
  BOOST_TEST(!decoded->has_value());
}

BOOST_AUTO_TEST_CASE(what_is_said_of_reach_has_no_port_0_and_no_address_of_any_length) {
  const auto refused = [](const wire::Message& message) {
    return !wire::decode(frame_of(wire::encode(message))).has_value();
  };
  BOOST_TEST(refused(wire::DialBack{7, 0}));
  BOOST_TEST(refused(wire::DialedBack{7, wire::DialBackOutcome::none, ""}));
  const std::string_view odd[] = {"has blank:1", "\x7f:1"};
  for (const std::string_view address : odd) {
    BOOST_TEST(refused(wire::DialedBack{7, wire::DialBackOutcome::busy, std::string(address)}));
    BOOST_TEST(refused(wire::Hello{.self = some_member(), .observed = std::string(address)}));
  }
  const std::string longest(wire::kAddressMax, 'a');
  const auto introduce = [](std::string observed) {
    return wire::Introduce{.kind = wire::IntroduceKind::ask, .observed = std::move(observed)};
  };
  BOOST_TEST(!refused(introduce(longest)));
  BOOST_TEST(refused(introduce(longest + "a")));
  BOOST_TEST(!refused(wire::Hello{.self = some_member(), .observed = longest}));
  BOOST_TEST(refused(wire::Hello{.self = some_member(), .observed = longest + "a"}));
  BOOST_TEST(refused(wire::Hello{.self = some_member(), .heartbeat_ms = 0}));
  BOOST_TEST(
      refused(wire::Hello{.self = some_member(), .heartbeat_ms = wire::kHeartbeatMsMax + 1}));
  BOOST_TEST(refused(wire::Introduce{}));
  BOOST_TEST(refused(wire::Circuit{}));
}

BOOST_AUTO_TEST_CASE(random_metadata_never_passes_for_more_than_it_is) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    base::Rng rng(seed);
    base::Bytes metadata(8 * rng.below(20));
    for (auto& byte : metadata) byte = static_cast<std::byte>(rng.below(3) == 0 ? rng() : 0);
    const auto type = static_cast<wire::FrameType>(1 + rng.below(23));
    const auto decoded = wire::decode(frame_of(wire::make_frame(type, metadata, {})));
    BOOST_TEST_CONTEXT("seed " << seed) {
      if (!decoded) BOOST_TEST((decoded.error().code == base::ErrorCode::protocol));
    }
  }
}

/// One of each type, with something in every part.
std::vector<wire::Message> one_of_each() {
  wire::Heartbeat heartbeat{.sequence = 9, .echo = 8, .echo_age_us = 7, .table_hash = 6};
  heartbeat.progress.push_back({.id_prefix = 1, .samples = 200, .loss = 0.5F, .links = 3});
  heartbeat.progress.push_back({.id_prefix = 2, .samples = 300, .report = false});
  wire::Gossip gossip{.members = {some_member(), some_member()}};
  gossip.claims.push_back({.subject = 1,
                           .by = 2,
                           .incarnation = 3,
                           .state = wire::MemberState::dead,
                           .reason = wire::DeathReason::silent});
  return {wire::Hello{.run = base::xxh3_128("run"),
                      .parameters_hash = 7,
                      .self = some_member(),
                      .observed = "1.2.3.4:5"},
          wire::Refuse{wire::RefuseReason::other_run, "why", "a = 1\n"},
          wire::Neighbour{wire::NeighbourKind::urgent_request},
          std::move(gossip),
          std::move(heartbeat),
          wire::LinkOpen{.nonce = 1, .samples = 2, .progress = 0.5, .session = 3},
          wire::Keyframe{5, base::Bytes(3)},
          wire::Delta{.exchange = {3}, .samples = 9, .degree = 2, .payload = base::Bytes(12)},
          wire::Reduce{.step = {6}, .samples = 1, .hop = 2, .payload = base::Bytes(8)},
          wire::Bye{wire::ByeReason::left, "bye"},
          wire::Reconcile{
              .bits = 1, .hashes = {4, 5}, .buckets = {1}, .entries = {{6, 7}}, .wanted = {8}},
          wire::RunFileRequest{},
          wire::RunFileReply{"[run]\n"},
          wire::ReduceReceived{.life = 7, .step = {8}, .pieces = 9},
          wire::DialBack{7, 7000},
          wire::DialedBack{7, wire::DialBackOutcome::reached, "1.2.3.4:5"},
          wire::Introduce{.kind = wire::IntroduceKind::answer,
                          .passed_on = true,
                          .nonce = 7,
                          .other = some_member().id,
                          .observed = "1.2.3.4:5",
                          .load = 9},
          wire::Circuit{.kind = wire::CircuitKind::offer, .number = 7, .other = some_member().id}};
}

// FlatBuffers' verifier lets it pass, and to read it in place is undefined.
BOOST_AUTO_TEST_CASE(a_vector_of_64_bit_numbers_may_lie_across_words) {
  // The root table, whose only field is `hashes`, and that vector of one number, `gap` words later.
  const auto decoded = [](std::uint32_t gap) {
    std::vector<std::uint32_t> words{12};                         // the root lies at 12
    words.insert(words.end(), {8U | 8U << 16U, 0U | 4U << 16U});  // sizes; offsets of the fields
    words.insert(words.end(), {8, 4 + 4 * gap});                  // to the sizes; to the vector
    words.insert(words.end(), gap, 0);
    words.insert(words.end(), {1, 5, 0});  // one number: 5
    return wire::decode(frame_of(
        wire::make_frame(wire::FrameType::reconcile, std::as_bytes(std::span(words)), {})));
  };
  for (const std::uint32_t gap : {0U, 1U}) {
    const auto message = decoded(gap);
    BOOST_REQUIRE(message.has_value());
    BOOST_TEST(std::get<wire::Reconcile>(**message).hashes == std::vector<std::uint64_t>{5});
  }
}

// Every accepted message could have been sent.
BOOST_AUTO_TEST_CASE(mutated_messages_are_refused_or_could_have_been_sent) {
  for (const wire::Message& message : one_of_each()) {
    const wire::Frame frame = frame_of(wire::encode(message));
    const auto type = static_cast<wire::FrameType>(frame.type);
    for (std::uint64_t seed = 0; seed < 500; ++seed) {
      base::Rng rng(seed);
      base::Bytes metadata(frame.metadata().begin(), frame.metadata().end());
      if (metadata.empty()) break;
      metadata[rng.below(metadata.size())] = static_cast<std::byte>(rng());
      const auto decoded =
          wire::decode(frame_of(wire::make_frame(type, metadata, frame.payload())));
      if (!decoded || !decoded->has_value()) continue;
      BOOST_TEST_CONTEXT("type " << int{frame.type} << " seed " << seed) {
        BOOST_TEST(wire::decode(frame_of(wire::encode(**decoded))).has_value());
        if (const auto* gossip = std::get_if<wire::Gossip>(&**decoded)) {
          BOOST_TEST(gossip->members.size() <= wire::kMembersPerGossip);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
