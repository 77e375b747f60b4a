// A peer as it describes itself: for the live table, the control port and the summary.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/peer_id.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "wire/messages.hpp"

namespace starling::peer {

enum class Phase : std::uint8_t { waiting, training, settling, finishing, done };

[[nodiscard]] const char* to_string(Phase phase) noexcept;

struct LinkStatus {
  base::PeerId peer;
  base::LinkId link;
  std::string name;
  std::string address;
  std::string state;  ///< of the exchange: opening, open, ...
  std::uint64_t exchange = 0;
  double drift = 0;
  double density = 0;
  double bandwidth = 0;  ///< bytes/s of the way there; 0: not known, or too much for deltas to tell
  std::optional<base::Duration> round_trip;
  base::Duration heard_ago{};
};

struct MemberStatus {
  wire::MemberRecord record;
  wire::Progress progress;
  wire::DeathReason lost =
      wire::DeathReason::none;  ///< why, where it is not alive and someone told
  bool self = false;
  bool neighbour = false;
};

struct Status {
  base::PeerId id;
  std::string name;
  Phase phase = Phase::waiting;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;        ///< trained by this peer
  std::uint64_t swarm_samples = 0;  ///< as far as this peer knows
  std::uint64_t shards = 0;         ///< parts of the training set that this peer owns
  std::uint64_t target_samples = 0;
  double progress = 0;
  double learning_rate = 0;
  std::optional<double> train_loss;  ///< of the last batches of this life, smoothed
  std::optional<double> accuracy;    ///< of the latest evaluation, where samples have labels
  std::optional<double> loss;
  bool whole_test_set = false;  ///< the latest evaluation was of all of it
  std::optional<double> drift;  ///< the last, where no link is open any more
  std::uint64_t exchanges = 0;
  std::optional<base::Time> training_since;  ///< when the first step was handed to the trainer
  std::optional<base::Time> first_step;      ///< when it was done
  std::optional<base::Time> last_step;       ///< when the latest was done
  std::vector<LinkStatus> links;
  std::vector<MemberStatus> members;
};

}  // namespace starling::peer
