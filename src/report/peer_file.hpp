// How a peer that runs is reached: the file in its folder that others on this machine read.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace starling::report {

inline constexpr char kPeerFile[] = "peer.json";

struct PeerFile {
  std::string name;
  std::string address;  ///< for links
  std::string control;  ///< of its control port
  std::int64_t pid = 0;
};

/// Writes `dir`/peer.json. Error (ErrorCode::data): it cannot be written.
[[nodiscard]] base::Status write_peer_file(const std::string& dir, const PeerFile& file);

/// Errors (ErrorCode::data): there is none, or no peer wrote it.
[[nodiscard]] base::Result<PeerFile> read_peer_file(const std::string& dir);

}  // namespace starling::report
