#include "io/router/upnp.hpp"

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <miniupnpc/miniupnpc.h>
#include <miniupnpc/upnpcommands.h>
#include <miniupnpc/upnperrors.h>

#include "base/printable.hpp"

namespace starling::io::router {
namespace {

using base::ErrorCode;
using base::fail;

constexpr int kTimeToLive = 2;  // hops; the router is the next one
constexpr int kPermanentLeasesOnly = 725;
constexpr int kConflict = 718;
constexpr char kTcpName[] = "TCP";
constexpr char kDescription[] = "starling";
/// The assumed lifetime of a mapping without an end: it is renewed as often as others.
constexpr base::Duration kPermanent = std::chrono::minutes(20);

struct FreeDevices {
  void operator()(UPNPDev* devices) const noexcept { freeUPNPDevlist(devices); }
};

std::string text_of(int error) {
  const char* const known = strupnperror(error);
  return known == nullptr ? fmt::format("error {}", error) : fmt::format("{} ({})", known, error);
}

/// Whether a URL, such as "http://192.168.1.1:5000/rootDesc.xml", belongs to this host.
bool is_at(std::string_view url, const base::Ip& host) {
  const std::string start = "http://" + host.text();
  return url.starts_with(start) && url.size() > start.size() &&
         (url[start.size()] == ':' || url[start.size()] == '/');
}

}  // namespace

struct Upnp::Device {
  UPNPUrls urls{};
  IGDdatas data{};

  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { FreeUPNPUrls(&urls); }
};

Upnp::Upnp(const base::Ip& own, std::unique_ptr<Device> device)
    : own_(own), device_(std::move(device)) {}

Upnp::~Upnp() = default;

base::Result<std::unique_ptr<Upnp>> Upnp::find(const base::Ip& own, const base::Ip& router) {
  int error = 0;
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(kUpnpWait);
  const std::unique_ptr<UPNPDev, FreeDevices> devices(
      upnpDiscover(static_cast<int>(wait.count()), own.text().c_str(), nullptr, UPNP_LOCAL_PORT_ANY,
                   0, kTimeToLive, &error));
  if (!devices) return fail(ErrorCode::network, "no answer");
  for (const UPNPDev* one = devices.get(); one != nullptr; one = one->pNext) {
    if (!is_at(one->descURL, router)) continue;
    auto device = std::make_unique<Device>();
    std::array<char, 64> lan_address{};
    if (UPNP_GetIGDFromUrl(one->descURL, &device->urls, &device->data, lan_address.data(),
                           lan_address.size()) != 1 ||
        device->urls.controlURL == nullptr || device->data.first.servicetype[0] == '\0') {
      continue;
    }
    // A device may name another host here.
    if (!is_at(device->urls.controlURL, router)) continue;
    return std::unique_ptr<Upnp>(new Upnp(own, std::move(device)));
  }
  return fail(ErrorCode::network, "no device at {} maps ports", router.text());
}

base::Result<Mapping> Upnp::map(std::uint16_t port, std::uint16_t outer_port,
                                base::Duration lifetime) {
  const char* const url = device_->urls.controlURL;
  const char* const service = device_->data.first.servicetype;
  std::array<char, 64> outer{};
  if (const int error = UPNP_GetExternalIPAddress(url, service, outer.data()); error != 0) {
    return fail(ErrorCode::network, "no outer address: {}", text_of(error));
  }
  const auto ip =
      base::Ip::parse(std::string_view(outer.data(), strnlen(outer.data(), outer.size())));
  if (!ip || !ip->is_v4() || ip->is_any()) {
    return fail(ErrorCode::network, "it names no outer address but \"{}\"",
                base::printable(outer.data(), base::kShownMax));
  }
  std::string lease =
      fmt::format("{}", std::chrono::duration_cast<std::chrono::seconds>(lifetime).count());
  int error = 0;
  for (int i = 0; i < kUpnpPortsMax; ++i) {
    const auto wanted = static_cast<std::uint16_t>(outer_port + i);
    if (wanted < outer_port) break;  // none above 65535
    const auto add = [&] {
      return UPNP_AddPortMapping(url, service, fmt::format("{}", wanted).c_str(),
                                 fmt::format("{}", port).c_str(), own_.text().c_str(), kDescription,
                                 kTcpName, nullptr, lease.c_str());
    };
    error = add();
    if (error == kPermanentLeasesOnly) {
      lease = "0";
      lifetime = kPermanent;
      error = add();
    }
    if (error == 0) return Mapping{Protocol::upnp, {*ip, wanted}, lifetime};
    if (error != kConflict) break;
  }
  return fail(ErrorCode::network, "{}", text_of(error));
}

void Upnp::remove(std::uint16_t outer_port) {
  static_cast<void>(
      UPNP_DeletePortMapping(device_->urls.controlURL, device_->data.first.servicetype,
                             fmt::format("{}", outer_port).c_str(), kTcpName, nullptr));
}

}  // namespace starling::io::router
