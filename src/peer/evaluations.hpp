// A peer's evaluations: when one is due, and what the latest says.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.hpp"
#include "peer/config.hpp"
#include "peer/events.hpp"

namespace starling::peer {

class Evaluations {
 public:
  /// `config` outlives this.
  explicit Evaluations(const Config& config) : config_(config) {}

  /// Asks for one, if it is due while the run goes on: the run file tells by the number of samples
  /// that this peer (`own`) or all peers (`swarm`) have trained.
  void begin_if_due(std::uint64_t own, std::uint64_t swarm, Outbox& out);
  /// Asks for the last one, of the whole test set.
  void begin_last(Outbox& out);
  /// Takes the outcome of one; nothing: there was nothing to evaluate with.
  void end(const std::optional<Evaluated>& evaluated);

  /// Asked for, and without an outcome.
  [[nodiscard]] std::uint32_t under_way() const noexcept { return under_way_; }
  [[nodiscard]] const std::optional<Evaluated>& latest() const noexcept { return latest_; }
  /// The latest is as accurate as the run is to become.
  [[nodiscard]] bool reached_target() const noexcept;
  /// Why a peer cannot go on after the latest, or cannot be done with it.
  [[nodiscard]] std::optional<base::Error> what_diverged() const;

 private:
  const Config& config_;
  std::uint64_t due_ = 0;  ///< number of those that were due
  std::uint32_t under_way_ = 0;
  std::optional<Evaluated> latest_;
};

}  // namespace starling::peer
