// The lines on a terminal while a peer trains.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "peer/status.hpp"

namespace starling::runtime {

/// Between two progress lines.
inline constexpr base::Duration kProgressEvery = std::chrono::seconds(10);

class ProgressLines {
 public:
  /// Lines on who joined, left or died since the last call, and now and then a progress line.
  /// `trained`: how long, in this life of the peer.
  [[nodiscard]] std::string tell(const peer::Status& status, base::Duration trained,
                                 std::uint64_t bytes_sent, base::Time now);

 private:
  [[nodiscard]] std::string changes(const peer::Status& status);

  std::map<base::PeerId, wire::MemberState> told_;
  std::optional<base::Time> line_at_;  ///< of the last progress line
};

}  // namespace starling::runtime
