// A peer's HTTP/1.1 port, for `starling status` and similar commands, its page in a browser, and
// Prometheus. Boost.Beast does the parsing (github.com/boostorg/beast).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "io/address.hpp"

namespace starling::io {

struct ControlRequest {
  bool post = false;  ///< otherwise GET
  std::string path;   ///< "/status", without a query
};

struct ControlReply {
  int code = 404;
  std::string body;
  std::string_view type = "application/json";  ///< media type, from a constant
};

/// An answer that says in JSON what is wrong. `text` needs no escapes.
[[nodiscard]] ControlReply error_reply(int code, std::string_view text);

/// Serves requests on the loop's thread. One request per connection; its body is ignored.
///
/// POSTs, which control a peer, are served only for programs on this machine: they must come from
/// it, and not from a browser. GETs are also served for a page from here. A request that names a
/// host other than this one is refused: another site's name may have been made to lead here.
class Control {
 public:
  static constexpr std::size_t kConnectionsMax = 32;
  static constexpr std::size_t kOwnConnections = 8;         ///< of these, only for this machine
  static constexpr std::size_t kRequestMax = 8 * 1024;      ///< bytes; a longer one is cut off
  static constexpr std::uint64_t kRequestTimeoutMs = 5000;  ///< until a request is there
  static constexpr std::uint64_t kReplyTimeoutMs =
      30'000;  ///< until its answer is sent: a narrow line

  using Serve = std::function<ControlReply(const ControlRequest&)>;
  /// Whether a client is on this machine: is_own_client, except in tests.
  using IsOwn = std::function<bool(const base::Ip& client, const base::Ip& reached)>;

  /// Listens at `address`, "host:port"; port 0: any free one. Error (network): this is not an
  /// address, or it is not available.
  [[nodiscard]] static base::Result<std::unique_ptr<Control>> create(Loop& loop,
                                                                     std::string_view address,
                                                                     Serve serve,
                                                                     IsOwn is_own = is_own_client);
  /// close() must have been called, and the loop run until it had ended.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  /// "ip:port" at which programs on this machine reach it.
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
