// The UCX module's engine: worker, guard and listener. Part of the UCX module.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "io/ucx/engine.hpp"
#include "io/ucx/guard.hpp"
#include "io/ucx/listener.hpp"
#include "io/ucx/ucx_carrier.hpp"
#include "io/ucx/worker.hpp"

namespace starling::io::ucx {

class UcxEngine final : public Engine {
 public:
  /// Like Module::start.
  [[nodiscard]] static base::Result<std::unique_ptr<UcxEngine>> start(const FabricConfig& config);
  ~UcxEngine() override;

  [[nodiscard]] int descriptor() const noexcept override { return worker_->descriptor(); }
  [[nodiscard]] std::uint16_t port() const noexcept override { return listener_->port(); }
  bool progress() override { return worker_->progress(); }
  [[nodiscard]] bool arm() override { return worker_->arm(); }
  [[nodiscard]] base::Status allow(std::span<const base::Ip> members) override {
    return guard_.allow(members);
  }
  void shut(const base::Ip& member) override { guard_.shut(member); }
  [[nodiscard]] std::vector<std::unique_ptr<Carrier>> take_incoming(std::size_t max) override;
  [[nodiscard]] base::Result<std::unique_ptr<Carrier>> connect(const base::Ip& to,
                                                               std::uint16_t port) override;

  [[nodiscard]] Guard& guard() noexcept { return guard_; }

 private:
  UcxEngine() = default;
  [[nodiscard]] base::Status make_worker(const FabricConfig& config);
  [[nodiscard]] base::Status make_listener(const FabricConfig& config);
  [[nodiscard]] base::Status check_sockets(const FabricConfig& config) const;

  Guard guard_;
  std::unique_ptr<Worker> worker_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<UcxCarriers> carriers_;
};

}  // namespace starling::io::ucx
