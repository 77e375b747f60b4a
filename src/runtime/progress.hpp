// What somebody who watches a peer on a terminal is told while it trains.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "peer/status.hpp"

namespace starling::runtime {

/// Between two lines on how it goes.
inline constexpr base::Duration kProgressEvery = std::chrono::seconds(10);

class ProgressLines {
 public:
  /// Lines on who joined, left or died since the last call, and now and then one on how it goes.
  /// `trained`: for so long in this life of the peer.
  [[nodiscard]] std::string tell(const peer::Status& status, base::Duration trained,
                                 std::uint64_t bytes_sent, base::Time now);

 private:
  [[nodiscard]] std::string changes(const peer::Status& status);

  std::map<base::PeerId, wire::MemberState> told_;
  std::optional<base::Time> line_at_;  ///< of the last line on how it goes
};

}  // namespace starling::runtime
