// A peer's control port: HTTP/1.1 on the loopback interface, for `starling status` and its like.
// Parsing by http_parser (github.com/nodejs/http-parser).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.hpp"

struct uv_loop_s;

namespace starling::io {

struct ControlRequest {
  bool post = false;  ///< else GET
  std::string path;   ///< "/status"
};

struct ControlReply {
  int code = 404;
  std::string body;  ///< JSON
};

/// Serves requests on the loop's thread. One request a connection.
class Control {
 public:
  static constexpr std::size_t kConnectionsMax = 32;
  static constexpr std::size_t kRequestMax = 8 * 1024;  ///< bytes; a longer one is cut off
  static constexpr std::uint64_t kConnectionTimeoutMs = 5000;

  using Serve = std::function<ControlReply(const ControlRequest&)>;

  /// Listens on 127.0.0.1 at any free port.
  [[nodiscard]] static base::Result<std::unique_ptr<Control>> create(uv_loop_s* loop, Serve serve);
  /// close() must have been called, and the loop run until it had ended.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// "127.0.0.1:port".
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  /// Stops listening and closes every connection; the handles end in the loop's next turns.
  void close();

 private:
  struct Impl;
  Control() = default;

  std::unique_ptr<Impl> impl_;
  std::string address_;
};

}  // namespace starling::io
