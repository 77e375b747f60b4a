#include "control_client.hpp"

#include <filesystem>
#include <vector>

#include <fmt/format.h>
#include <httplib.h>
#include <signal.h>

#include "report/peer_file.hpp"

namespace starling::peers {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;
using report::PeerFile;
using report::read_peer_file;

constexpr int kTimeoutSeconds = 5;

bool runs(const PeerFile& file) { return kill(static_cast<pid_t>(file.pid), 0) == 0; }

/// The folders with a running peer below runs/: runs/<run>/<peer>.
std::vector<std::string> running_peers() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator("runs", ignored)) {
    for (const auto& peer : fs::directory_iterator(run.path(), ignored)) {
      const auto file = read_peer_file(peer.path().string());
      if (file && runs(*file)) found.push_back(peer.path().string());
    }
  }
  return found;
}

}  // namespace

base::Result<std::string> ask(const std::string& control, const std::string& path, bool post) {
  const std::size_t colon = control.rfind(':');
  const std::string host = control.substr(0, colon);
  const std::string port_text = colon == std::string::npos ? "" : control.substr(colon + 1);
  char* end = nullptr;
  const long port = std::strtol(port_text.c_str(), &end, 10);
  if (host.empty() || port_text.empty() || *end != '\0' || port < 1 || port > 65535) {
    return fail(ErrorCode::usage, "'{}' is no control address: it needs host:port", control);
  }
  httplib::Client client(host, static_cast<int>(port));
  client.set_connection_timeout(kTimeoutSeconds);
  client.set_read_timeout(kTimeoutSeconds);
  const auto reply = post ? client.Post(path.c_str()) : client.Get(path.c_str());
  if (!reply) {
    return fail(ErrorCode::unreachable, "no peer answers at {} ({})", control,
                httplib::to_string(reply.error()));
  }
  if (reply->status != 200) {
    return fail(ErrorCode::unreachable, "the peer at {} answered {} to {}", control, reply->status,
                path);
  }
  return reply->body;
}

base::Result<std::string> find_control(const std::string& peer) {
  if (peer.empty()) {
    const auto running = running_peers();
    if (running.empty()) {
      return fail(ErrorCode::unreachable,
                  "no peer runs below runs/ here; name one with --peer FOLDER");
    }
    if (running.size() > 1) {
      return fail(ErrorCode::usage, "several peers run here, name one with --peer: {}",
                  fmt::join(running, ", "));
    }
    return find_control(running.front());
  }
  if (fs::is_directory(peer)) {
    const auto file = read_peer_file(peer);
    if (!file) return fail(file.error());
    if (!runs(*file)) {
      return fail(ErrorCode::unreachable, "the peer of {} (process {}) does not run any more", peer,
                  file->pid);
    }
    return file->control;
  }
  return peer;
}

}  // namespace starling::peers
