// The interface between the program and the UCX module: UCX on one fabric, without UCX's types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/ip.hpp"
#include "base/port_range.hpp"
#include "base/result.hpp"
#include "io/carrier.hpp"

namespace starling::io::ucx {

/// Where UCX is to run: on one network interface, at one of its addresses.
struct FabricConfig {
  std::string device;     ///< "lo", "eth0"
  base::Ip address;       ///< the interface's own: UCX listens there and nowhere else
  base::PortRange ports;  ///< for all its listeners
};

/// One context, worker and listener of UCX. Not thread-safe, and nothing is reported by callback.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// Every carrier must be gone.
  virtual ~Engine() = default;

  /// Readable when there is something to do, once arm() has agreed.
  [[nodiscard]] virtual int descriptor() const noexcept = 0;
  /// Where its connection manager listens.
  [[nodiscard]] virtual std::uint16_t port() const noexcept = 0;
  /// Does a bounded part of the work that is due. True if there was something.
  virtual bool progress() = 0;
  /// True: the descriptor will report the next event. False: there is something to do already.
  [[nodiscard]] virtual bool arm() = 0;

  /// From now on, only packets from these addresses reach UCX's listeners; at first none do. Error
  /// (network): the system refused; then nothing has changed, or nobody is let in.
  [[nodiscard]] virtual base::Status allow(std::span<const base::Ip> members) = 0;
  /// Cuts the connections that this address has made to UCX.
  virtual void shut(const base::Ip& member) = 0;

  /// The connections since the last call, the first `max` of them; others are turned away.
  [[nodiscard]] virtual std::vector<std::unique_ptr<Carrier>> take_incoming(std::size_t max) = 0;
  /// Starts to connect to another engine's port(); the outcome shows later.
  [[nodiscard]] virtual base::Result<std::unique_ptr<Carrier>> connect(const base::Ip& to,
                                                                       std::uint16_t port) = 0;
};

}  // namespace starling::io::ucx
