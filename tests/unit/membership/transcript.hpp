// The two machines of membership, each alone, and what they do as text: a transcript is a table of
// events and the actions that they caused.
#pragma once

#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <fmt/format.h>

#include "membership/detector/detector.hpp"
#include "membership/overlay/overlay.hpp"
#include "tests/unit/membership/alone.hpp"

namespace starling::membership::testing {

/// Peers and links of the transcripts are named by the first byte of the id, and by their number.
inline std::string text_of(const base::PeerId& peer) { return fmt::format("{}", peer.bytes[0]); }
inline std::string text_of(base::LinkId link) { return fmt::format("link {}", link.slot); }

inline std::string text_of(const wire::Message& message) {
  static constexpr const char* kKinds[] = {"no request", "request", "urgent request",
                                           "accept",     "reject",  "leave"};
  if (const auto* neighbour = std::get_if<wire::Neighbour>(&message)) {
    return kKinds[static_cast<std::size_t>(neighbour->kind)];
  }
  if (const auto* beat = std::get_if<wire::Heartbeat>(&message)) {
    return fmt::format("beat {}", beat->sequence);
  }
  if (std::holds_alternative<wire::Reconcile>(message)) return "table";
  const auto* gossip = std::get_if<wire::Gossip>(&message);
  if (gossip == nullptr) return "other";
  std::string text = "gossip";
  for (const wire::MemberRecord& record : gossip->members) {
    text += fmt::format(", {} {} {}", text_of(record.id), wire::to_string(record.state),
                        record.incarnation);
  }
  for (const wire::Claim& claim : gossip->claims) {
    text += fmt::format(", {} is {} by {}", claim.subject >> 56, wire::to_string(claim.state),
                        claim.by >> 56);
  }
  return text;
}

inline std::string text_of(const Dial& dial) { return "dial " + dial.address; }
inline std::string text_of(const Send& send) {
  return fmt::format("{}: {}", text_of(send.link), text_of(send.message));
}
inline std::string text_of(const Close& close) {
  return fmt::format("{} closed: {}", text_of(close.link), wire::to_string(close.reason));
}
inline std::string text_of(const NeighbourUp& up) { return "up " + text_of(up.peer); }
inline std::string text_of(const NeighbourDown& down) {
  return fmt::format("down {}: {}", text_of(down.peer), to_string(down.reason));
}
inline std::string text_of(const MembersChanged&) { return "members changed"; }
inline std::string text_of(const LinkMet& met) {
  return fmt::format("{} met {}", text_of(met.link), text_of(met.other.id));
}
inline std::string text_of(const RoleSet& set) {
  static constexpr const char* kRoles[] = {"contact", "requested", "neighbour"};
  return fmt::format("{} is {}", text_of(set.link), kRoles[static_cast<std::size_t>(set.role)]);
}
inline std::string text_of(const LinkEnded& ended) { return text_of(ended.link) + " ended"; }
inline std::string text_of(const Accuse& accuse) {
  return fmt::format("accuse {}: {}", text_of(accuse.peer), wire::to_string(accuse.reason));
}
inline std::string text_of(const Admitted& admitted) {
  return text_of(admitted.link) + " admitted";
}
inline std::string text_of(const EndLink& end) {
  return fmt::format("end {}: {}", text_of(end.link), to_string(end.reason));
}
inline std::string text_of(const MemberBack& back) { return "back " + text_of(back.peer); }
inline std::string text_of(const MemberGone& gone) {
  return fmt::format("gone {}{}", text_of(gone.peer), gone.left ? ", left" : "");
}

using Lines = std::vector<std::string>;

inline void expect(const Lines& done, const Lines& expected) {
  BOOST_TEST(fmt::format("{}", fmt::join(done, "\n")) ==
             fmt::format("{}", fmt::join(expected, "\n")));
}

/// Each action on a line; notices are for people and left out.
template <class Actions>
Lines lines_of(const Actions& actions) {
  Lines lines;
  for (const auto& action : actions) {
    std::visit(
        [&](const auto& value) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(value)>, base::LogEntry>) {
            lines.push_back(text_of(value));
          }
        },
        action);
  }
  return lines;
}

inline constexpr base::LinkId link_of(std::uint32_t number) { return {number, 1}; }

/// The peer 5, as one machine. Events and time in, lines out.
template <class Machine, class Event, class Outbox>
class Player {
 public:
  Lines give(Event event) {
    Outbox out;
    machine().handle(std::move(event), now, out);
    settle(out);
    return lines_of(out);
  }
  /// What it does until then is in order of time.
  Lines pass(base::Duration time) {
    Outbox out;
    const base::Time end = now + time;
    for (auto due = next(); due && *due <= end; due = next()) {
      now = std::max(now, *due);
      machine().expire(now, out);
      settle(out);
    }
    now = end;
    return lines_of(out);
  }

  base::Time now{1s};

 protected:
  ~Player() = default;
  virtual Machine& machine() = 0;
  virtual std::optional<base::Time> next() = 0;
  virtual void settle(Outbox& out) = 0;
};

class LoneOverlay final : public Player<Overlay, OverlayEvent, OverlayOutbox> {
 public:
  explicit LoneOverlay(Config config = {.degree = 2})
      : table(record_of(5)),
        signer(id_of(5)),
        progress(id_of(5).prefix(), config.heartbeat, signer),
        watch(config.heartbeat),
        overlay(config, table, progress, watch, rng_) {}

  /// A link that 5 has dialed, or not; `after` it was admitted.
  Lines link(std::uint32_t number, std::uint8_t fill, bool dialed) {
    static_cast<void>(give(LinkReady{link_of(number), record_of(fill), dialed, "", false}));
    return give(Admitted{link_of(number)});
  }
  Lines hear(std::uint32_t number, wire::NeighbourKind kind) {
    return give(Received{link_of(number), wire::Neighbour{kind}});
  }

  MemberTable table;
  SimulatedSigner signer;
  ProgressTable progress;
  Watch watch;

 private:
  Overlay& machine() override { return overlay; }
  std::optional<base::Time> next() override {
    return overlay.next_deadline(now, base::Time::max());
  }
  void settle(OverlayOutbox& out) override { overlay.seek(now, out); }

  base::Rng rng_{7};

 public:
  Overlay overlay;
};

class LoneDetector final : public Player<Detector, DetectorEvent, DetectorOutbox> {
 public:
  explicit LoneDetector(const Config& config = {})
      : signer_(id_of(5)), detector(config, record_of(5), signer_, rng_) {}

  /// A neighbour, by a link that the other end has dialed.
  void neighbour(std::uint32_t number, std::uint8_t fill) {
    static_cast<void>(give(LinkMet{link_of(number), record_of(fill)}));
    static_cast<void>(give(RoleSet{link_of(number), Role::neighbour, false}));
  }
  Lines hear(std::uint32_t number, wire::Message message) {
    return give(Received{link_of(number), std::move(message)});
  }
  [[nodiscard]] wire::MemberState state_of(std::uint8_t fill) const {
    return detector.table().find(id_of(fill))->state;
  }

 private:
  Detector& machine() override { return detector; }
  std::optional<base::Time> next() override { return detector.next_deadline(); }
  void settle(DetectorOutbox& out) override { detector.tell(out); }

  SimulatedSigner signer_;
  base::Rng rng_{7};

 public:
  Detector detector;
};

}  // namespace starling::membership::testing
