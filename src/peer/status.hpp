// A peer as it describes itself: for the live table, the control port and the summary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "exchange/clip.hpp"
#include "exchange/left_out.hpp"
#include "wire/messages.hpp"

namespace starling::peer {

enum class Phase : std::uint8_t {
  waiting,
  training,
  settling,
  finishing,
  done,
  relaying,  ///< it has no replica
};

[[nodiscard]] const char* to_string(Phase phase) noexcept;

struct LinkStatus {
  base::PeerId peer;
  base::LinkId link;
  std::string name;
  std::string address;
  /// opening, open or broken; in modes without mirrors always open; relay: one end is one
  std::string state;
  std::uint64_t exchange = 0;   ///< number of the last one committed; a new session begins at 1
  std::uint64_t exchanges = 0;  ///< committed as long as the two are neighbours
  double drift = 0;  ///< distance of the other end's mirror, relative to the norm, when last looked
  double density = 0;    ///< fraction of the parameters that was asked for of the last delta
  double bandwidth = 0;  ///< bytes/s of the way there; 0: not known, or too much for deltas to tell
  exchange::Trust trust{};  ///< in its replica, by audits
  double worse = 1;  ///< loss where it pulls to, as a multiple of the own one, when last tried
  std::string via;   ///< name of the member that relays it; empty: it is direct
  std::optional<base::Duration> round_trip;  ///< of heartbeats, smoothed
  base::Duration heard_ago{};                ///< since anything came from there
};

struct MemberStatus {
  wire::MemberRecord record;
  wire::Progress progress;
  wire::DeathReason lost =
      wire::DeathReason::none;  ///< why, where it is not alive and someone told
  bool self = false;
  bool neighbour = false;
  /// Its part of the movement of the swarm's mean replica, by its weight and its samples a second;
  /// nothing while nobody trains.
  std::optional<double> share;
  /// How many times its learning rate is that of most members, or theirs its own, where that is
  /// worth a word.
  std::optional<double> rate_apart;
};

/// A neighbour without which this peer has settled.
struct LeftOut {
  base::PeerId peer;
  std::string name;
  exchange::LeftOutFor why{};
};

struct Status {
  base::PeerId id;
  std::string name;
  wire::RunId run;  ///< zero: of a relay that has found none
  Phase phase = Phase::waiting;
  std::uint64_t steps = 0;           ///< of the optimizer, those of former lives included
  std::uint64_t samples = 0;         ///< trained by this peer
  std::uint64_t swarm_samples = 0;   ///< as far as this peer knows
  std::uint64_t shards = 0;          ///< parts of the training set that this peer owns
  std::uint64_t target_samples = 0;  ///< of the swarm, at which the run ends
  double progress = 0;               ///< of the run, 0 to 1
  double learning_rate = 0;          ///< of the next step
  std::optional<double> train_loss;  ///< of the last batches of this life, smoothed
  std::optional<double> accuracy;    ///< of the latest evaluation, where samples have labels
  std::optional<double> loss;        ///< of the latest evaluation, nats
  bool whole_test_set = false;       ///< the latest evaluation was of all of it
  std::optional<double> drift;       ///< the last, where no link is open any more
  /// Whether it has agreed with others at the end, where there are any; nothing: it has not come so
  /// far, or exchanges no deltas.
  std::optional<bool> settled;
  std::vector<LeftOut> left_out;
  // Of all links there were in this life.
  std::uint64_t exchanges = 0;   ///< committed
  std::uint64_t reopenings = 0;  ///< links whose mirrors were set anew, since they could not go on
  std::uint64_t mismatches = 0;  ///< mirrors that turned out to differ from the other end's
  std::uint64_t lost_steps = 0;  ///< exchanges that one end alone may have committed
  std::optional<base::Time> training_since;  ///< when the first step was handed to the trainer
  std::optional<base::Time> first_step;      ///< when it was done
  std::optional<base::Time> last_step;       ///< when the latest was done
  wire::Reachability reach = wire::Reachability::unknown;
  std::string outer;                ///< address that others see this peer at; empty: none told
  std::uint64_t relayed = 0;        ///< circuits that it relays
  std::uint64_t relayed_bytes = 0;  ///< of those that are over
  std::vector<LinkStatus> links;
  std::vector<MemberStatus> members;
};

}  // namespace starling::peer
