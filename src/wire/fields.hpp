// The fields of each message, each in one place: encode, decode, the check of values and the tests
// all use this list. To add a field, add it to the message, here and in frames.fbs; if one of the
// three lacks it, a test fails.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "wire/messages.hpp"

namespace starling::wire {

// --- rules: the values that a field may have ---

struct Any {};
/// Like Any, for a flag that is set if a frame does not have it.
struct SetByDefault {};
/// From `least` to `most`, and not NaN.
template <class T>
struct Within {
  T least;
  T most;
};
template <class T>
Within(T, T) -> Within<T>;  // clang before 17 does not deduce this by itself
/// One of the enumerators.
struct Known {};
/// One of the enumerators, but not `none`.
struct Chosen {};
/// "host:port" in visible ASCII, at most kAddressMax bytes, or empty.
struct Address {};
/// At most `most` bytes; `cut`: a longer text is sent without its end.
struct Text {
  std::size_t most;
  bool cut = false;
};
/// At most `most` elements; `always`: an empty list is sent, too.
struct Few {
  std::size_t most;
  bool always = false;
};
/// Bytes after the metadata: the frame's payload without Tail.
struct Payload {};
/// float32 values at the end of the frame's payload; the metadata tell their size.
struct Tail {};

constexpr bool is_known(MemberState value) { return value <= MemberState::left; }
constexpr bool is_known(Reachability value) { return value <= Reachability::dials_only; }
constexpr bool is_known(NeighbourKind value) { return value <= NeighbourKind::leave; }
constexpr bool is_known(DeathReason value) { return value <= DeathReason::left; }
constexpr bool is_known(Turn value) { return value <= Turn::down; }
constexpr bool is_known(ReducePhase value) { return value <= ReducePhase::gather; }
constexpr bool is_known(ByeReason value) { return value <= ByeReason::replaced; }
constexpr bool is_known(DialBackOutcome value) { return value <= DialBackOutcome::busy; }
constexpr bool is_known(IntroduceKind value) { return value <= IntroduceKind::absent; }
constexpr bool is_known(CircuitKind value) { return value <= CircuitKind::refuse; }
constexpr bool is_known(CircuitRefusal value) { return value <= CircuitRefusal::unwanted; }
constexpr bool is_known(RefuseReason value) {
  return value == RefuseReason::none || value == RefuseReason::other_run ||
         value == RefuseReason::fixed_set;
}

// --- fields: visit(name, value, rule), in the order of the message's table in frames.fbs ---

/// A `T`, constant or not.
template <class M, class T>
concept Like = std::same_as<std::remove_const_t<M>, T>;

void fields(Like<MemberRecord> auto& record, auto&& visit) {
  visit("id", record.id, Any{});
  visit("name", record.name, Text{kNameMax});
  visit("addresses", record.addresses, Few{.most = kAddressesMax, .always = true});
  visit("incarnation", record.incarnation, Any{});
  visit("state", record.state, Known{});
  visit("speed", record.speed, Within{0.0F, kSpeedMax});
  visit("key", record.key, Any{});
  visit("signature", record.signature, Any{});
  visit("reach", record.reach, Known{});
  visit("has_replica", record.has_replica, SetByDefault{});
  visit("weight", record.weight, Within{kNoWeight, kWeightMax});
  visit("batch", record.batch, Within{0U, kBatchMax});
  visit("lr", record.lr, Within{0.0F, kRateMax});
}

void fields(Like<Hello> auto& hello, auto&& visit) {
  visit("run", hello.run, Any{});
  visit("parameters_hash", hello.parameters_hash, Any{});
  visit("self", hello.self, Any{});
  visit("answers", hello.answers, Any{});
  visit("observed", hello.observed, Address{});
  visit("heartbeat_ms", hello.heartbeat_ms, Within{1U, kHeartbeatMsMax});
}

void fields(Like<Refuse> auto& refuse, auto&& visit) {
  visit("reason", refuse.reason, Known{});
  visit("text", refuse.text, Text{.most = kTextMax, .cut = true});
  visit("canonical", refuse.canonical, Text{.most = kCanonicalMax, .cut = true});
}

void fields(Like<RunFileRequest> auto&, auto&&) {}

void fields(Like<RunFileReply> auto& reply, auto&& visit) {
  visit("text", reply.text, Text{kRunFileTextMax});
}

void fields(Like<Neighbour> auto& neighbour, auto&& visit) {
  visit("kind", neighbour.kind, Chosen{});
}

void fields(Like<Claim> auto& claim, auto&& visit) {
  visit("subject", claim.subject, Any{});
  visit("by", claim.by, Any{});
  visit("incarnation", claim.incarnation, Any{});
  visit("state", claim.state, Within{MemberState::suspect, MemberState::dead});
  visit("reason", claim.reason, Known{});
}

void fields(Like<Gossip> auto& gossip, auto&& visit) {
  visit("members", gossip.members, Few{kMembersPerGossip});
  visit("claims", gossip.claims, Few{kClaimsPerGossip});
}

void fields(Like<Voucher> auto& voucher, auto&& visit) {
  visit("limit", voucher.limit, Any{});
  visit("by", voucher.by, Any{});
  visit("signature", voucher.signature, Any{});
}

/// Packed by hand (wire/progress.hpp).
void fields(Like<Progress> auto& progress, auto&& visit) {
  visit("id_prefix", progress.id_prefix, Any{});
  visit("samples", progress.samples, Any{});
  visit("rate", progress.rate, Any{});
  visit("age_ms", progress.age_ms, Any{});
  visit("report", progress.report, Any{});
  visit("loss", progress.loss, Any{});
  visit("accuracy", progress.accuracy, Any{});
  visit("drift", progress.drift, Any{});
  visit("links", progress.links, Any{});
  visit("voucher", progress.voucher, Any{});
}

void fields(Like<Heartbeat> auto& heartbeat, auto&& visit) {
  visit("sequence", heartbeat.sequence, Any{});
  visit("echo", heartbeat.echo, Any{});
  visit("echo_age_us", heartbeat.echo_age_us, Any{});
  visit("table_hash", heartbeat.table_hash, Any{});
  visit("progress", heartbeat.progress, Few{kProgressPerFrame});
}

void fields(Like<TableEntry> auto& entry, auto&& visit) {
  visit("prefix", entry.prefix, Any{});
  visit("version", entry.version, Any{});
}

void fields(Like<Reconcile> auto& reconcile, auto&& visit) {
  visit("bits", reconcile.bits, Within{std::uint8_t{0}, kBucketBitsMax});
  visit("hashes", reconcile.hashes, Few{std::size_t{1} << kBucketBitsMax});
  visit("buckets", reconcile.buckets, Few{std::size_t{1} << kBucketBitsMax});
  visit("entries", reconcile.entries, Few{kEntriesPerFrame});
  visit("wanted", reconcile.wanted, Few{kEntriesPerFrame});
}

void fields(Like<LinkOpen> auto& open, auto&& visit) {
  visit("nonce", open.nonce, Any{});
  visit("samples", open.samples, Any{});
  visit("progress", open.progress, Within{0.0, 1.0});
  visit("may_adopt", open.may_adopt, Any{});
  visit("session", open.session, Any{});
  visit("committed", open.committed, Any{});
  visit("told_little", open.told_little, Any{});
}

/// The head is packed by hand (wire/delta_head.hpp).
void fields(Like<Delta> auto& delta, auto&& visit) {
  visit("exchange", delta.exchange, Any{});
  visit("samples", delta.samples, Any{});
  visit("mirror_hash", delta.mirror_hash, Any{});
  visit("degree", delta.degree, Within{std::uint16_t{1}, kDeltaDegreeMax});
  visit("weight", delta.weight, Within{kNoWeight, kWeightMax});
  visit("believed", delta.believed, Within{kNoWeight, kWeightMax});
  visit("settled", delta.settled, Any{});
  visit("payload", delta.payload, Payload{});
  visit("buffers", delta.buffers, Tail{});
  visit("bandwidth", delta.bandwidth, Any{});
  visit("radius", delta.radius, Any{});
  visit("turn", delta.turn, Known{});
  visit("gathered", delta.gathered, Within{0.0F, kSettleWeightMax});
}

void fields(Like<Settle> auto& settle, auto&& visit) {
  visit("root", settle.root, Any{});
  visit("child", settle.child, Any{});
  visit("ready", settle.ready, Any{});
  visit("begun", settle.begun, Any{});
  visit("off", settle.off, Any{});
  visit("apart", settle.apart, Any{});
  visit("follows", settle.follows, Any{});
  visit("beat", settle.beat, Any{});
}

void fields(Like<Keyframe> auto& keyframe, auto&& visit) {
  visit("samples", keyframe.samples, Any{});
  visit("payload", keyframe.payload, Payload{});
  visit("buffers", keyframe.buffers, Tail{});
}

void fields(Like<Reduce> auto& reduce, auto&& visit) {
  visit("step", reduce.step, Any{});
  visit("samples", reduce.samples, Any{});
  visit("phase", reduce.phase, Chosen{});
  visit("hop", reduce.hop, Any{});
  visit("chunk", reduce.chunk, Any{});
  visit("bucket", reduce.bucket, Any{});
  visit("payload", reduce.payload, Payload{});
}

void fields(Like<ReduceReceived> auto& received, auto&& visit) {
  visit("life", received.life, Any{});
  visit("step", received.step, Any{});
  visit("pieces", received.pieces, Any{});
}

void fields(Like<Bye> auto& bye, auto&& visit) {
  visit("reason", bye.reason, Known{});
  visit("text", bye.text, Text{.most = kTextMax, .cut = true});
}

void fields(Like<DialBack> auto& ask, auto&& visit) {
  visit("nonce", ask.nonce, Any{});
  visit("port", ask.port, Within{std::uint16_t{1}, std::uint16_t{0xffff}});
}

void fields(Like<DialedBack> auto& answer, auto&& visit) {
  visit("nonce", answer.nonce, Any{});
  visit("outcome", answer.outcome, Chosen{});
  visit("observed", answer.observed, Address{});
}

void fields(Like<Introduce> auto& introduce, auto&& visit) {
  visit("kind", introduce.kind, Chosen{});
  visit("passed_on", introduce.passed_on, Any{});
  visit("nonce", introduce.nonce, Any{});
  visit("other", introduce.other, Any{});
  visit("observed", introduce.observed, Address{});
  visit("load", introduce.load, Any{});
}

void fields(Like<Circuit> auto& circuit, auto&& visit) {
  visit("kind", circuit.kind, Chosen{});
  visit("number", circuit.number, Any{});
  visit("other", circuit.other, Any{});
  visit("reason", circuit.reason, Known{});
}

}  // namespace starling::wire
