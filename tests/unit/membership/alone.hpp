// One membership core with whatever a test says to it, in virtual time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "membership/core.hpp"
#include "membership/record.hpp"
#include "membership/simulated_signer.hpp"

namespace starling::membership::testing {

inline base::PeerId id_of(std::uint8_t fill) {
  base::PeerId id;
  id.bytes.fill(fill);
  return id;
}

inline wire::MemberRecord signed_record(const base::PeerId& id, const std::string& name,
                                        wire::Reachability reach, bool has_replica) {
  wire::MemberRecord record{.id = id,
                            .name = "peer-" + name,
                            .addresses = {"host-" + name + ":1"},
                            .incarnation = 1,
                            .reach = reach,
                            .has_replica = has_replica};
  SimulatedSigner signer(id);
  sign(record, signer);
  return record;
}

inline wire::MemberRecord record_of(std::uint8_t fill,
                                    wire::Reachability reach = wire::Reachability::unknown,
                                    bool has_replica = true) {
  return signed_record(id_of(fill), std::to_string(fill), reach, has_replica);
}

/// One of more than there are id_of().
inline wire::MemberRecord numbered_record(
    std::uint32_t number, wire::Reachability reach = wire::Reachability::dials_only) {
  base::PeerId id = id_of(200);
  id.bytes[0] = static_cast<std::uint8_t>(number >> 8);
  id.bytes[1] = static_cast<std::uint8_t>(number);
  return signed_record(id, "n" + std::to_string(number), reach, true);
}

/// The peer 5.
class Alone {
 public:
  explicit Alone(bool has_replica = true, Config config = {})
      : signer_(id_of(5)),
        core(std::move(config), record_of(5, wire::Reachability::unknown, has_replica), signer_,
             base::Rng(7)) {
    core.expire(now, out);
  }
  void give(const Event& event) {
    out.clear();
    core.handle(event, now, out);
  }
  base::LinkId link(std::uint8_t fill, std::uint32_t number, bool dialed, bool relayed) {
    const base::LinkId id{number, 1};
    give(LinkReady{id, record_of(fill), dialed, "", relayed});
    return id;
  }
  base::LinkId neighbour(std::uint8_t fill, std::uint32_t number, bool relayed) {
    const base::LinkId id = link(fill, number, false, relayed);
    give(Received{id, wire::Neighbour{wire::NeighbourKind::request}});
    return id;
  }
  /// Its actions meanwhile are in `out`.
  void pass(base::Duration time) {
    out.clear();
    const base::Time end = now + time;
    for (auto due = core.next_deadline(); due && *due <= end; due = core.next_deadline()) {
      now = std::max(now, *due);
      core.expire(now, out);
    }
    now = end;
  }
  [[nodiscard]] wire::MemberState state_of(std::uint8_t fill) const {
    return core.table().find(id_of(fill))->state;
  }
  /// The first Neighbour that it said on this link meanwhile; none where it said none.
  [[nodiscard]] wire::NeighbourKind said(base::LinkId link) const {
    for (const Send& send : all<Send>()) {
      const auto* neighbour = std::get_if<wire::Neighbour>(&send.message);
      if (send.link == link && neighbour != nullptr) return neighbour->kind;
    }
    return wire::NeighbourKind::none;
  }
  template <class T>
  [[nodiscard]] std::vector<T> all() const {
    std::vector<T> found;
    for (const Action& action : out) {
      if (const auto* of_kind = std::get_if<T>(&action)) found.push_back(*of_kind);
    }
    return found;
  }

 private:
  SimulatedSigner signer_;

 public:
  base::Time now{1s};
  Outbox out;
  Core core;
};

}  // namespace starling::membership::testing
