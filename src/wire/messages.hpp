// The messages of the protocol as plain values: cores make and read only these, never FlatBuffers.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/hash.hpp"
#include "base/peer_id.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "wire/frame.hpp"

namespace starling::wire {

/// Bounds of a message's content; a message over a bound is refused as a protocol error.
inline constexpr std::size_t kNameMax = 64;      ///< bytes of a peer's name
inline constexpr std::size_t kAddressMax = 280;  ///< bytes of one "host:port"
inline constexpr std::size_t kAddressesMax = 8;  ///< addresses of one member
inline constexpr float kSpeedMax = 1e9F;         ///< samples a second of one member
inline constexpr std::uint32_t kHeartbeatMsMax = 60'000;
inline constexpr std::size_t kMembersPerGossip = 64;  ///< records in one frame
inline constexpr std::size_t kClaimsPerGossip = 256;
inline constexpr std::size_t kProgressPerFrame = 256;
inline constexpr std::size_t kVouchersPerFrame = 128;
inline constexpr std::uint8_t kBucketBitsMax = 8;      ///< a member table is cut into 2^8 at most
inline constexpr std::size_t kEntriesPerFrame = 1024;  ///< entries, and records asked for
inline constexpr std::size_t kTextMax = 1024;          ///< bytes of a reason in words
inline constexpr std::size_t kCanonicalMax = 16 * 1024;
inline constexpr std::size_t kRunFileTextMax = 48 * 1024;
inline constexpr std::uint32_t kBatchMax = 1U << 20;  ///< samples of a step
inline constexpr float kRateMax = 1e6F;               ///< learning rate
inline constexpr std::uint16_t kDeltaDegreeMax = 64;  ///< open links of a delta's sender
inline constexpr std::int8_t kWeightMax = 63;         ///< largest exponent of a weight
inline constexpr float kSettleWeightMax = 1e30F;      ///< of all that is gathered at a peer
inline constexpr std::int8_t kNoWeight = -64;         ///< in place of the exponent: the weight is 0

using RunId = base::Hash128;

enum class MemberState : std::uint8_t { alive, suspect, dead, left };

/// Whether a member can be dialed from other networks than its own, as it found out itself.
enum class Reachability : std::uint8_t { unknown, reachable, dials_only };

using PublicKey = std::array<std::uint8_t, 32>;  ///< Ed25519
using Signature = std::array<std::uint8_t, 64>;

/// The swarm's knowledge of one peer, signed by it. Suspect and dead are claims of others and not
/// covered by the signature. Newer wins: higher incarnation, then worse state.
struct MemberRecord {
  base::PeerId id;
  std::string name;
  std::vector<std::string> addresses;
  std::uint64_t incarnation = 0;  ///< raised only by the peer itself
  MemberState state = MemberState::alive;
  float speed = 0;  ///< samples a second, for its share of the data; 0: not measured yet
  PublicKey key{};  ///< its hash is the id
  Signature signature{};
  Reachability reach = Reachability::unknown;
  bool has_replica = true;         ///< false: a relay, which trains nothing and exchanges nothing
  std::int8_t weight = kNoWeight;  ///< as in its deltas
  std::uint32_t batch = 0;         ///< samples of a whole step; 0: not told
  float lr = 0;                    ///< the highest learning rate of its schedule; 0: not told

  friend bool operator==(const MemberRecord&, const MemberRecord&) = default;
};

/// First message of either end of a new link.
struct Hello {
  RunId run;
  std::uint64_t parameters_hash = 0;  ///< XXH3 of the run's initial parameters
  MemberRecord self;
  /// Nonce of the Introduce by which the other end asked to be dialed; 0: it did not.
  std::uint64_t answers = 0;
  std::string observed{};  ///< "host:port" of the other end as the sender sees it; may be empty
  std::uint32_t heartbeat_ms = 1000;  ///< between two of the sender's heartbeats; not 0
};

/// 2 and 3 belonged to earlier versions.
enum class RefuseReason : std::uint8_t { none = 0, other_run = 1, fixed_set = 4 };

/// Answer instead of a Hello; the link is closed after it.
struct Refuse {
  RefuseReason reason = RefuseReason::none;
  std::string text;       ///< for people; at most kTextMax bytes
  std::string canonical;  ///< other_run: that run's, of which the run id is the hash
};

/// Instead of a Hello, from a machine that was invited and has no run file yet.
struct RunFileRequest {};

/// The answer, after which the link is closed.
struct RunFileReply {
  std::string text;  ///< TOML without settings of one machine; at most kRunFileTextMax bytes
};

enum class NeighbourKind : std::uint8_t { none, request, urgent_request, accept, reject, leave };

/// Becoming and ceasing to be neighbours (HyParView).
struct Neighbour {
  NeighbourKind kind = NeighbourKind::none;
};

/// Why a peer is held suspect, dead or gone.
enum class DeathReason : std::uint8_t {
  none,
  refused,  ///< its address no longer accepts connections, or it turned us away
  reset,    ///< its links broke
  silent,   ///< nothing was heard for too long
  left,     ///< it said goodbye
};

/// One peer's claim about another's incarnation: suspect or dead.
struct Claim {
  std::uint64_t subject = 0;  ///< PeerId::prefix()
  std::uint64_t by = 0;       ///< peer that claims it; PeerId::prefix()
  std::uint64_t incarnation = 0;
  MemberState state = MemberState::suspect;
  DeathReason reason = DeathReason::none;

  friend bool operator==(const Claim&, const Claim&) = default;
};

/// News for others: the newest records, and claims that peers are suspect or dead.
struct Gossip {
  std::vector<MemberRecord> members;
  std::vector<Claim> claims;
};

/// So far a peer's sample counter may be counted, as another one says by its signature.
struct Voucher {
  std::uint64_t limit = 0;  ///< samples
  PublicKey by{};           ///< of who signed it
  Signature signature{};

  friend bool operator==(const Voucher&, const Voucher&) = default;
};

/// A peer's monotone sample counter and its report of itself.
struct Progress {
  std::uint64_t id_prefix = 0;
  std::uint64_t samples = 0;
  float rate = 0;            ///< samples a second that it trains now; 0: it no longer trains
  std::uint32_t age_ms = 0;  ///< how old this was when it was sent
  /// Whether the following fields were sent; they are sent only when they have changed.
  bool report = true;
  float loss = std::numeric_limits<float>::quiet_NaN();      ///< NaN: not evaluated yet
  float accuracy = std::numeric_limits<float>::quiet_NaN();  ///< NaN: not evaluated yet
  float drift = 0;
  std::uint32_t links = 0;
  /// Sent only when it is new. At most kVouchersPerFrame entries of a heartbeat have one.
  std::optional<Voucher> voucher{};
};

/// A sign of life between neighbours, by which they measure the round trip and compare their
/// tables.
struct Heartbeat {
  std::uint32_t sequence = 0;      ///< number of the sender's heartbeat on this link, from 1
  std::uint32_t echo = 0;          ///< newest sequence heard from the other end; 0: none
  std::uint32_t echo_age_us = 0;   ///< how long ago that was
  std::uint64_t table_hash = 0;    ///< hash of the sender's member table
  std::vector<Progress> progress;  ///< at most kProgressPerFrame
};

/// A record of a member table and how new it is: newer versions are greater.
struct TableEntry {
  std::uint64_t prefix = 0;
  std::uint64_t version = 0;

  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

/// Two ends compare their member tables: first hashes of buckets by the first bits of the ids,
/// then the entries of those that differ, then single records.
struct Reconcile {
  std::uint8_t bits = 0;               ///< 2^bits buckets, at most kBucketBitsMax
  std::vector<std::uint64_t> hashes;   ///< hashes of all buckets; empty: not sent
  std::vector<std::uint16_t> buckets;  ///< buckets whose entries follow
  std::vector<TableEntry> entries;     ///< at most kEntriesPerFrame
  std::vector<std::uint64_t> wanted;   ///< prefixes of records asked for, at most kEntriesPerFrame
};

/// An end's account of itself when a link opens. From the messages of both, both ends make the same
/// decision about how the link gets its mirrors (exchange/decision.hpp).
struct LinkOpen {
  std::uint64_t nonce = 0;         ///< drawn anew each time; both ends' nonces name the session
  std::uint64_t samples = 0;       ///< trained by the sender in this run
  double progress = 0;             ///< the swarm's progress, as the sender knows it, 0 to 1
  bool may_adopt = false;          ///< the sender has no history worth keeping
  std::uint64_t session = 0;       ///< session whose mirrors the sender still has; 0: none
  base::ExchangeNumber committed;  ///< the sender's last commit in that session
  bool told_little = false;        ///< links of the sender have told little of its replica so far
};

/// The place of the sender in the tree along which replicas settle (exchange/tree.hpp).
struct Settle {
  std::uint64_t root = 0;  ///< rank of the root, as the sender knows it
  bool child = false;      ///< the receiver is the sender's parent
  bool ready = false;      ///< all below the sender know that root, and so do their neighbours
  bool begun = false;      ///< all know it: replicas are gathered
  bool off = false;        ///< the sender has given the tree up
  bool apart = false;      ///< the sender's tree is without this link
  bool follows = false;    ///< the sender is in no tree: it takes the mean, and gives nothing
  std::uint32_t beat = 0;  ///< moves on when something happens beyond the sender

  friend bool operator==(const Settle&, const Settle&) = default;
};

/// How an exchange moves its ends, together with the other end's turn.
enum class Turn : std::uint8_t {
  average,  ///< by the weights of both, if the other end averages, too
  hold,     ///< not
  up,       ///< if the other end gathers, that one takes in what is gathered at the sender
  gather,
  down,  ///< if the other end holds, that one takes the sender's replica
};

/// One end's half of an exchange.
struct Delta {
  base::ExchangeNumber exchange;
  std::uint64_t samples = 0;                 ///< trained by the sender
  std::optional<std::uint64_t> mirror_hash;  ///< hash of the sender's mirror before this delta
  std::uint16_t degree = 1;                  ///< open links of the sender when it encoded
  std::int8_t weight = 0;  ///< log2 of how much the sender counts in averages, or kNoWeight
  /// As `weight`, of the receiver: the most that the sender believes. What the sender itself weighs
  /// is always believed.
  std::int8_t believed = kWeightMax;
  bool settled = false;   ///< the sender has made its last step, and this link agrees
  base::Bytes payload;    ///< elements, laid out as delta/format.hpp says
  base::Bytes buffers{};  ///< float32 values, all of the sender's buffers; empty: not sent
  /// Bytes/s at which the receiver's own deltas arrived here, rounded to 8 bits; 0: not known.
  float bandwidth = 0;
  /// By how much an exchange may move the sender, as a bfloat16 (exchange/clip.hpp); none: by any.
  std::optional<float> radius{};
  Turn turn = Turn::average;
  float gathered = 0;  ///< of up: weight of all that is gathered at the sender
};

/// A whole replica: its difference to the run's initial parameters.
struct Keyframe {
  std::uint64_t samples = 0;  ///< trained by the sender
  base::Bytes payload;        ///< a dense delta of 8 bits a value
  base::Bytes buffers{};      ///< float32 values, as in a delta
};

enum class ReducePhase : std::uint8_t { none, scatter, gather };

/// A piece of a ring all-reduce among N peers (ring/ring.hpp).
struct Reduce {
  base::StepNumber step;      ///< step that the gradient belongs to
  std::uint64_t samples = 0;  ///< trained by the sender
  ReducePhase phase = ReducePhase::none;
  std::uint16_t hop = 0;     ///< 0 to N - 2
  std::uint16_t chunk = 0;   ///< number of the gradient's part, 0 to N - 1
  std::uint32_t bucket = 0;  ///< number of the piece of that part
  base::Bytes payload;       ///< float32 values
};

/// The pieces from its predecessor in a ring that a peer has. The first such message on a link says
/// from which piece on it takes them there; each further one says that a step is complete.
struct ReduceReceived {
  std::uint64_t life = 0;    ///< drawn anew by each process: another process lacks these pieces
  base::StepNumber step;     ///< all pieces of earlier steps are here
  std::uint64_t pieces = 0;  ///< number of this step's pieces that are here, in order of sending
};

enum class ByeReason : std::uint8_t { none, left, done, duplicate, misbehaved, silent, replaced };

/// Last message on a link that is closed on purpose.
struct Bye {
  ByeReason reason = ByeReason::none;
  std::string text;  ///< for people; at most kTextMax bytes
};

/// "Dial me back": at the address that the asked end sees on this link, and this port.
struct DialBack {
  std::uint64_t nonce = 0;
  std::uint16_t port = 0;  ///< not 0
};

enum class DialBackOutcome : std::uint8_t {
  none,
  reached,  ///< the asker itself answered there
  failed,   ///< nobody answered, or somebody else
  busy,     ///< not tried: asked too often, or no address is seen
};

struct DialedBack {
  std::uint64_t nonce = 0;  ///< of the DialBack
  DialBackOutcome outcome = DialBackOutcome::none;
  std::string observed;  ///< "host:port" of the asker as the asked end sees it; may be empty
};

enum class IntroduceKind : std::uint8_t {
  none,
  ask,     ///< be reached by me, or dial me
  answer,  ///< here I am
  go,      ///< dial now
  absent,  ///< from the third member: it has no link with that one
};

/// Two members get a link with the help of a third one. It passes these messages on between its
/// links with them: it replaces the receiver by the sender, and adds the address that it sees.
struct Introduce {
  IntroduceKind kind = IntroduceKind::none;
  bool passed_on = false;   ///< by the third member
  std::uint64_t nonce = 0;  ///< drawn by the asker; the same in all messages of one introduction
  base::PeerId other;       ///< to whom; passed on: from whom
  std::string observed;     ///< passed on: "host:port" of the sender; may be empty
  std::uint8_t load = 0;    ///< of the third member as a relay; kLoadFull: it takes no circuit
};
inline constexpr std::uint8_t kLoadFull = 255;

enum class CircuitKind : std::uint8_t {
  none,
  ask,    ///< to the relay: a circuit with `other`
  offer,  ///< from the relay: `other` asks for one
  accept,
  refuse,
};

enum class CircuitRefusal : std::uint8_t {
  none,
  off,       ///< the relay takes none
  full,      ///< it takes no more
  absent,    ///< it has no direct link with that member
  busy,      ///< asked too often
  unwanted,  ///< the other end refuses it
};

/// Asks for a circuit, or answers: each link names it by its own number, drawn by the end that asks
/// on that link.
struct Circuit {
  CircuitKind kind = CircuitKind::none;
  std::uint32_t number = 0;
  base::PeerId other;  ///< ask: with whom; offer: who asks
  CircuitRefusal reason = CircuitRefusal::none;
};

using Message = std::variant<Hello, Refuse, Neighbour, Gossip, Heartbeat, LinkOpen, Keyframe, Delta,
                             Reduce, Bye, Reconcile, RunFileRequest, RunFileReply, ReduceReceived,
                             DialBack, DialedBack, Introduce, Circuit, Settle>;

/// The purpose of a frame's bytes, for the byte meter.
enum class Purpose : std::uint8_t {
  delta,
  keyframe,
  membership,
  reduce,
  other,
  /// Circuits, not part of any total: at a relay, these are others' bytes; at the ends, a link
  /// inside has counted them.
  relayed,
};

/// The bytes of a frame of this type count for this purpose.
[[nodiscard]] Purpose purpose_of(std::uint8_t frame_type) noexcept;

/// The type of frame that carries a message.
[[nodiscard]] FrameType type_of(const Message& message) noexcept;

/// A complete frame for a message. The message must be within the bounds above (ASSERT).
[[nodiscard]] base::Bytes encode(const Message& message);

/// The message in a frame; nothing for an unknown type, which is skipped; an error (protocol) for
/// metadata that does not verify or a value out of bounds. Takes the payload out of the frame.
[[nodiscard]] base::Result<std::optional<Message>> decode(Frame&& frame);

[[nodiscard]] const char* to_string(MemberState state) noexcept;
[[nodiscard]] const char* to_string(ByeReason reason) noexcept;
[[nodiscard]] const char* to_string(DeathReason reason) noexcept;
[[nodiscard]] const char* to_string(Reachability reach) noexcept;
[[nodiscard]] const char* to_string(CircuitRefusal reason) noexcept;

}  // namespace starling::wire
