// How to reach a running peer: the files in its folder for other programs on this machine.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace starling::report {

inline constexpr char kPeerFile[] = "peer.json";
/// Beside peer.json; locked while its peer runs, and left there (base::FileLock).
inline constexpr char kLockFile[] = "lock";

struct PeerFile {
  std::string name;
  std::string address;  ///< for links
  std::string control;  ///< of its control port
  std::int64_t pid = 0;
};

/// Writes `dir`/peer.json. Error (ErrorCode::data): it cannot be written.
[[nodiscard]] base::Status write_peer_file(const std::string& dir, const PeerFile& file);

/// Errors (ErrorCode::data): there is none, or it was not written by a peer.
[[nodiscard]] base::Result<PeerFile> read_peer_file(const std::string& dir);

}  // namespace starling::report
