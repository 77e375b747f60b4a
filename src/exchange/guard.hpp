// What a replica keeps of each neighbour to bound how far that one may move it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "delta/end_parts.hpp"
#include "exchange/clip.hpp"
#include "exchange/headings.hpp"

namespace starling::exchange {

/// One neighbour. Both ends' deltas of an exchange are staged, and then committed or dropped.
class Guard {
 public:
  /// An exchange that averages.
  struct Exchange {
    delta::EndParts parts{};
    double before = 0;  ///< between the mirrors, without its deltas
    double apart = 0;   ///< with them
  };

  /// `apart`: how far the mirrors are from each other now.
  void set_trust(Trust trust, double apart) noexcept;
  /// Unless what vouched for it no longer counts: it pulls much harder since.
  [[nodiscard]] Trust trust() const noexcept;
  [[nodiscard]] bool moves() const noexcept { return trust_ != Trust::none; }
  /// How far the mirrors were from each other when trust was set last.
  [[nodiscard]] double tried_apart() const noexcept { return tried_apart_; }

  /// The own delta of the next exchange is so many times as late as usual.
  void set_lag(double lag) noexcept { lag_ = lag; }
  /// `looks_at_headings`: it counts where the neighbour goes.
  void stage(const Exchange& exchange, const delta::Elements& own, const delta::Elements& their,
             bool looks_at_headings);
  /// One that does not average: nothing moves.
  void stage_nothing() noexcept;
  void commit() noexcept;

  /// Of the last exchange that averaged, had it not been late; its `pulled` and `told` grow slowly.
  [[nodiscard]] const std::optional<Reach>& reach() const noexcept { return reach_; }
  /// What the exchange that is staged is like.
  [[nodiscard]] const Reach& staged() const noexcept { return now_; }
  /// Committed ones.
  [[nodiscard]] std::uint64_t exchanges() const noexcept { return exchanges_; }
  [[nodiscard]] double cosine() const { return headings_.cosine(); }

  /// In settling: how many times as bad this replica is by the neighbour's exchanges, one more
  /// included that makes it `worse` times as bad, and goes the part `moves` of the way.
  [[nodiscard]] double worse_with(double worse, double moves) const;
  void set_worse(double worse) noexcept;

 private:
  Trust trust_ = Trust::unknown;
  double tried_pull_ = 0;   // Reach::pulled when trust was set
  double tried_apart_ = 0;  // likewise
  double lag_ = 1.0;
  Headings headings_{};
  double told_most_ = std::numeric_limits<double>::infinity();  // as of told_most(), lately
  std::optional<Reach> reach_{};
  std::uint64_t exchanges_ = 0;
  double worse_ = 1;  // than before, by its exchanges in settling
  // The staged exchange:
  std::optional<Reach> staged_reach_{};
  Reach now_{};
};

}  // namespace starling::exchange
