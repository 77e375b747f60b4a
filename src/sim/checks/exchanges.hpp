// The ledger of exchanges: mirrors are the same at both ends of a link, and what exchanges took
// from one replica they gave to another.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/checks/alarm.hpp"
#include "sim/checks/calm.hpp"
#include "sim/checks/subjects.hpp"

namespace starling::sim {

class Exchanges {
 public:
  /// All outlive this.
  Exchanges(const World& world, Subjects& subjects, const Calm& calm, Alarm& alarm)
      : world_(world), subjects_(subjects), calm_(calm), alarm_(alarm) {}

  /// After each event: of the exchanges that it committed.
  void touched(Node& node);
  /// Of each link whose ends have not lost each other since it was opened, the commits of both ends
  /// add up to nothing. Once a second.
  void check_balance(const Node& node);
  void finish();
  /// Of the links that check_balance() met, the part of which it was known what the commits add up
  /// to; nothing: it met none.
  [[nodiscard]] std::optional<double> coverage() const noexcept;

 private:
  void check_mirrors(const Node& node, const base::PeerId& peer);
  /// The peer's process; nothing where it is not up.
  [[nodiscard]] const Node* find_up(const base::PeerId& peer);

  const World& world_;
  Subjects& subjects_;
  const Calm& calm_;
  Alarm& alarm_;
  std::uint64_t commits_ = 0;
  std::uint64_t met_ = 0, balanced_ = 0;  ///< links, once a second each
};

}  // namespace starling::sim
