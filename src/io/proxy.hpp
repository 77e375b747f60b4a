// The proxy through which this peer dials, if any: chosen from an option and from environment
// variables, as curl does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "io/address.hpp"

namespace starling::io {

/// Bytes of a user's name and of a password: SOCKS 5 has no room for more.
inline constexpr std::size_t kProxyLoginMax = 255;
/// The most entries of NO_PROXY; a longer list is an error.
inline constexpr std::size_t kNoProxyMax = 256;

struct ProxyConfig {
  enum class Kind : std::uint8_t {
    socks5,  ///< RFC 1928; host names are passed on, the proxy looks them up (curl's socks5h)
    http,    ///< CONNECT
  };
  struct Login {
    std::string user;
    std::string password;
  };

  Kind kind = Kind::socks5;
  HostPort at;
  std::optional<Login> login;
  /// Hosts, domains, addresses and networks that are dialed without it; "*": all.
  std::vector<std::string> no_proxy;

  /// "socks5://host:port", without user and password: for messages.
  [[nodiscard]] std::string name() const;
  /// Whether `target` is dialed through it: all are but those in no_proxy, and this machine.
  [[nodiscard]] bool serves(const HostPort& target) const;
};

/// Reads "socks5://user:password@host:port"; also socks5h:// and http://, which is the default
/// scheme. Default port 1080, as in curl. Errors (usage) say what is allowed and do not repeat a
/// password.
[[nodiscard]] base::Result<ProxyConfig> parse_proxy(std::string_view url);

/// The value of an environment variable; nothing if it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
[[nodiscard]] std::optional<std::string> process_environment(const char* name);

/// `option`: the proxy on the command line; empty: none. Then come https_proxy and all_proxy, each
/// in lower case first and then in upper case, and no_proxy for the exceptions. An empty variable
/// counts as not set. Errors (usage) name the option or the variable.
[[nodiscard]] base::Result<std::optional<ProxyConfig>> choose_proxy(
    const std::string& option, const Environment& environment = process_environment);

}  // namespace starling::io
