#include "device.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.hpp"

namespace starling::net_switch {
namespace {

using base::ErrorCode;
using base::fail;

/// A descriptor that is closed at the end of its scope.
class Scoped {
 public:
  explicit Scoped(int descriptor) : descriptor_(descriptor) {}
  Scoped(const Scoped&) = delete;
  Scoped& operator=(const Scoped&) = delete;
  ~Scoped() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

/// Why the last system call failed, and the usual cause.
std::string reason() {
  const int error = errno;
  const std::string text = std::strerror(error);
  return error == EPERM || error == EACCES ? text + " (network namespaces need root)" : text;
}

/// Sets address and size of the device, from inside its namespace.
base::Status configure(std::size_t port, int mtu) {
  const Scoped socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return fail(ErrorCode::network, "no socket: {}", reason());
  ifreq request{};
  std::strncpy(request.ifr_name, kDeviceName, IFNAMSIZ - 1);
  request.ifr_hwaddr.sa_family = 1;  // Ethernet
  const auto mac = mac_of(port);
  std::memcpy(request.ifr_hwaddr.sa_data, mac.data(), mac.size());
  if (ioctl(socket.get(), SIOCSIFHWADDR, &request) != 0) {
    return fail(ErrorCode::network, "the device takes no address: {}", reason());
  }
  request.ifr_mtu = mtu;
  if (ioctl(socket.get(), SIOCSIFMTU, &request) != 0) {
    return fail(ErrorCode::network, "the device takes no MTU of {}: {}", mtu, reason());
  }
  return {};
}

base::Result<int> open_here(std::size_t port, int mtu) {
  Scoped tun(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (tun.get() < 0) return fail(ErrorCode::network, "/dev/net/tun: {}", reason());
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::strncpy(request.ifr_name, kDeviceName, IFNAMSIZ - 1);
  if (ioctl(tun.get(), TUNSETIFF, &request) != 0) {
    return fail(ErrorCode::network, "cannot make a TAP device: {}", reason());
  }
  if (auto configured = configure(port, mtu); !configured) return fail(configured.error());
  return tun.release();
}

}  // namespace

base::Result<Device> Device::create(const std::string& name_space, std::size_t port, int mtu) {
  const Scoped home(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  const Scoped there(::open(("/run/netns/" + name_space).c_str(), O_RDONLY | O_CLOEXEC));
  if (home.get() < 0 || there.get() < 0) {
    return fail(ErrorCode::network, "network namespace {}: {}", name_space, reason());
  }
  if (setns(there.get(), CLONE_NEWNET) != 0) {
    return fail(ErrorCode::network, "cannot enter network namespace {}: {}", name_space, reason());
  }
  auto opened = open_here(port, mtu);
  ASSERT(setns(home.get(), CLONE_NEWNET) == 0, "the way back is open");
  if (!opened) return fail(opened.error().in("network namespace " + name_space));
  return Device(*opened);
}

Device::Device(Device&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

Device::~Device() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::size_t Device::read(std::span<std::uint8_t> into) const {
  const ssize_t size = ::read(descriptor_, into.data(), into.size());
  return size > 0 ? static_cast<std::size_t>(size) : 0;
}

bool Device::write(const Frame& frame) const {
  return ::write(descriptor_, frame.data(), frame.size()) == static_cast<ssize_t>(frame.size());
}

}  // namespace starling::net_switch
