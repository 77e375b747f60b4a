// UCX on one network interface, for a transport: the interface of this folder.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <uv.h>

#include "base/result.hpp"
#include "base/time.hpp"
#include "io/loop.hpp"
#include "io/ucx/engine.hpp"
#include "io/ucx/versions.hpp"

namespace starling::io::ucx {

/// A connection that began before allow() removed its address has come in, or has failed, after
/// this time. UCX uses freed memory if it is destroyed while its own thread takes a connection.
inline constexpr base::Duration kQuiet = std::chrono::milliseconds(100);

/// Loads UCX on its own thread: some releases (1.22) take half a second to load, in which the loop
/// would stand still. Fabric::start() then takes some 20 ms.
class Loading {
 public:
  /// `done` is called once, on the loop's thread, never from here; it may destroy this. Then
  /// ucx_module() says at once whether UCX could be loaded. `loop` must outlive it.
  Loading(Loop& loop, std::function<void()> done);

 private:
  WakeUp wake_;
  std::jthread thread_;  ///< destroyed first: waits for the loading under way
};

/// Used only on the loop's thread. In the loop's prepare phase, before it waits:
///
///     while (fabric.progress()) ...work on carriers...
///     if (!fabric.arm()) ...do not wait: something has come meanwhile...
///
/// Once armed, the loop wakes up when something comes.
class Fabric {
 public:
  /// Loads UCX if it is not loaded yet (see Loading), and listens: nobody is let in before allow().
  /// Errors (network): those of ucx_module and Module::start, and if the address is IPv6 and the
  /// loaded UCX cannot be trusted with it. `loop` must outlive it.
  [[nodiscard]] static base::Result<std::unique_ptr<Fabric>> start(Loop& loop,
                                                                   const FabricConfig& config);
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  /// Every carrier must be gone. Blocks until quiet_at(): at most kQuiet.
  ~Fabric();

  [[nodiscard]] const FabricConfig& config() const noexcept { return config_; }
  /// The version of the loaded UCX.
  [[nodiscard]] const Version& version() const noexcept { return version_; }
  /// The port to connect to.
  [[nodiscard]] std::uint16_t port() const noexcept { return engine_->port(); }

  /// When it can be destroyed without blocking: kQuiet after allow({}). Time::max(): somebody is
  /// let in.
  [[nodiscard]] base::Time quiet_at() const noexcept { return quiet_at_; }

  // As in Engine.
  bool progress() { return engine_->progress(); }
  [[nodiscard]] bool arm() { return engine_->arm(); }
  [[nodiscard]] base::Status allow(std::span<const base::Ip> members);
  void shut(const base::Ip& member) { engine_->shut(member); }
  [[nodiscard]] std::vector<std::unique_ptr<Carrier>> take_incoming(std::size_t max) {
    return engine_->take_incoming(max);
  }
  [[nodiscard]] base::Result<std::unique_ptr<Carrier>> connect(const base::Ip& to,
                                                               std::uint16_t port) {
    return engine_->connect(to, port);
  }

 private:
  Fabric(FabricConfig config, const Version& version, std::unique_ptr<Engine> engine)
      : config_(std::move(config)), version_(version), engine_(std::move(engine)) {}

  FabricConfig config_;
  Version version_;
  std::unique_ptr<Engine> engine_;
  base::Time quiet_at_{};
  std::unique_ptr<Handle<uv_poll_t>> poll_;
};

}  // namespace starling::io::ucx
