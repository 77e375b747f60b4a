// Maps a port by UPnP: asks the router's Internet Gateway Device (libminiupnpc). All calls block.
#pragma once

#include <cstdint>
#include <memory>

#include "base/ip.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "io/router/line.hpp"

namespace starling::io::router {

/// How long to wait for devices.
inline constexpr base::Duration kUpnpWait = std::chrono::seconds(2);
/// If the port is taken, the next ones are requested, up to this number.
inline constexpr int kUpnpPortsMax = 4;

/// A device that was found. It is remembered, so it can be asked again without a search.
class Upnp {
 public:
  /// Looks for a device at the router's own address; others on the network are not trusted. `own`:
  /// this machine's address. Errors (network) say what is missing.
  [[nodiscard]] static base::Result<std::unique_ptr<Upnp>> find(const base::Ip& own,
                                                                const base::Ip& router);
  Upnp(const Upnp&) = delete;
  Upnp& operator=(const Upnp&) = delete;
  ~Upnp();

  /// Maps TCP `port` of this machine. Requests `outer_port`, and if another machine has it, the
  /// next ones.
  [[nodiscard]] base::Result<Mapping> map(std::uint16_t port, std::uint16_t outer_port,
                                          base::Duration lifetime);
  void remove(std::uint16_t outer_port);

 private:
  struct Device;
  Upnp(const base::Ip& own, std::unique_ptr<Device> device);

  base::Ip own_;
  std::unique_ptr<Device> device_;
};

}  // namespace starling::io::router
