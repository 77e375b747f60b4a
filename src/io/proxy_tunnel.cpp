#include "io/proxy_tunnel.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/endian.hpp"
#include "base/ip.hpp"
#include "base/parse_number.hpp"
#include "base/printable.hpp"

namespace starling::io {
namespace {

using base::ErrorCode;

constexpr std::uint8_t kSocksVersion = 5;
constexpr std::uint8_t kNoLogin = 0;
constexpr std::uint8_t kPasswordLogin = 2;
constexpr std::uint8_t kNoMethod = 0xff;
constexpr std::uint8_t kLoginVersion = 1;
constexpr std::uint8_t kConnect = 1;
constexpr std::uint8_t kIpv4 = 1;
constexpr std::uint8_t kName = 3;
constexpr std::uint8_t kIpv6 = 4;
constexpr std::size_t kNameMax = 255;
/// Of a reply: version, code, 0, and the kind of the address that follows.
constexpr std::size_t kReplyHead = 4;

constexpr char kLoginAdvice[] =
    "give it a user and a password, as in socks5://USER:PASSWORD@HOST:PORT";

void put(base::Bytes& bytes, std::uint8_t value) { bytes.push_back(std::byte{value}); }

void put(base::Bytes& bytes, std::string_view text) {
  base::append(bytes, base::bytes_of(text.data(), text.size()));
}

void put_sized(base::Bytes& bytes, std::string_view text) {
  put(bytes, static_cast<std::uint8_t>(text.size()));
  put(bytes, text);
}

/// The meaning of a SOCKS reply's code (RFC 1928, section 6), and what to do about it.
std::string reason_of(std::uint8_t code) {
  constexpr std::array<const char*, 9> kReasons{
      "",
      "it failed",
      "its rules do not allow that; ask its operator",
      "it does not reach that network",
      "it does not reach that host",
      "connection refused there",
      "no answer in time",
      "it knows no CONNECT",
      "it does not know this kind of address",
  };
  if (code < kReasons.size()) return kReasons[code];
  return fmt::format("error {}", code);
}

std::string in_base64(std::string_view text) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string coded;
  for (std::size_t i = 0; i < text.size(); i += 3) {
    std::uint32_t bits = 0;
    const std::size_t count = std::min<std::size_t>(3, text.size() - i);
    for (std::size_t j = 0; j < 3; ++j) {
      bits = bits << 8 | (j < count ? static_cast<std::uint8_t>(text[i + j]) : 0U);
    }
    for (std::size_t digit = 0; digit < 4; ++digit) {
      coded += digit <= count ? kDigits[bits >> (18 - 6 * digit) & 63U] : '=';
    }
  }
  return coded;
}

}  // namespace

ProxyTunnel::ProxyTunnel(const ProxyConfig& proxy, const HostPort& target)
    : proxy_(proxy),
      target_(target),
      state_(proxy.kind == ProxyConfig::Kind::http ? State::http : State::method) {
  ASSERT(!target.host.empty() && target.host.size() <= kNameMax);
  state_ == State::http ? say_connect() : say_methods();
}

void ProxyTunnel::say_methods() {
  put(outbox_, kSocksVersion);
  if (proxy_.login) {
    outbox_.insert(outbox_.end(), {std::byte{2}, std::byte{kNoLogin}, std::byte{kPasswordLogin}});
  } else {
    outbox_.insert(outbox_.end(), {std::byte{1}, std::byte{kNoLogin}});
  }
}

void ProxyTunnel::output(base::Bytes& bytes) {
  bytes.insert(bytes.end(), outbox_.begin(), outbox_.end());
  outbox_.clear();
}

base::Error ProxyTunnel::error(const std::string& text) const {
  return {ErrorCode::network, fmt::format("the proxy {}, on the way to {}: {}", proxy_.name(),
                                          to_string(target_), text)};
}

base::Error ProxyTunnel::ended(const std::string& why) const {
  if (!why.empty()) return error(why);
  return error(
      "it ended the connection without an answer; is that its port, and the scheme the right one?");
}

base::Status ProxyTunnel::receive(base::ByteView bytes) {
  ASSERT(!established());
  inbox_.insert(inbox_.end(), bytes.begin(), bytes.end());
  while (!established()) {
    const auto read = step();
    if (!read) return base::fail(read.error());
    if (!*read) return {};
  }
  return {};
}

base::Result<bool> ProxyTunnel::step() {
  switch (state_) {
    case State::method:
      return read_method();
    case State::login:
      return read_login();
    case State::reply:
      return read_reply();
    case State::http:
      return read_http();
    case State::established:
      break;
  }
  return false;
}

base::Result<bool> ProxyTunnel::read_method() {
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint8_t>(inbox_[i]); };
  if (inbox_.empty()) return false;
  if (at(0) != kSocksVersion) {
    return base::fail(error(at(0) == 'H'
                                ? "it speaks HTTP, not SOCKS 5; write http:// before its address"
                                : "it does not speak SOCKS 5; is that its port?"));
  }
  if (inbox_.size() < 2) return false;
  const std::uint8_t method = at(1);
  if (method == kNoMethod) {
    return base::fail(error(proxy_.login ? "it takes no login by user and password"
                                         : fmt::format("it wants a login; {}", kLoginAdvice)));
  }
  if (method != kNoLogin && (method != kPasswordLogin || !proxy_.login)) {
    return base::fail(error(fmt::format("it chose a login that it was not offered ({})", method)));
  }
  inbox_.erase(inbox_.begin(), inbox_.begin() + 2);
  method == kPasswordLogin ? say_login() : say_request();
  return true;
}

void ProxyTunnel::say_login() {
  put(outbox_, kLoginVersion);
  put_sized(outbox_, proxy_.login->user);
  put_sized(outbox_, proxy_.login->password);
  state_ = State::login;
}

base::Result<bool> ProxyTunnel::read_login() {
  if (inbox_.size() < 2) return false;
  // The login's version is 1, but some servers say 5; only the second byte counts.
  if (inbox_[1] != std::byte{0}) {
    return base::fail(error("it refuses this user and password; are they right?"));
  }
  inbox_.erase(inbox_.begin(), inbox_.begin() + 2);
  say_request();
  return true;
}

void ProxyTunnel::say_request() {
  outbox_.insert(outbox_.end(), {std::byte{kSocksVersion}, std::byte{kConnect}, std::byte{0}});
  if (const auto ip = base::Ip::parse(target_.host)) {
    put(outbox_, ip->is_v4() ? kIpv4 : kIpv6);
    base::append(outbox_, std::as_bytes(ip->bytes()));
  } else {
    put(outbox_, kName);
    put_sized(outbox_, target_.host);
  }
  base::append_big(outbox_, target_.port);
  state_ = State::reply;
}

base::Result<bool> ProxyTunnel::read_reply() {
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint8_t>(inbox_[i]); };
  if (inbox_.empty()) return false;
  if (at(0) != kSocksVersion) return base::fail(error("its answer is not one of SOCKS 5"));
  if (inbox_.size() < 2) return false;
  // Some servers send no address with a refusal.
  if (at(1) != 0) return base::fail(error(reason_of(at(1))));
  if (inbox_.size() <= kReplyHead) return false;
  std::size_t size = kReplyHead + sizeof(std::uint16_t);
  switch (at(kReplyHead - 1)) {
    case kIpv4:
      size += 4;
      break;
    case kIpv6:
      size += 16;
      break;
    case kName:
      size += 1UL + at(kReplyHead);
      break;
    default:
      return base::fail(error("its answer has an address of a kind that does not exist"));
  }
  if (inbox_.size() < size) return false;
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<std::ptrdiff_t>(size));
  state_ = State::established;
  return true;
}

void ProxyTunnel::say_connect() {
  const std::string target = to_string(target_);
  std::string text = fmt::format("CONNECT {0} HTTP/1.1\r\nHost: {0}\r\n", target);
  if (proxy_.login) {
    text += fmt::format("Proxy-Authorization: Basic {}\r\n",
                        in_base64(proxy_.login->user + ":" + proxy_.login->password));
  }
  put(outbox_, text + "\r\n");
}

base::Result<bool> ProxyTunnel::read_http() {
  constexpr std::string_view kVersion = "HTTP/1.";
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::string_view text = base::text_of(inbox_);
  if (!text.starts_with(kVersion.substr(0, text.size()))) {
    return base::fail(
        error("it does not speak HTTP; is that its port, and the scheme the right "
              "one?"));
  }
  // Searched only within the bound: later bytes may be the target's.
  const auto end = text.substr(0, kProxyAnswerMax).find(kEnd);
  if (end == std::string_view::npos) {
    if (text.size() < kProxyAnswerMax) return false;
    return base::fail(error(fmt::format("its answer is longer than {} bytes", kProxyAnswerMax)));
  }
  // "HTTP/1.1 200 Connection established"
  const std::string_view line = text.substr(0, text.find("\r\n"));
  const std::size_t code_at = kVersion.size() + 2;
  const auto code = line.size() >= code_at + 3 && line[code_at - 1] == ' '
                        ? base::parse_number<int>(line.substr(code_at, 3))
                        : std::nullopt;
  const std::string said = base::printable(line, base::kShownMax);
  if (!code) return base::fail(error(fmt::format("its answer is not one of HTTP: \"{}\"", said)));
  if (*code == 407) {
    return base::fail(error(
        proxy_.login ? fmt::format("it refuses this user and password: \"{}\"", said)
                     : fmt::format("it wants a login: \"{}\"; give it a user and a password, as in "
                                   "http://USER:PASSWORD@HOST:PORT",
                                   said)));
  }
  if (*code < 200 || *code > 299) {
    return base::fail(error(
        fmt::format("it refuses: \"{}\"; does it allow CONNECT to port {}?", said, target_.port)));
  }
  inbox_.erase(inbox_.begin(), inbox_.begin() + static_cast<std::ptrdiff_t>(end + kEnd.size()));
  state_ = State::established;
  return true;
}

}  // namespace starling::io
