#include "control_client.hpp"

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <httplib.h>
#include <netdb.h>
#include <nlohmann/json.hpp>
#include <signal.h>

#include "base/file_lock.hpp"
#include "base/printable.hpp"
#include "io/address.hpp"
#include "report/peer_file.hpp"

namespace starling::peers {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;
using report::PeerFile;
using report::read_peer_file;

constexpr int kTimeoutSeconds = 5;

/// Whether the peer that wrote this file in its folder is still there.
bool runs(const std::string& dir, const PeerFile& file) {
  // Another user's process cannot be signalled, but exists.
  const bool number_taken = kill(static_cast<pid_t>(file.pid), 0) == 0 || errno == EPERM;
  // Another process may by now have the number of a killed peer.
  return number_taken && !base::FileLock::is_free(dir + "/" + report::kLockFile);
}

/// The folders with a running peer below runs/: runs/<run>/<peer>.
std::vector<std::string> running_peers() {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const auto& run : fs::directory_iterator("runs", ignored)) {
    for (const auto& peer : fs::directory_iterator(run.path(), ignored)) {
      const std::string dir = peer.path().string();
      const auto file = read_peer_file(dir);
      if (file && runs(dir, *file)) found.push_back(dir);
    }
  }
  return found;
}

/// Why no answer came. httplib has one error for an unknown host and for a port without listener.
std::string reason(httplib::Error error, const std::string& host,
                   std::chrono::steady_clock::duration waited) {
  switch (error) {
    case httplib::Error::Connection: {
      addrinfo* list = nullptr;
      const int failed = getaddrinfo(host.c_str(), nullptr, nullptr, &list);
      if (failed != 0)
        return fmt::format("this host name cannot be resolved: {}", gai_strerror(failed));
      freeaddrinfo(list);
      return "nothing listens there, or a firewall is in between";
    }
    case httplib::Error::Read:
      if (waited >= std::chrono::seconds(kTimeoutSeconds)) {
        return fmt::format("something listens there, but says nothing within {} s: is it stopped?",
                           kTimeoutSeconds);
      }
      return "what listens there says nothing that a peer would say";
    default:
      return httplib::to_string(error);
  }
}

/// ": " and the reason that a refusal states, if any.
std::string reason(const std::string& refusal) {
  const auto said = nlohmann::json::parse(refusal, nullptr, false);
  if (!said.is_object()) return "";
  const auto error = said.find("error");
  if (error == said.end() || !error->is_string()) return "";
  return ": " + base::printable(error->get<std::string>(), base::kShownMax);
}

}  // namespace

base::Result<std::string> ask(const std::string& control, const std::string& path, bool post) {
  const auto target = io::parse_target(control);
  if (!target) return fail(ErrorCode::usage, "no control address: {}", target.error().text);
  httplib::Client client(target->host, target->port);
  client.set_connection_timeout(kTimeoutSeconds);
  client.set_read_timeout(kTimeoutSeconds);
  const auto asked = std::chrono::steady_clock::now();
  const auto reply = post ? client.Post(path.c_str()) : client.Get(path.c_str());
  if (!reply) {
    return fail(ErrorCode::unreachable, "no peer answers at {}: {}", control,
                reason(reply.error(), target->host, std::chrono::steady_clock::now() - asked));
  }
  if (reply->status != 200) {
    return fail(ErrorCode::unreachable, "the peer at {} answered {} to {}{}", control,
                reply->status, path, reason(reply->body));
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
  std::error_code failed;
  const fs::file_status there = fs::status(peer, failed);
  if (failed && there.type() != fs::file_type::not_found) {
    return fail(ErrorCode::data, "{}: {}", peer, failed.message());
  }
  if (fs::is_directory(there)) {
    if (!fs::exists(peer + "/" + report::kPeerFile, failed) && !failed) {
      return fail(ErrorCode::usage,
                  "{}: this is not a peer's folder; those of a swarm are below the run's", peer);
    }
    const auto file = read_peer_file(peer);
    if (!file) return fail(file.error());
    if (!runs(peer, *file)) {
      return fail(ErrorCode::unreachable, "the peer of {} (process {}) does not run any more", peer,
                  file->pid);
    }
    return file->control;
  }
  // The control port serves the page too.
  std::string address = peer;
  if (constexpr std::string_view kScheme = "http://"; address.starts_with(kScheme)) {
    address.erase(0, kScheme.size());
    if (address.ends_with('/')) address.pop_back();
  }
  if (address.find(':') == std::string::npos || address.find('/') != std::string::npos) {
    return fail(ErrorCode::usage,
                "'{}': there is no such folder, and it is not an address host:port", peer);
  }
  return address;
}

}  // namespace starling::peers
