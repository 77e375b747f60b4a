// Asking a running peer through its control port.
#pragma once

#include <string>

#include "base/result.hpp"

namespace starling::peers {

/// The file in a peer's folder that says how to reach it while it runs.
inline constexpr char kPeerFile[] = "peer.json";

/// GET or POST of `path` ("/status") at "host:port". The reply's body.
/// Errors (unreachable): nobody answers there, or the reply is not a success.
[[nodiscard]] base::Result<std::string> ask(const std::string& control, const std::string& path,
                                            bool post = false);

/// The control address of a peer named by "host:port", its folder, or "" (the only one that runs
/// below `runs`). Errors (usage) say which peers there are.
[[nodiscard]] base::Result<std::string> find_control(const std::string& peer);

/// What a peer writes of itself for others on this machine.
struct PeerFile {
  std::string name;
  std::string address;  ///< for links
  std::string control;
  std::int64_t pid = 0;
};
[[nodiscard]] base::Status write_peer_file(const std::string& dir, const PeerFile& file);
[[nodiscard]] base::Result<PeerFile> read_peer_file(const std::string& dir);

}  // namespace starling::peers
