#include "wire/messages.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include <flatbuffers/flatbuffers.h>

#include "base/assert.hpp"
#include "frames_generated.h"
#include "wire/delta_head.hpp"
#include "wire/progress.hpp"

namespace starling::wire {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// Nesting of our tables is at most 3, members at most kMembersPerGossip with kAddressesMax each.
constexpr std::size_t kDepthMax = 8;
constexpr std::size_t kTablesMax = 256;

template <std::size_t N, class From>
std::array<std::uint8_t, N> array_of(const From& from) {
  std::array<std::uint8_t, N> bytes;
  for (std::size_t i = 0; i < N; ++i) bytes[i] = from.bytes()->Get(static_cast<unsigned>(i));
  return bytes;
}

fb::Id to_fb(const base::PeerId& id) {
  return fb::Id(flatbuffers::span<const std::uint8_t, 32>(id.bytes.data(), id.bytes.size()));
}

fb::Run to_fb(const RunId& run) {
  return fb::Run(flatbuffers::span<const std::uint8_t, 16>(run.bytes.data(), run.bytes.size()));
}

Offset<fb::Member> pack(FlatBufferBuilder& builder, const MemberRecord& member) {
  ASSERT(member.name.size() <= kNameMax && member.addresses.size() <= kAddressesMax);
  const auto name = builder.CreateString(member.name);
  const auto addresses = builder.CreateVectorOfStrings(member.addresses);
  const fb::Id id = to_fb(member.id);
  const fb::Key key(flatbuffers::span<const std::uint8_t, 32>(member.key.data(), 32));
  const fb::Signature signature(
      flatbuffers::span<const std::uint8_t, 64>(member.signature.data(), 64));
  return fb::CreateMember(builder, &id, name, addresses, member.incarnation,
                          static_cast<fb::MemberState>(member.state), member.weight, &key,
                          &signature, static_cast<fb::Reachability>(member.reach),
                          member.has_replica);
}

template <class... Args>
tl::unexpected<base::Error> bad(fmt::format_string<Args...> format, Args&&... args) {
  return base::fail(base::ErrorCode::protocol, format, std::forward<Args>(args)...);
}

bool is_visible(char character) { return character > ' ' && character <= '~'; }

/// An address that may be left out.
base::Result<std::string> address_of(const flatbuffers::String* from) {
  if (from == nullptr) return std::string();
  if (from->size() > kAddressMax) return bad("an address has over {} bytes", kAddressMax);
  if (!std::all_of(from->begin(), from->end(), is_visible)) {
    return bad("an address has bytes that are no visible ASCII");
  }
  return from->str();
}

base::Result<MemberRecord> unpack(const fb::Member& from) {
  if (from.name()->size() > kNameMax) return bad("a member's name has over {} bytes", kNameMax);
  if (from.addresses()->size() > kAddressesMax) {
    return bad("a member has over {} addresses", kAddressesMax);
  }
  if (from.state() > fb::MemberState::MAX) return bad("a member has an unknown state");
  if (from.reach() > fb::Reachability::MAX) return bad("a member has an unknown reach");
  if (!(from.weight() >= 0 && from.weight() <= kWeightMax)) {
    return bad("a member's weight is not a number from 0 to {}", kWeightMax);
  }
  MemberRecord member{.id = {array_of<32>(*from.id())},
                      .name = from.name()->str(),
                      .addresses = {},
                      .incarnation = from.incarnation(),
                      .state = static_cast<MemberState>(from.state()),
                      .weight = from.weight(),
                      .key = array_of<32>(*from.key()),
                      .signature = array_of<64>(*from.signature()),
                      .reach = static_cast<Reachability>(from.reach()),
                      .has_replica = from.has_replica()};
  for (const auto* from_address : *from.addresses()) {
    auto address = address_of(from_address);
    if (!address) return base::fail(std::move(address.error()));
    member.addresses.push_back(std::move(*address));
  }
  return member;
}

// --- encoding: each overload builds the metadata and returns the frame's payload ---

struct Payload {
  base::ByteView bytes{};
  base::ByteView buffers{};
};

Payload build(FlatBufferBuilder& builder, const Hello& hello) {
  const auto self = pack(builder, hello.self);
  const auto observed = hello.observed.empty() ? 0 : builder.CreateString(hello.observed);
  const fb::Run run = to_fb(hello.run);
  builder.Finish(fb::CreateHello(builder, &run, hello.parameters_hash, self, hello.answers,
                                 observed, hello.heartbeat_ms));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Refuse& refuse) {
  const auto text = builder.CreateString(refuse.text.substr(0, kTextMax));
  const auto canonical = builder.CreateString(refuse.canonical.substr(0, kCanonicalMax));
  builder.Finish(
      fb::CreateRefuse(builder, static_cast<fb::RefuseReason>(refuse.reason), text, canonical));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Neighbour& neighbour) {
  builder.Finish(fb::CreateNeighbour(builder, static_cast<fb::NeighbourKind>(neighbour.kind)));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Gossip& gossip) {
  ASSERT(gossip.members.size() <= kMembersPerGossip && gossip.claims.size() <= kClaimsPerGossip);
  std::vector<Offset<fb::Member>> members;
  for (const MemberRecord& member : gossip.members) members.push_back(pack(builder, member));
  std::vector<fb::Claim> claims;
  for (const Claim& claim : gossip.claims) {
    claims.emplace_back(claim.subject, claim.by, claim.incarnation,
                        static_cast<fb::MemberState>(claim.state),
                        static_cast<fb::DeathReason>(claim.reason));
  }
  const auto packed_members = members.empty() ? 0 : builder.CreateVector(members);
  const auto packed_claims = claims.empty() ? 0 : builder.CreateVectorOfStructs(claims);
  builder.Finish(fb::CreateGossip(builder, packed_members, packed_claims));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Heartbeat& heartbeat) {
  const std::vector<std::uint8_t> packed = pack_progress(heartbeat.progress);
  const auto progress = packed.empty() ? 0 : builder.CreateVector(packed);
  builder.Finish(fb::CreateHeartbeat(builder, heartbeat.sequence, heartbeat.echo,
                                     heartbeat.echo_age_us, heartbeat.table_hash, progress));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Reconcile& reconcile) {
  ASSERT(reconcile.bits <= kBucketBitsMax && reconcile.entries.size() <= kEntriesPerFrame &&
         reconcile.wanted.size() <= kEntriesPerFrame);
  std::vector<fb::TableEntry> entries;
  for (const TableEntry& entry : reconcile.entries) {
    entries.emplace_back(entry.prefix, entry.version);
  }
  const auto hashes = reconcile.hashes.empty() ? 0 : builder.CreateVector(reconcile.hashes);
  const auto buckets = reconcile.buckets.empty() ? 0 : builder.CreateVector(reconcile.buckets);
  const auto packed = entries.empty() ? 0 : builder.CreateVectorOfStructs(entries);
  const auto wanted = reconcile.wanted.empty() ? 0 : builder.CreateVector(reconcile.wanted);
  builder.Finish(fb::CreateReconcile(builder, reconcile.bits, hashes, buckets, packed, wanted));
  return {};
}

Payload build(FlatBufferBuilder& builder, const LinkOpen& open) {
  builder.Finish(fb::CreateLinkOpen(builder, open.nonce, open.samples, open.progress,
                                    open.may_adopt, open.session, open.committed.value));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Keyframe& keyframe) {
  const auto buffers = static_cast<std::uint32_t>(keyframe.buffers.size());
  builder.Finish(fb::CreateKeyframe(builder, keyframe.samples, buffers));
  return {keyframe.payload, keyframe.buffers};
}

Payload build(FlatBufferBuilder& builder, const Reduce& reduce) {
  builder.Finish(fb::CreateReduce(builder, reduce.step.value, reduce.samples,
                                  static_cast<fb::ReducePhase>(reduce.phase), reduce.hop,
                                  reduce.chunk, reduce.bucket));
  return {reduce.payload};
}

Payload build(FlatBufferBuilder& builder, const ReduceReceived& received) {
  builder.Finish(fb::CreateReduceReceived(builder, received.life, received.step.value,
                                          received.pieces));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Bye& bye) {
  const auto text = builder.CreateString(bye.text.substr(0, kTextMax));
  builder.Finish(fb::CreateBye(builder, static_cast<fb::ByeReason>(bye.reason), text));
  return {};
}

Payload build(FlatBufferBuilder& builder, const RunFileRequest&) {
  builder.Finish(fb::CreateRunFileRequest(builder));
  return {};
}

Payload build(FlatBufferBuilder& builder, const RunFileReply& reply) {
  ASSERT(reply.text.size() <= kRunFileTextMax);
  builder.Finish(fb::CreateRunFileReply(builder, builder.CreateString(reply.text)));
  return {};
}

Payload build(FlatBufferBuilder& builder, const DialBack& ask) {
  builder.Finish(fb::CreateDialBack(builder, ask.nonce, ask.port));
  return {};
}

Payload build(FlatBufferBuilder& builder, const DialedBack& answer) {
  const auto observed = answer.observed.empty() ? 0 : builder.CreateString(answer.observed);
  builder.Finish(fb::CreateDialedBack(builder, answer.nonce,
                                      static_cast<fb::DialBackOutcome>(answer.outcome), observed));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Introduce& message) {
  const auto observed = message.observed.empty() ? 0 : builder.CreateString(message.observed);
  const fb::Id other = to_fb(message.other);
  builder.Finish(fb::CreateIntroduce(builder, static_cast<fb::IntroduceKind>(message.kind),
                                     message.passed_on, message.nonce, &other, observed,
                                     message.load));
  return {};
}

Payload build(FlatBufferBuilder& builder, const Circuit& message) {
  const fb::Id other = to_fb(message.other);
  builder.Finish(fb::CreateCircuit(builder, static_cast<fb::CircuitKind>(message.kind),
                                   message.number, &other,
                                   static_cast<fb::CircuitRefusal>(message.reason)));
  return {};
}

// --- decoding: each overload gets verified metadata and checks the values ---

base::Result<Message> read(const fb::Hello& from, Frame&) {
  auto self = unpack(*from.self());
  if (!self) return base::fail(std::move(self.error()));
  auto observed = address_of(from.observed());
  if (!observed) return base::fail(std::move(observed.error()));
  if (from.heartbeat_ms() == 0 || from.heartbeat_ms() > kHeartbeatMsMax) {
    return bad("heartbeats do not come every 1 to {} ms", kHeartbeatMsMax);
  }
  return Hello{.run = {array_of<16>(*from.run())},
               .parameters_hash = from.parameters_hash(),
               .self = std::move(*self),
               .answers = from.answers(),
               .observed = std::move(*observed),
               .heartbeat_ms = from.heartbeat_ms()};
}

base::Result<Message> read(const fb::Refuse& from, Frame&) {
  const auto reason = static_cast<RefuseReason>(from.reason());
  const bool known = reason == RefuseReason::none || reason == RefuseReason::other_run ||
                     reason == RefuseReason::fixed_set;
  if (!known) return bad("a refusal has an unknown reason");
  if (from.text()->size() > kTextMax || from.canonical()->size() > kCanonicalMax) {
    return bad("a refusal is too long");
  }
  return Refuse{.reason = reason, .text = from.text()->str(), .canonical = from.canonical()->str()};
}

base::Result<Message> read(const fb::Neighbour& from, Frame&) {
  if (from.kind() == fb::NeighbourKind::none || from.kind() > fb::NeighbourKind::MAX) {
    return bad("a neighbour message has an unknown kind");
  }
  return Neighbour{static_cast<NeighbourKind>(from.kind())};
}

template <class T>
std::size_t size_of(const flatbuffers::Vector<T>* vector) {
  return vector == nullptr ? 0 : vector->size();
}

/// FlatBuffers' verifier looks where a vector's size lies, not its elements. Those of eight bytes
/// may not lie across the words of this machine.
template <class T>
bool is_aligned(const flatbuffers::Vector<T>* vector) {
  constexpr std::size_t kAlignment = sizeof(std::uint64_t);
  return vector == nullptr || reinterpret_cast<std::uintptr_t>(vector->Data()) % kAlignment == 0;
}

base::Result<Message> read(const fb::Gossip& from, Frame&) {
  if (size_of(from.members()) > kMembersPerGossip || size_of(from.claims()) > kClaimsPerGossip) {
    return bad("a gossip message has over {} records or {} claims", kMembersPerGossip,
               kClaimsPerGossip);
  }
  if (!is_aligned(from.claims())) return bad("the claims of a gossip message are misaligned");
  Gossip gossip;
  for (std::size_t i = 0; i < size_of(from.members()); ++i) {
    auto record = unpack(*from.members()->Get(static_cast<unsigned>(i)));
    if (!record) return base::fail(std::move(record.error()));
    gossip.members.push_back(std::move(*record));
  }
  for (std::size_t i = 0; i < size_of(from.claims()); ++i) {
    const fb::Claim& claim = *from.claims()->Get(static_cast<unsigned>(i));
    if (claim.state() != fb::MemberState::suspect && claim.state() != fb::MemberState::dead) {
      return bad("a claim is neither suspect nor dead");
    }
    if (claim.reason() > fb::DeathReason::MAX) return bad("a claim has an unknown reason");
    gossip.claims.push_back({.subject = claim.subject(),
                             .by = claim.by(),
                             .incarnation = claim.incarnation(),
                             .state = static_cast<MemberState>(claim.state()),
                             .reason = static_cast<DeathReason>(claim.reason())});
  }
  return gossip;
}

base::Result<Message> read(const fb::Heartbeat& from, Frame&) {
  Heartbeat heartbeat{.sequence = from.sequence(),
                      .echo = from.echo(),
                      .echo_age_us = from.echo_age_us(),
                      .table_hash = from.table_hash(),
                      .progress = {}};
  if (from.progress() == nullptr) return heartbeat;
  auto progress = unpack_progress({from.progress()->data(), from.progress()->size()});
  if (!progress) return base::fail(std::move(progress.error()));
  heartbeat.progress = std::move(*progress);
  return heartbeat;
}

base::Result<Message> read(const fb::Reconcile& from, Frame&) {
  if (from.bits() > kBucketBitsMax) return bad("a table is cut into too many buckets");
  const std::size_t buckets = std::size_t{1} << from.bits();
  if (size_of(from.hashes()) != 0 && size_of(from.hashes()) != buckets) {
    return bad("a table's hashes are not those of its {} buckets", buckets);
  }
  if (size_of(from.buckets()) > buckets || size_of(from.entries()) > kEntriesPerFrame ||
      size_of(from.wanted()) > kEntriesPerFrame) {
    return bad("a comparison of tables has over {} entries", kEntriesPerFrame);
  }
  if (!is_aligned(from.hashes()) || !is_aligned(from.entries()) || !is_aligned(from.wanted())) {
    return bad("the numbers of a comparison of tables are misaligned");
  }
  Reconcile reconcile{
      .bits = from.bits(), .hashes = {}, .buckets = {}, .entries = {}, .wanted = {}};
  for (unsigned i = 0; i < size_of(from.hashes()); ++i) {
    reconcile.hashes.push_back(from.hashes()->Get(i));
  }
  for (unsigned i = 0; i < size_of(from.buckets()); ++i) {
    const std::uint16_t bucket = from.buckets()->Get(i);
    if (bucket >= buckets) return bad("a table has no bucket {}", bucket);
    reconcile.buckets.push_back(bucket);
  }
  for (unsigned i = 0; i < size_of(from.entries()); ++i) {
    const fb::TableEntry& entry = *from.entries()->Get(i);
    reconcile.entries.push_back({.prefix = entry.prefix(), .version = entry.version()});
  }
  for (unsigned i = 0; i < size_of(from.wanted()); ++i) {
    reconcile.wanted.push_back(from.wanted()->Get(i));
  }
  return reconcile;
}

base::Result<Message> read(const fb::LinkOpen& from, Frame&) {
  if (!(from.progress() >= 0 && from.progress() <= 1)) {
    return bad("a link opening has a progress outside 0 to 1");
  }
  return LinkOpen{.nonce = from.nonce(),
                  .samples = from.samples(),
                  .progress = from.progress(),
                  .may_adopt = from.may_adopt(),
                  .session = from.session(),
                  .committed = {from.committed()}};
}

base::Buffer take_payload(Frame& frame) {
  frame.bytes.erase(frame.bytes.begin(),
                    frame.bytes.begin() + static_cast<std::ptrdiff_t>(frame.metadata_size));
  return std::move(frame.bytes);
}

/// Cuts the buffers off the end of a payload.
base::Result<base::Buffer> take_buffers(std::uint64_t bytes, base::Buffer& payload) {
  if (bytes > payload.size() || bytes % sizeof(float) != 0) {
    return bad("a payload of {} bytes cannot end with {} bytes of buffers", payload.size(), bytes);
  }
  const auto at = payload.end() - static_cast<std::ptrdiff_t>(bytes);
  base::Buffer buffers(at, payload.end());
  payload.erase(at, payload.end());
  return buffers;
}

base::Result<Message> read(const fb::Keyframe& from, Frame& frame) {
  const std::uint32_t buffer_bytes = from.buffers();  // lies in the frame
  Keyframe keyframe{.samples = from.samples(), .payload = {}};
  keyframe.payload = take_payload(frame);
  auto buffers = take_buffers(buffer_bytes, keyframe.payload);
  if (!buffers) return base::fail(std::move(buffers.error()));
  keyframe.buffers = std::move(*buffers);
  return keyframe;
}

/// The one type of frame without FlatBuffers: wire/delta_head.hpp.
base::Result<std::optional<Message>> read_delta(Frame& frame) {
  const base::ByteView metadata = frame.metadata();
  auto head =
      unpack_head({reinterpret_cast<const std::uint8_t*>(metadata.data()), metadata.size()});
  if (!head) return base::fail(std::move(head.error()));
  Delta delta = std::move(head->delta);
  delta.payload = take_payload(frame);
  auto buffers = take_buffers(head->buffer_bytes, delta.payload);
  if (!buffers) return base::fail(std::move(buffers.error()));
  delta.buffers = std::move(*buffers);
  return std::optional<Message>(std::move(delta));
}

base::Result<Message> read(const fb::Reduce& from, Frame& frame) {
  if (from.phase() == fb::ReducePhase::none || from.phase() > fb::ReducePhase::MAX) {
    return bad("a reduce message has an unknown phase");
  }
  return Reduce{.step = {from.step()},
                .samples = from.samples(),
                .phase = static_cast<ReducePhase>(from.phase()),
                .hop = from.hop(),
                .chunk = from.chunk(),
                .bucket = from.bucket(),
                .payload = take_payload(frame)};
}

base::Result<Message> read(const fb::ReduceReceived& from, Frame&) {
  return ReduceReceived{.life = from.life(), .step = {from.step()}, .pieces = from.pieces()};
}

base::Result<Message> read(const fb::Bye& from, Frame&) {
  if (from.reason() > fb::ByeReason::MAX) return bad("a farewell has an unknown reason");
  Bye bye{.reason = static_cast<ByeReason>(from.reason()), .text = {}};
  if (from.text() != nullptr) {
    if (from.text()->size() > kTextMax) return bad("a farewell is too long");
    bye.text = from.text()->str();
  }
  return bye;
}

base::Result<Message> read(const fb::RunFileRequest&, Frame&) { return RunFileRequest{}; }

base::Result<Message> read(const fb::RunFileReply& from, Frame&) {
  if (from.text()->size() > kRunFileTextMax) return bad("a run file is too long");
  return RunFileReply{.text = from.text()->str()};
}

base::Result<Message> read(const fb::DialBack& from, Frame&) {
  if (from.port() == 0) return bad("a peer asks to be dialed at port 0");
  return DialBack{.nonce = from.nonce(), .port = from.port()};
}

base::Result<Message> read(const fb::DialedBack& from, Frame&) {
  if (from.outcome() == fb::DialBackOutcome::none || from.outcome() > fb::DialBackOutcome::MAX) {
    return bad("a dial back has an unknown outcome");
  }
  auto observed = address_of(from.observed());
  if (!observed) return base::fail(std::move(observed.error()));
  return DialedBack{.nonce = from.nonce(),
                    .outcome = static_cast<DialBackOutcome>(from.outcome()),
                    .observed = std::move(*observed)};
}

base::Result<Message> read(const fb::Introduce& from, Frame&) {
  if (from.kind() == fb::IntroduceKind::none || from.kind() > fb::IntroduceKind::MAX) {
    return bad("an introduction has an unknown kind");
  }
  auto observed = address_of(from.observed());
  if (!observed) return base::fail(std::move(observed.error()));
  return Introduce{.kind = static_cast<IntroduceKind>(from.kind()),
                   .passed_on = from.passed_on(),
                   .nonce = from.nonce(),
                   .other = {array_of<32>(*from.other())},
                   .observed = std::move(*observed),
                   .load = from.load()};
}

base::Result<Message> read(const fb::Circuit& from, Frame&) {
  if (from.kind() == fb::CircuitKind::none || from.kind() > fb::CircuitKind::MAX) {
    return bad("a message about a circuit has an unknown kind");
  }
  if (from.reason() > fb::CircuitRefusal::MAX)
    return bad("a circuit is refused for no known reason");
  return Circuit{.kind = static_cast<CircuitKind>(from.kind()),
                 .number = from.number(),
                 .other = {array_of<32>(*from.other())},
                 .reason = static_cast<CircuitRefusal>(from.reason())};
}

template <class Table>
base::Result<std::optional<Message>> verified(Frame& frame) {
  const base::ByteView metadata = frame.metadata();
  const auto* data = reinterpret_cast<const std::uint8_t*>(metadata.data());
  flatbuffers::Verifier verifier(data, metadata.size(), kDepthMax, kTablesMax);
  if (!verifier.VerifyBuffer<Table>(nullptr)) {
    return bad("the metadata of a frame of type {} is malformed", frame.type);
  }
  auto message = read(*flatbuffers::GetRoot<Table>(data), frame);
  if (!message) return base::fail(std::move(message.error()));
  return std::optional<Message>(std::move(*message));
}

}  // namespace

FrameType type_of(const Message& message) noexcept {
  // In the order of Message's alternatives.
  constexpr FrameType kTypes[] = {FrameType::hello,          FrameType::refuse,
                                  FrameType::neighbour,      FrameType::gossip,
                                  FrameType::heartbeat,      FrameType::link_open,
                                  FrameType::keyframe,       FrameType::delta,
                                  FrameType::reduce,         FrameType::bye,
                                  FrameType::reconcile,      FrameType::run_file_request,
                                  FrameType::run_file_reply, FrameType::reduce_received,
                                  FrameType::dial_back,      FrameType::dialed_back,
                                  FrameType::introduce,      FrameType::circuit_call};
  static_assert(std::size(kTypes) == std::variant_size_v<Message>);
  return kTypes[message.index()];
}

base::Buffer encode(const Message& message) {
  if (const auto* delta = std::get_if<Delta>(&message)) {
    const std::vector<std::uint8_t> head = pack_head(*delta);
    return make_frame(FrameType::delta, std::as_bytes(std::span(head)), delta->payload,
                      delta->buffers);
  }
  FlatBufferBuilder builder(256);
  Payload payload;
  std::visit(
      [&]<class T>(const T& value) {
        if constexpr (!std::is_same_v<T, Delta>) payload = build(builder, value);
      },
      message);
  const auto metadata = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return make_frame(type_of(message), metadata, payload.bytes, payload.buffers);
}

base::Result<std::optional<Message>> decode(Frame&& frame) {
  switch (static_cast<FrameType>(frame.type)) {
    case FrameType::hello:
      return verified<fb::Hello>(frame);
    case FrameType::refuse:
      return verified<fb::Refuse>(frame);
    case FrameType::neighbour:
      return verified<fb::Neighbour>(frame);
    case FrameType::gossip:
      return verified<fb::Gossip>(frame);
    case FrameType::heartbeat:
      return verified<fb::Heartbeat>(frame);
    case FrameType::link_open:
      return verified<fb::LinkOpen>(frame);
    case FrameType::keyframe:
      return verified<fb::Keyframe>(frame);
    case FrameType::delta:
      return read_delta(frame);
    case FrameType::reduce:
      return verified<fb::Reduce>(frame);
    case FrameType::bye:
      return verified<fb::Bye>(frame);
    case FrameType::reconcile:
      return verified<fb::Reconcile>(frame);
    case FrameType::run_file_request:
      return verified<fb::RunFileRequest>(frame);
    case FrameType::run_file_reply:
      return verified<fb::RunFileReply>(frame);
    case FrameType::reduce_received:
      return verified<fb::ReduceReceived>(frame);
    case FrameType::dial_back:
      return verified<fb::DialBack>(frame);
    case FrameType::dialed_back:
      return verified<fb::DialedBack>(frame);
    case FrameType::introduce:
      return verified<fb::Introduce>(frame);
    case FrameType::circuit_call:
      return verified<fb::Circuit>(frame);
    case FrameType::circuit:
      break;
  }
  return std::nullopt;
}

}  // namespace starling::wire
