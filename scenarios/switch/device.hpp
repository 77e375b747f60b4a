// A TAP device inside a network namespace: the kernel's end of a switch port.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "fabric.hpp"

namespace starling::net_switch {

/// The name of the device inside its namespace.
inline constexpr char kDeviceName[] = "eth0";

/// Owns the descriptor; the device disappears with it. At first it is down and has no IP address.
class Device {
 public:
  /// Makes the device of a port in the namespace that `ip netns` knows by that name. When this
  /// returns, the calling thread is in its own namespace again. Needs CAP_NET_ADMIN and
  /// CAP_SYS_ADMIN.
  [[nodiscard]] static base::Result<Device> create(const std::string& name_space, std::size_t port,
                                                   int mtu);
  Device(Device&& other) noexcept;
  Device& operator=(Device&& other) = delete;
  ~Device();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Reads a frame; returns its size, or 0 if there is none now.
  [[nodiscard]] std::size_t read(std::span<std::uint8_t> into) const;
  /// Hands a frame to the kernel; false if it does not take the frame (the device is down).
  bool write(const Frame& frame) const;

 private:
  explicit Device(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace starling::net_switch
