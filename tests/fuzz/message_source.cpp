#include "tests/fuzz/message_source.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "base/assert.hpp"
#include "delta/codec.hpp"
#include "delta/dense.hpp"
#include "membership/record.hpp"
#include "membership/simulated_signer.hpp"
#include "wire/frame.hpp"

namespace starling::fuzz {
namespace {

constexpr std::size_t kItemsMax = 4;
constexpr std::size_t kBytesMax = 200;
constexpr std::uint8_t kPlainMax = 200;  ///< numbers up to it are in each byte of an id
/// Strangers always have other numbers than peers with links.
constexpr std::size_t kStrangersFrom = 256;
constexpr std::size_t kPayloadMax = std::size_t{1} << 20;

void sign(wire::MemberRecord& record) {
  membership::SimulatedSigner signer(record.id);
  membership::sign(record, signer);
}

}  // namespace

base::PeerId id_of(std::size_t number) {
  base::PeerId id;
  id.bytes.fill(static_cast<std::uint8_t>(std::min<std::size_t>(number + 1, kPlainMax)));
  if (number + 1 < kPlainMax) return id;
  id.bytes[0] = static_cast<std::uint8_t>(number);
  id.bytes[1] = static_cast<std::uint8_t>(number >> 8);
  return id;
}

std::string address_of(std::size_t number) { return "peer-" + std::to_string(number) + ":1"; }

wire::MemberRecord plain_record(std::size_t number, bool has_replica) {
  wire::MemberRecord record{.id = id_of(number),
                            .name = "peer-" + std::to_string(number),
                            .addresses = {address_of(number)},
                            .incarnation = 1,
                            .has_replica = has_replica};
  sign(record);
  return record;
}

std::optional<wire::Message> over_the_wire(const wire::Message& message) {
  const base::Bytes bytes = wire::encode(message);
  base::ByteView stream(bytes);
  wire::FrameReader reader(kPayloadMax);
  auto frame = reader.read(stream);
  ASSERT(frame.has_value() && frame->has_value() && stream.empty(), "what is written is a frame");
  auto decoded = wire::decode(std::move(**frame));
  return decoded ? std::move(*decoded) : std::nullopt;
}

wire::Message MessageSource::any(Id from) {
  // Where these are not due they are the end of a link.
  constexpr std::array kEnds{&MessageSource::greeting, &MessageSource::refuse,
                             &MessageSource::run_file, &MessageSource::of_exchange};
  constexpr std::array kReach{&MessageSource::dial_back, &MessageSource::dialed_back,
                              &MessageSource::introduce, &MessageSource::circuit};
  constexpr std::array kRing{&MessageSource::reduce, &MessageSource::reduce_received};
  const std::size_t kind = input_.at_most(15);
  if (kind == 15) return one_of(kEnds, from);
  if (kind == 14) return one_of(kRing, from);
  return kind < 7 ? of_membership(from) : one_of(kReach, from);
}

wire::Message MessageSource::of_membership(Id from) {
  constexpr std::array kAll{&MessageSource::neighbour, &MessageSource::gossip,
                            &MessageSource::heartbeat, &MessageSource::reconcile,
                            &MessageSource::bye,       &MessageSource::crowd};
  return one_of(kAll, from);
}

wire::Message MessageSource::of_exchange(Id from) {
  constexpr std::array kAll{&MessageSource::link_open, &MessageSource::keyframe,
                            &MessageSource::delta, &MessageSource::settle};
  return one_of(kAll, from);
}

void MessageSource::note(Id to, const wire::Message& said) {
  Told& told = told_[to];
  if (const auto* delta = std::get_if<wire::Delta>(&said)) told.exchange = delta->exchange;
  if (const auto* open = std::get_if<wire::LinkOpen>(&said)) told.open = *open;
  if (const auto* settle = std::get_if<wire::Settle>(&said)) told.settle = *settle;
  if (const auto* reduce = std::get_if<wire::Reduce>(&said)) told.reduce = *reduce;
  if (const auto* beat = std::get_if<wire::Heartbeat>(&said)) told.beat = *beat;
  if (const auto* ask = std::get_if<wire::DialBack>(&said)) told.nonce = ask->nonce;
  if (const auto* ask = std::get_if<wire::Introduce>(&said)) told.nonce = ask->nonce;
  if (const auto* ask = std::get_if<wire::Circuit>(&said)) told.circuit = ask->number;
}

// Often the answer of a peer that keeps to the protocol, unless that is left out; otherwise
// something else.
std::optional<wire::Message> MessageSource::answer(Id from, const wire::Message& said) {
  if (input_.at_most(3) == 0) return std::nullopt;
  return std::visit([&](const auto& message) { return answer_to(from, message); }, said);
}

std::optional<wire::Message> MessageSource::answer_to(Id, const wire::Delta& said) {
  wire::Delta same = said;
  same.mirror_hash.reset();
  same.settled = input_.flag();
  return same;
}

std::optional<wire::Message> MessageSource::answer_to(Id from, const wire::Introduce& said) {
  if (input_.flag()) return introduce(from);
  wire::Introduce answer = said;
  answer.kind = wire::IntroduceKind::answer;
  answer.passed_on = true;
  answer.observed = "192.0.2.2:8";
  return answer;
}

std::optional<wire::Message> MessageSource::answer_to(Id from, const wire::Circuit& said) {
  if (input_.flag()) return circuit(from);
  return wire::Circuit{.kind = wire::CircuitKind::accept, .number = said.number};
}

std::optional<wire::Message> MessageSource::answer_to(Id from, const wire::ReduceReceived& said) {
  if (input_.rarely()) return reduce_received(from);
  return wire::ReduceReceived{from.prefix(), said.step, 0};
}

std::string MessageSource::address() {
  switch (input_.at_most(7)) {
    case 0: {
      std::string text(base::text_of(input_.take_bytes(input_.at_most(40))));
      std::ranges::replace_if(
          text, [](char c) { return c <= ' ' || c > '~'; }, ':');
      return text;
    }
    case 1:
      return "[2001:db8::" + std::to_string(input_.at_most(9)) + "]:1";
    case 2:
      return "10.0." + std::to_string(input_.at_most(2)) + ".1:1";
    default:
      return address_of(input_.at_most(options_.others));
  }
}

wire::MemberRecord MessageSource::record(std::size_t number) {
  wire::MemberRecord record = plain_record(number, input_.at_most(7) != 7);
  record.incarnation = 1 + input_.number(3);
  record.reach = input_.one_from(wire::Reachability::unknown, wire::Reachability::dials_only);
  record.speed = static_cast<float>(input_.at_most(2));
  if (input_.rarely()) record.speed = std::abs(input_.take<float>());
  if (input_.at_most(7) == 7) {
    record.state = input_.one_from(wire::MemberState::alive, wire::MemberState::left);
  }
  for (std::size_t i = input_.at_most(2); i > 0; --i) record.addresses.push_back(address());
  if (input_.rarely()) record.addresses.clear();
  sign(record);
  if (input_.rarely()) record.signature[0] ^= 1U;
  return record;
}

wire::Hello MessageSource::hello(std::size_t number) {
  wire::Hello hello{.run = kRun, .parameters_hash = kParametersHash, .self = record(number)};
  if (input_.rarely()) hello.run = {};
  if (input_.rarely()) hello.observed = address();
  if (input_.flag()) hello.answers = told_[id_of(number)].nonce;
  hello.heartbeat_ms = 1000;
  if (input_.rarely()) hello.heartbeat_ms = 1 + input_.take<std::uint16_t>() % 60'000U;
  return hello;
}

wire::Message MessageSource::greeting(Id) { return hello(other()); }

wire::Message MessageSource::refuse(Id) {
  constexpr std::array kReasons{wire::RefuseReason::none, wire::RefuseReason::other_run,
                                wire::RefuseReason::fixed_set};
  return wire::Refuse{kReasons[input_.at_most(2)], "no", input_.flag() ? "run.name = x\n" : ""};
}

wire::Message MessageSource::neighbour(Id) {
  return wire::Neighbour{input_.one_from(wire::NeighbourKind::request, wire::NeighbourKind::leave)};
}

wire::Claim MessageSource::claim() {
  return {.subject = prefix(),
          .by = prefix(),
          .incarnation = 1 + input_.number(3),
          .state = input_.one_from(wire::MemberState::suspect, wire::MemberState::dead),
          .reason = input_.one_from(wire::DeathReason::none, wire::DeathReason::left)};
}

wire::Message MessageSource::gossip(Id) {
  wire::Gossip message;
  for (std::size_t i = input_.at_most(kItemsMax); i > 0; --i) {
    message.members.push_back(record(input_.at_most(7) == 7 ? 0 : other()));
  }
  for (std::size_t i = input_.at_most(kItemsMax); i > 0; --i) message.claims.push_back(claim());
  return message;
}

// As many as a message holds: so a few of these reach a peer's limits.
wire::Message MessageSource::crowd(Id from) {
  if (!input_.rarely()) return heartbeat(from);
  wire::Gossip gossip;
  wire::Heartbeat beat{.sequence = 1};
  const bool counters = input_.flag();
  const std::size_t count = counters ? wire::kProgressPerFrame : wire::kMembersPerGossip;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t number = kStrangersFrom + strangers_++;
    if (counters) beat.progress.push_back({.id_prefix = id_of(number).prefix(), .samples = 9});
    if (!counters) gossip.members.push_back(plain_record(number, true));
  }
  if (counters) return beat;
  return gossip;
}

wire::Progress MessageSource::progress(std::uint64_t of) {
  wire::Progress progress{.id_prefix = of,
                          .samples = input_.number(255),
                          .rate = static_cast<float>(input_.at_most(200)),
                          .age_ms = input_.take<std::uint16_t>(),
                          .report = input_.flag()};
  if (input_.rarely()) progress.rate = input_.take<float>();
  if (input_.rarely()) progress.age_ms = input_.take<std::uint32_t>();
  if (progress.report) progress.loss = input_.take<float>();
  if (progress.report) progress.links = static_cast<std::uint32_t>(input_.number(5));
  return progress;
}

wire::Message MessageSource::heartbeat(Id from) {
  const wire::Heartbeat& heard = told_[from].beat;
  wire::Heartbeat message{.sequence = static_cast<std::uint32_t>(input_.number(9)),
                          .echo = heard.sequence + input_.take<std::uint8_t>() / 200U,
                          .echo_age_us = 0,
                          .table_hash = heard.table_hash + input_.at_most(1),
                          .progress = {}};
  if (input_.rarely()) message.echo_age_us = input_.take<std::uint32_t>();
  if (input_.flag()) message.progress.push_back(progress(from.prefix()));
  for (std::size_t i = input_.at_most(kItemsMax); i > 1; --i) {
    message.progress.push_back(progress(prefix()));
  }
  return message;
}

wire::Message MessageSource::reconcile(Id) {
  wire::Reconcile message{.bits = static_cast<std::uint8_t>(input_.at_most(wire::kBucketBitsMax)),
                          .hashes = {},
                          .buckets = {},
                          .entries = {},
                          .wanted = {}};
  const std::size_t buckets = std::size_t{1} << message.bits;
  if (input_.flag()) message.hashes.assign(buckets, input_.at_most(1));
  for (std::size_t i = input_.at_most(kItemsMax); i > 0; --i) {
    message.buckets.push_back(static_cast<std::uint16_t>(input_.at_most(buckets - 1)));
    message.entries.push_back({prefix(), input_.number(99)});
    message.wanted.push_back(input_.rarely() ? input_.take<std::uint64_t>() : prefix());
  }
  return message;
}

wire::Message MessageSource::bye(Id from) {
  if (input_.at_most(3) != 0) return neighbour(from);  // it is the end of a link
  return wire::Bye{input_.one_from(wire::ByeReason::none, wire::ByeReason::replaced), "bye"};
}

wire::Message MessageSource::link_open(Id from) {
  const wire::LinkOpen& heard = told_[from].open;
  wire::LinkOpen open{.nonce = input_.number(3),
                      .samples = input_.number(255),
                      .progress = 0,
                      .may_adopt = input_.flag()};
  if (input_.flag()) open.progress = static_cast<double>(input_.at_most(20)) / 20;
  if (input_.at_most(3) == 3) return open;
  open.session = heard.session;
  open.committed = {heard.committed.value + input_.at_most(2)};
  if (input_.rarely()) open.committed = {input_.take<std::uint64_t>()};
  return open;
}

base::Bytes MessageSource::some_bytes() {
  const base::ByteView bytes = input_.take_bytes(input_.at_most(kBytesMax));
  return {bytes.begin(), bytes.end()};
}

base::Bytes MessageSource::sparse_payload() {
  if (input_.at_most(7) == 7) return some_bytes();
  constexpr std::array kBits{1, 2, 3, 4, 8};
  const std::vector<float> zero(options_.elements, 0.0F);
  std::vector<float> values = zero;
  for (float& value : values) value = static_cast<float>(input_.at_most(9)) - 4.5F;
  if (input_.rarely()) values[0] = input_.take<float>();
  const delta::Options options{
      .density = 0.5, .bits = kBits[input_.at_most(kBits.size() - 1)], .block = 16};
  base::Bytes payload;
  delta::HostDelta coded;
  const delta::Difference difference{.base = values, .offset = {}, .mirror = zero};
  static_cast<void>(delta::encode(difference, options, payload, coded));
  return payload;
}

base::Bytes MessageSource::dense_payload() {
  if (input_.at_most(7) == 7) return some_bytes();
  const std::vector<float> zero(options_.elements, 0.0F);
  const std::vector<float> values(options_.elements, static_cast<float>(input_.at_most(9)));
  base::Bytes payload;
  static_cast<void>(delta::encode_dense({.base = values, .offset = {}, .mirror = zero}, payload));
  return payload;
}

base::Bytes MessageSource::buffers() {
  if (input_.rarely()) return some_bytes();
  const std::vector<float> values(options_.buffers, static_cast<float>(input_.at_most(3)) - 1);
  const base::ByteView bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

wire::Message MessageSource::keyframe(Id) {
  return wire::Keyframe{
      .samples = input_.number(255), .payload = dense_payload(), .buffers = buffers()};
}

wire::Message MessageSource::delta(Id from) {
  wire::Delta delta{.exchange = told_[from].exchange,
                    .samples = input_.number(255),
                    .mirror_hash = {},
                    .degree = static_cast<std::uint16_t>(1 + input_.at_most(63)),
                    .settled = input_.flag(),
                    .payload = {}};
  if (input_.at_most(7) == 7) delta.exchange = {input_.number(4)};
  if (input_.at_most(7) == 7) delta.mirror_hash = input_.take<std::uint64_t>();
  if (input_.at_most(3) == 3) delta.bandwidth = input_.take<float>();
  if (input_.at_most(3) == 3) delta.buffers = buffers();
  if (input_.at_most(3) == 3) delta.weight = weight();
  if (input_.at_most(3) == 3) delta.believed = weight();
  if (input_.at_most(3) == 3) {
    delta.turn = input_.one_from(wire::Turn::average, wire::Turn::down);
    delta.gathered = static_cast<float>(input_.at_most(255));
  }
  delta.payload = input_.at_most(7) == 7 ? dense_payload() : sparse_payload();
  return delta;
}

std::int8_t MessageSource::weight() {
  const auto above = input_.at_most(wire::kWeightMax - wire::kNoWeight);
  return static_cast<std::int8_t>(wire::kNoWeight + static_cast<int>(above));
}

// Mostly of the same tree, on one side of the other end or the other.
wire::Message MessageSource::settle(Id from) {
  const wire::Settle& heard = told_[from].settle;
  return wire::Settle{.root = input_.at_most(3) == 3 ? input_.number(7) : heard.root,
                      .child = input_.flag(),
                      .ready = input_.flag(),
                      .begun = input_.flag(),
                      .off = input_.at_most(15) == 15,
                      .apart = input_.at_most(15) == 15,
                      .follows = input_.at_most(15) == 15,
                      .beat = static_cast<std::uint32_t>(input_.at_most(3))};
}

// In a ring of two, a piece fits the sent one if it is of the other part.
wire::Message MessageSource::reduce(Id from) {
  wire::Reduce reduce = told_[from].reduce;
  constexpr std::size_t kWishes = 2;  // elements that a seat in a ring adds
  const std::size_t part = (options_.elements + options_.buffers + kWishes) / options_.ring;
  if (reduce.phase == wire::ReducePhase::none || input_.at_most(3) == 3) {
    reduce.step = {1 + input_.number(3)};
    reduce.phase = input_.one_from(wire::ReducePhase::scatter, wire::ReducePhase::gather);
    reduce.hop = static_cast<std::uint16_t>(input_.at_most(2));
  }
  reduce.chunk = static_cast<std::uint16_t>(input_.at_most(options_.ring - 1));
  const std::vector<float> values(part + input_.at_most(9) / 8, input_.flag() ? 1.0F : 0.0F);
  const base::ByteView bytes = std::as_bytes(std::span(values));
  reduce.payload.assign(bytes.begin(), bytes.end());
  if (input_.rarely()) reduce.payload = some_bytes();
  if (input_.rarely()) reduce.bucket = static_cast<std::uint32_t>(input_.number(3));
  return reduce;
}

wire::Message MessageSource::reduce_received(Id from) {
  return wire::ReduceReceived{.life = from.prefix() + (input_.rarely() ? 1 : 0),
                              .step = {1 + input_.number(3)},
                              .pieces = input_.number(3)};
}

wire::Message MessageSource::run_file(Id) {
  if (input_.flag()) return wire::RunFileRequest{};
  return wire::RunFileReply{std::string(base::text_of(some_bytes()))};
}

wire::Message MessageSource::dial_back(Id) {
  return wire::DialBack{input_.number(3), static_cast<std::uint16_t>(1 + input_.at_most(3))};
}

wire::Message MessageSource::dialed_back(Id from) {
  return wire::DialedBack{
      .nonce = input_.rarely() ? input_.at_most(3) : told_[from].nonce,
      .outcome = input_.one_from(wire::DialBackOutcome::reached, wire::DialBackOutcome::busy),
      .observed = address()};
}

wire::Message MessageSource::introduce(Id from) {
  return wire::Introduce{
      .kind = input_.one_from(wire::IntroduceKind::ask, wire::IntroduceKind::absent),
      .passed_on = input_.flag(),
      .nonce = input_.flag() ? input_.at_most(3) : told_[from].nonce,
      .other = id_of(input_.at_most(options_.others)),
      .observed = input_.flag() ? address() : "192.0.2.2:8",
      .load = input_.take<std::uint8_t>()};
}

wire::Message MessageSource::circuit(Id from) {
  return wire::Circuit{
      .kind = input_.one_from(wire::CircuitKind::ask, wire::CircuitKind::refuse),
      .number = input_.flag() ? static_cast<std::uint32_t>(input_.at_most(3)) : told_[from].circuit,
      .other = id_of(input_.at_most(options_.others)),
      .reason = input_.one_from(wire::CircuitRefusal::none, wire::CircuitRefusal::unwanted)};
}

}  // namespace starling::fuzz
