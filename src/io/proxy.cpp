#include "io/proxy.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include <fmt/core.h>

#include "base/ip.hpp"
#include "base/parse_number.hpp"
#include "base/printable.hpp"

namespace starling::io {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::uint16_t kDefaultPort = 1080;
constexpr char kAllowed[] =
    "write socks5://HOST:PORT, or http://HOST:PORT for a proxy that knows CONNECT; with a login "
    "socks5://USER:PASSWORD@HOST:PORT";

std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return small;
}

/// Decodes percent-encoded text; nothing if a '%' is not followed by two digits.
std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i];
      continue;
    }
    const auto code = base::parse_number<std::uint8_t>(text.substr(i + 1, 2), 16);
    if (i + 2 >= text.size() || !code) return std::nullopt;
    plain += static_cast<char>(*code);
    i += 2;
  }
  return plain;
}

base::Result<ProxyConfig::Login> parse_login(std::string_view text) {
  const auto colon = text.find(':');
  const auto user = decoded(text.substr(0, colon));
  const auto password =
      decoded(colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1));
  if (!user || !password) {
    return fail(ErrorCode::usage,
                "in user and password a '%' stands before two hexadecimal digits; write it as %25");
  }
  if (user->empty()) return fail(ErrorCode::usage, "the user's name before '@' is missing");
  if (user->size() > kProxyLoginMax || password->size() > kProxyLoginMax) {
    return fail(ErrorCode::usage, "user and password have at most {} bytes each", kProxyLoginMax);
  }
  const auto is_control = [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; };
  if (std::ranges::any_of(*user + *password, is_control)) {
    return fail(ErrorCode::usage, "user and password have no control characters");
  }
  return ProxyConfig::Login{*user, *password};
}

/// "host", "host:port", "[v6]" or "[v6]:port".
base::Result<HostPort> parse_place(std::string_view place) {
  const auto before_port = place.starts_with('[') ? std::min(place.find(']'), place.size()) : 0;
  std::string address(place);
  if (place.find(':', before_port) == std::string_view::npos) {
    address += fmt::format(":{}", kDefaultPort);
  }
  return parse_target(address);
}

// --- which targets it serves ---

/// Without the interface; nothing for names.
std::optional<base::Ip> numeric(std::string_view host) {
  return base::Ip::parse(host.substr(0, host.find('%')));
}

bool is_in_network(const base::Ip& address, std::string_view network) {
  const auto slash = network.find('/');
  const auto first = numeric(network.substr(0, slash));
  if (!first || slash == std::string_view::npos) return first == address;
  const auto bits = base::parse_number<std::uint8_t>(network.substr(slash + 1));
  return bits && address.shares_prefix(*first, *bits);
}

/// "example.com" and ".example.com" mean that host and all of its domain.
bool is_in_domain(std::string_view host, std::string_view domain) {
  while (domain.starts_with('.')) domain.remove_prefix(1);
  if (domain.ends_with('.')) domain.remove_suffix(1);
  if (domain.empty() || !host.ends_with(domain)) return false;
  return host.size() == domain.size() || host[host.size() - domain.size() - 1] == '.';
}

bool is_this_machine(const std::string& host) {
  if (host == "localhost" || host.ends_with(".localhost")) return true;
  const auto address = numeric(host);
  return address && address->is_loopback();
}

base::Result<std::vector<std::string>> parse_no_proxy(std::string_view text) {
  std::vector<std::string> entries;
  constexpr std::string_view kBetween = ", \t";
  for (auto begin = text.find_first_not_of(kBetween); begin != std::string_view::npos;
       begin = text.find_first_not_of(kBetween)) {
    text.remove_prefix(begin);
    const std::string_view entry = text.substr(0, text.find_first_of(kBetween));
    text.remove_prefix(entry.size());
    std::string small = in_small_letters(entry);
    if (small.starts_with('[') && small.ends_with(']')) small = small.substr(1, small.size() - 2);
    if (entries.size() == kNoProxyMax) {
      return fail(ErrorCode::usage, "it has more than {} entries; name networks as 10.0.0.0/8",
                  kNoProxyMax);
    }
    entries.push_back(std::move(small));
  }
  return entries;
}

}  // namespace

std::string ProxyConfig::name() const {
  return fmt::format("{}://{}", kind == Kind::http ? "http" : "socks5", to_string(at));
}

bool ProxyConfig::serves(const HostPort& target) const {
  std::string host = in_small_letters(target.host);
  if (host.ends_with('.')) host.pop_back();
  if (is_this_machine(host)) return false;
  const auto address = numeric(host);
  return std::ranges::none_of(no_proxy, [&](const std::string& entry) {
    if (entry == "*") return true;
    return address ? is_in_network(*address, entry) : is_in_domain(host, entry);
  });
}

base::Result<ProxyConfig> parse_proxy(std::string_view url) {
  std::string scheme = "http";  // as in curl
  std::string_view rest = url;
  if (const auto end = url.find("://"); end != std::string_view::npos) {
    scheme = in_small_letters(url.substr(0, end));
    rest = url.substr(end + 3);
  }
  ProxyConfig proxy;
  if (scheme == "http") {
    proxy.kind = ProxyConfig::Kind::http;
  } else if (scheme != "socks5" && scheme != "socks5h") {
    return fail(ErrorCode::usage, "a proxy of kind \"{}\" is not known: {}",
                base::printable(scheme, base::kShownMax), kAllowed);
  }
  if (const auto end = rest.find_last_of('@'); end != std::string_view::npos) {
    auto login = parse_login(rest.substr(0, end));
    if (!login) return fail(login.error().code, "{}: {}", login.error().text, kAllowed);
    proxy.login = std::move(*login);
    rest = rest.substr(end + 1);
  }
  if (const auto end = rest.find('/'); end != std::string_view::npos) {
    if (end + 1 != rest.size()) {
      return fail(ErrorCode::usage, "after the port of a proxy nothing follows: {}", kAllowed);
    }
    rest = rest.substr(0, end);
  }
  auto place = parse_place(rest);
  if (!place) return fail(ErrorCode::usage, "{}; {}", place.error().text, kAllowed);
  proxy.at = std::move(*place);
  return proxy;
}

std::optional<std::string> process_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

base::Result<std::optional<ProxyConfig>> choose_proxy(const std::string& option,
                                                      const Environment& environment) {
  const auto set = [&](const char* name) -> std::optional<std::string> {
    auto value = environment(name);
    return value && !value->empty() ? value : std::nullopt;
  };
  std::string url = option;
  std::string source = "--proxy";
  for (const char* name : {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) {
    if (!url.empty()) break;
    url = set(name).value_or("");
    source = name;
  }
  if (url.empty()) return std::optional<ProxyConfig>();
  auto proxy = parse_proxy(url);
  if (!proxy) return fail(proxy.error().in(source));
  for (const char* name : {"no_proxy", "NO_PROXY"}) {
    const auto value = set(name);
    if (!value) continue;
    auto entries = parse_no_proxy(*value);
    if (!entries) return fail(entries.error().in(name));
    proxy->no_proxy = std::move(*entries);
    break;
  }
  return std::optional(std::move(*proxy));
}

}  // namespace starling::io
