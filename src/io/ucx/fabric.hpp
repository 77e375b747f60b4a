// UCX on one network interface, for a transport: the door to this folder.
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

/// One that connected before allow() took its address away has come in, or has failed, by then: a
/// fabric is destroyed so long after an allow() of nobody, and UCX is not surprised.
inline constexpr base::Duration kQuiet = std::chrono::milliseconds(100);

/// Loads UCX on a thread of its own: some releases take half a second for it (1.22), in which the
/// loop would stand still. Fabric::start() takes some 20 ms after it.
class Loading {
 public:
  /// `done` is called once, on the loop's thread, never from here; it may destroy this. Whether UCX
  /// could be loaded ucx_module() says at once then. `loop` must outlive it.
  Loading(Loop& loop, std::function<void()> done);

 private:
  WakeUp wake_;
  std::jthread thread_;  ///< the first to go: waits for what is under way
};

/// All of one thread, the loop's. In the loop's prepare phase, before it waits:
///
///     while (fabric.progress()) ...work on carriers...
///     if (!fabric.arm()) ...do not wait: something has come meanwhile...
///
/// Once armed, the loop wakes up when something comes.
class Fabric {
 public:
  /// Loads UCX if it is not loaded yet (see Loading), and listens: nobody is let in before allow().
  /// Errors (network) as of ucx_module and Module::start, and if the address is IPv6 and the UCX
  /// that is there is none to be trusted with it. `loop` must outlive it.
  [[nodiscard]] static base::Result<std::unique_ptr<Fabric>> start(Loop& loop,
                                                                   const FabricConfig& config);
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  /// Every carrier must be gone, kQuiet be over.
  ~Fabric();

  [[nodiscard]] const FabricConfig& config() const noexcept { return config_; }
  /// Of the UCX that is loaded.
  [[nodiscard]] const Version& version() const noexcept { return version_; }
  /// To connect to.
  [[nodiscard]] std::uint16_t port() const noexcept { return engine_->port(); }

  // As Engine has them.
  bool progress() { return engine_->progress(); }
  [[nodiscard]] bool arm() { return engine_->arm(); }
  [[nodiscard]] base::Status allow(std::span<const base::Ip> members) {
    return engine_->allow(members);
  }
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
  std::unique_ptr<Handle<uv_poll_t>> poll_;
};

}  // namespace starling::io::ucx
