// Messages of other peers to the fuzzed one: well-formed, with any values that the form allows, or
// with values that fit the messages that they got.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/peer_id.hpp"
#include "tests/fuzz/input.hpp"
#include "wire/messages.hpp"

namespace starling::fuzz {

/// The run of all peers, and its initial parameters.
inline constexpr wire::RunId kRun{{7}};
inline constexpr std::uint64_t kParametersHash = 7;

/// Peers by number: 0 is the one that is fuzzed.
[[nodiscard]] base::PeerId id_of(std::size_t number);
[[nodiscard]] std::string address_of(std::size_t number);
/// The record that a peer begins with.
[[nodiscard]] wire::MemberRecord plain_record(std::size_t number, bool has_replica);

/// A message as the other end of a link gets it; nothing where it is refused there.
[[nodiscard]] std::optional<wire::Message> over_the_wire(const wire::Message& message);

class MessageSource {
 public:
  struct Options {
    std::size_t others = 6;     ///< peers that have links with the one that is fuzzed
    std::size_t elements = 32;  ///< of the replica
    std::size_t buffers = 0;    ///< values beside it
    std::size_t ring = 2;       ///< peers of a ring
  };

  /// `input` outlives this.
  MessageSource(Input& input, const Options& options) : input_(input), options_(options) {}

  // Messages of `from`; each is well-formed.
  [[nodiscard]] wire::Message any(const base::PeerId& from);
  [[nodiscard]] wire::Message of_membership(const base::PeerId& from);
  [[nodiscard]] wire::Message of_exchange(const base::PeerId& from);
  /// An answer to the fuzzed peer's message to `from`; nothing if none is due, and sometimes
  /// anyway.
  [[nodiscard]] std::optional<wire::Message> answer(const base::PeerId& from,
                                                    const wire::Message& said);
  /// The peer's messages determine the values that fit.
  void note(const base::PeerId& to, const wire::Message& said);

  /// Of one of the others, signed by it, though rarely its own.
  [[nodiscard]] wire::MemberRecord record(std::size_t number);
  [[nodiscard]] wire::Hello hello(std::size_t number);
  /// The number of one of the others.
  [[nodiscard]] std::size_t other() { return 1 + input_.at_most(options_.others - 1); }
  [[nodiscard]] std::string address();

 private:
  using Id = const base::PeerId&;
  /// The last messages to one of the others.
  struct Told {
    base::ExchangeNumber exchange{1};
    wire::LinkOpen open{};
    wire::Settle settle{};
    wire::Heartbeat beat{};
    wire::Reduce reduce{};
    std::uint64_t nonce = 1;
    std::uint32_t circuit = 1;
  };
  template <std::size_t N>
  wire::Message one_of(const std::array<wire::Message (MessageSource::*)(Id), N>& makers, Id from) {
    return (this->*makers[input_.at_most(N - 1)])(from);
  }

  using Answer = std::optional<wire::Message>;
  Answer answer_to(Id from, const wire::Neighbour&) { return neighbour(from); }
  Answer answer_to(Id from, const wire::Heartbeat&) { return heartbeat(from); }
  Answer answer_to(Id from, const wire::LinkOpen&) { return link_open(from); }
  Answer answer_to(Id, const wire::Keyframe& said) { return said; }
  Answer answer_to(Id, const wire::Delta& said);
  Answer answer_to(Id from, const wire::Settle&) { return settle(from); }
  Answer answer_to(Id from, const wire::Reduce&) { return reduce(from); }
  Answer answer_to(Id from, const wire::ReduceReceived& said);
  Answer answer_to(Id from, const wire::DialBack&) { return dialed_back(from); }
  Answer answer_to(Id from, const wire::Introduce& said);
  Answer answer_to(Id from, const wire::Circuit& said);
  template <class Other>
  Answer answer_to(Id, const Other&) {
    return std::nullopt;
  }

  wire::Message greeting(Id from);
  wire::Message refuse(Id from);
  wire::Message neighbour(Id from);
  wire::Message gossip(Id from);
  wire::Message crowd(Id from);
  wire::Message heartbeat(Id from);
  wire::Message reconcile(Id from);
  wire::Message bye(Id from);
  wire::Message link_open(Id from);
  wire::Message keyframe(Id from);
  wire::Message delta(Id from);
  wire::Message settle(Id from);
  wire::Message reduce(Id from);
  wire::Message reduce_received(Id from);
  wire::Message run_file(Id from);
  wire::Message dial_back(Id from);
  wire::Message dialed_back(Id from);
  wire::Message introduce(Id from);
  wire::Message circuit(Id from);

  std::uint64_t prefix() { return id_of(input_.at_most(options_.others)).prefix(); }
  wire::Claim claim();
  wire::Progress progress(std::uint64_t of);
  base::Bytes sparse_payload();
  base::Bytes dense_payload();
  base::Bytes buffers();
  std::int8_t weight();
  base::Bytes some_bytes();

  Input& input_;
  Options options_;
  std::map<base::PeerId, Told> told_;
  std::size_t strangers_ = 0;
};

}  // namespace starling::fuzz
