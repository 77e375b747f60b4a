#include "io/address.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "base/parse_number.hpp"
#include "base/printable.hpp"

namespace starling::io {
namespace {

constexpr std::size_t kHostMax = 253;  // bytes of a DNS name

addrinfo hints() {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  return wanted;
}

base::Result<sockaddr_in> first_address(const HostPort& target, int status, const addrinfo* list) {
  if (status != 0 || list == nullptr) {
    return base::fail(base::ErrorCode::network,
                      "{}: this host name cannot be resolved to an IPv4 address: {}", target.host,
                      status != 0 ? uv_strerror(status) : "no address");
  }
  sockaddr_in address = *reinterpret_cast<const sockaddr_in*>(list->ai_addr);
  address.sin_port = htons(target.port);
  return address;
}

/// Addresses may come from other peers.
tl::unexpected<base::Error> not_an_address(std::string_view address, const char* what) {
  return base::fail(base::ErrorCode::network,
                    "\"{}\" is not an address: {}; write host:port, as in 192.168.1.5:7000",
                    base::printable(address, kHostMax), what);
}

}  // namespace

base::Result<HostPort> parse_address(std::string_view address) {
  const auto bad = [&](const char* what) { return not_an_address(address, what); };
  if (address.find("://") != std::string_view::npos) return bad("it is a URL");
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos) return bad("the port is missing");
  const std::string_view host = address.substr(0, colon);
  const std::string_view digits = address.substr(colon + 1);
  if (host.find(':') != std::string_view::npos || host.starts_with('[')) {
    return bad("IPv6 is not supported");
  }
  if (host.empty()) return bad("the host is missing");
  if (host.size() > kHostMax) return bad("the host name is too long");
  const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
  if (!std::ranges::all_of(host, is_plain)) {
    return bad(
        "the host name has other characters than a name server knows (another alphabet is "
        "written as xn--...)");
  }
  const auto port = base::parse_number<std::uint16_t>(digits);
  if (!port) return bad("the port must be a number from 0 to 65535");
  return HostPort{std::string(host), *port};
}

base::Result<HostPort> parse_target(std::string_view address) {
  auto parsed = parse_address(address);
  if (parsed && parsed->port == 0) return not_an_address(address, "nobody has the port 0");
  return parsed;
}

std::string to_string(const sockaddr_in& address) {
  char host[INET_ADDRSTRLEN] = {};
  uv_ip4_name(&address, host, sizeof host);
  return fmt::format("{}:{}", host, ntohs(address.sin_port));
}

std::optional<sockaddr_in> numeric_address(const HostPort& target) {
  sockaddr_in address{};
  if (uv_ip4_addr(target.host.c_str(), target.port, &address) != 0) return std::nullopt;
  return address;
}

bool is_own_client(const sockaddr_in& client, const sockaddr_in& reached) {
  const bool loopback = (ntohl(client.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  return loopback || client.sin_addr.s_addr == reached.sin_addr.s_addr;
}

base::Result<sockaddr_in> resolve_now(Loop& loop, const HostPort& target) {
  const addrinfo wanted = hints();
  uv_getaddrinfo_t request{};
  const int status =
      uv_getaddrinfo(loop.raw(), &request, nullptr, target.host.c_str(), nullptr, &wanted);
  auto address = first_address(target, status, request.addrinfo);
  uv_freeaddrinfo(request.addrinfo);
  return address;
}

std::string interface_of(const sockaddr_in& address) {
  uv_interface_address_t* list = nullptr;
  int count = 0;
  if (uv_interface_addresses(&list, &count) != 0) return {};
  std::string name;
  for (int i = 0; i < count; ++i) {
    const sockaddr_in& own = list[i].address.address4;
    if (own.sin_family == AF_INET && own.sin_addr.s_addr == address.sin_addr.s_addr) {
      name = list[i].name;
      break;
    }
  }
  uv_free_interface_addresses(list, count);
  // An alias such as eth0:1 is no device.
  return name.substr(0, name.find(':'));
}

struct Resolver::Request {
  uv_getaddrinfo_t uv{};
  std::string host;
  Resolver* owner = nullptr;       ///< none once it is forgotten
  std::vector<Lookup*> waiting{};  ///< in the order they came

  static void finished(uv_getaddrinfo_t* uv, int status, addrinfo* list) {
    const std::unique_ptr<Request> self(static_cast<Request*>(uv->data));
    if (self->owner != nullptr) self->owner->requests_.erase(self->host);
    while (!self->waiting.empty()) {
      Lookup& lookup = *self->waiting.front();
      self->waiting.erase(self->waiting.begin());
      lookup.request_ = nullptr;
      // Out of the lookup, which may be destroyed inside.
      const Lookup::Done done = std::move(lookup.done_);
      done(first_address(lookup.target_, status, list));
    }
    uv_freeaddrinfo(list);
  }
};

Resolver::~Resolver() {
  for (const auto& [host, request] : requests_) {
    ASSERT(request->waiting.empty(), "a lookup outlived its resolver");
    request->owner = nullptr;
  }
}

Lookup::Lookup(Resolver& resolver, HostPort target, Done done)
    : target_(std::move(target)), done_(std::move(done)) {
  Resolver::Request*& request = resolver.requests_[target_.host];
  if (request == nullptr) {
    request = new Resolver::Request{{}, target_.host, &resolver};
    request->uv.data = request;
    const addrinfo wanted = hints();
    ASSERT(uv_getaddrinfo(resolver.loop().raw(), &request->uv, Resolver::Request::finished,
                          target_.host.c_str(), nullptr, &wanted) == 0,
           "libuv refused a name lookup");
  }
  request->waiting.push_back(this);
  request_ = request;
}

Lookup::~Lookup() {
  if (request_ == nullptr) return;
  std::erase(request_->waiting, this);
  if (!request_->waiting.empty()) return;
  // Fails if it runs: then who asks next gets its answer.
  if (uv_cancel(reinterpret_cast<uv_req_t*>(&request_->uv)) != 0) return;
  request_->owner->requests_.erase(request_->host);
  request_->owner = nullptr;
}

}  // namespace starling::io
