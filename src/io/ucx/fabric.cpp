#include "io/ucx/fabric.hpp"

#include <system_error>

#include "base/assert.hpp"
#include "io/blocked_signals.hpp"
#include "io/ucx/loader.hpp"

namespace starling::io::ucx {

Loading::Loading(Loop& loop, std::function<void()> done) : wake_(loop, std::move(done)) {
  const auto load = [this] {
    static_cast<void>(ucx_module());  // it remembers the result
    wake_.wake();
  };
  try {
    const BlockedSignals blocked;
    thread_ = std::jthread(load);
  } catch (const std::system_error&) {
    load();  // no thread available: the loop waits
  }
}

base::Result<std::unique_ptr<Fabric>> Fabric::start(Loop& loop, const FabricConfig& config) {
  const auto module = ucx_module();
  if (!module) return base::fail(module.error());
  if (config.address.is_v6() && !takes_ipv6((*module)->version)) {
    return base::fail(base::ErrorCode::network,
                      "UCX {} is not used with IPv6, over which it corrupts memory; {} does not",
                      to_string((*module)->version), to_string(kIpv6From));
  }
  auto engine = (*module)->start(config);
  if (!engine) return base::fail(std::move(engine.error()));
  std::unique_ptr<Fabric> made(new Fabric(config, (*module)->version, std::move(*engine)));
  // The descriptor only has to wake the loop, but the event must be taken: otherwise the poll
  // handle would call forever.
  made->poll_ = std::make_unique<Handle<uv_poll_t>>(
      [raw = made->engine_.get()] { raw->progress(); },
      [&](uv_poll_t* handle) {
        return uv_poll_init(loop.raw(), handle, made->engine_->descriptor());
      });
  ASSERT(uv_poll_start(made->poll_->raw(), UV_READABLE, Handle<uv_poll_t>::call<int, int>) == 0);
  return made;
}

base::Status Fabric::allow(std::span<const base::Ip> members) {
  if (!members.empty()) {
    quiet_at_ = base::Time::max();
  } else if (quiet_at_ == base::Time::max()) {
    quiet_at_ = Loop::now() + kQuiet;
  }
  return engine_->allow(members);
}

Fabric::~Fabric() {
  static_cast<void>(allow({}));
  while (Loop::now() < quiet_at_) {
    engine_->progress();
    static_cast<void>(engine_->take_incoming(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // The handle must release the descriptor before UCX closes it.
  poll_.reset();
}

}  // namespace starling::io::ucx
