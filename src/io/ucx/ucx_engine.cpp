#include "io/ucx/ucx_engine.hpp"

#include <algorithm>
#include <utility>

#include <sys/socket.h>

#include "base/descriptor.hpp"
#include "io/raw_address.hpp"

namespace starling::io::ucx {
namespace {

/// Whether one could listen there now, without SO_REUSEADDR, as UCX does for its data. Trying this
/// with UCX itself takes milliseconds.
bool is_free(const base::Ip& at, std::uint16_t port) {
  const RawAddress address({at, port});
  const base::Descriptor tried(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return tried.valid() && ::bind(tried.get(), address.get(), address.size()) == 0;
}

/// Calls `make(port, busy)` with one port after another until it does not set busy.
template <class Make>
auto on_some_port(const FabricConfig& config, const Make& make)
    -> decltype(make(std::uint16_t{}, std::declval<bool&>())) {
  bool busy = false;
  if (config.ports.any()) return make(0, busy);
  for (unsigned port = config.ports.first; port <= config.ports.last; ++port) {
    const auto number = static_cast<std::uint16_t>(port);
    if (!is_free(config.address, number)) continue;
    auto made = make(number, busy);
    if (made || !busy) return made;
  }
  return base::fail(base::ErrorCode::network,
                    "no port from {} to {} is free at {}: give links.fabric_ports more of them",
                    config.ports.first, config.ports.last, config.address.text());
}

}  // namespace

base::Result<std::unique_ptr<UcxEngine>> UcxEngine::start(const FabricConfig& config) {
  if (auto status = Guard::install(); !status) return base::fail(std::move(status.error()));
  std::unique_ptr<UcxEngine> made(new UcxEngine);
  {
    const Guard::Watch watch(made->guard_);
    if (auto status = made->make_worker(config); !status) return base::fail(status.error());
    if (auto status = made->make_listener(config); !status) return base::fail(status.error());
  }
  if (auto status = made->check_sockets(config); !status) return base::fail(status.error());
  made->carriers_ = std::make_unique<UcxCarriers>(*made->worker_);
  return made;
}

base::Status UcxEngine::make_worker(const FabricConfig& config) {
  auto worker = on_some_port(config, [&](std::uint16_t port, bool& busy) {
    return Worker::create(config.device, config.address.is_v6(), port, busy);
  });
  if (!worker) return base::fail(std::move(worker.error()));
  worker_ = std::move(*worker);
  if (!guard_.sockets().empty()) return {};
  return base::fail(base::ErrorCode::internal,
                    "UCX is not used: it takes connections past the filter of who may make some");
}

base::Status UcxEngine::make_listener(const FabricConfig& config) {
  auto listener = on_some_port(config, [&](std::uint16_t port, bool& busy) {
    return Listener::create(*worker_, config.address, port, busy);
  });
  if (!listener) return base::fail(std::move(listener.error()));
  listener_ = std::move(*listener);
  return {};
}

// All sockets on which UCX listens must be at the fabric's address, in its range, and guarded.
base::Status UcxEngine::check_sockets(const FabricConfig& config) const {
  const auto& sockets = guard_.sockets();
  for (const Guard::Socket& socket : sockets) {
    if (socket.at.ip == config.address && config.ports.has(socket.at.port)) continue;
    return base::fail(base::ErrorCode::network,
                      "UCX is not used: it listens on {}, port {}, which is not the address {} of "
                      "its network interface {}",
                      socket.at.ip.text(), socket.at.port, config.address.text(), config.device);
  }
  if (std::ranges::any_of(
          sockets, [&](const auto& socket) { return socket.at.port == listener_->port(); })) {
    return {};
  }
  return base::fail(base::ErrorCode::internal,
                    "UCX is not used: it takes connections past the filter of who may make some");
}

std::vector<std::unique_ptr<Carrier>> UcxEngine::take_incoming(std::size_t max) {
  std::vector<std::unique_ptr<Carrier>> taken;
  for (auto* const request : listener_->take_requests()) {
    if (taken.size() >= max) {
      listener_->reject(request);
    } else if (auto carrier = UcxCarrier::accept(*carriers_, request)) {
      taken.push_back(std::move(*carrier));
    }  // otherwise the requester is gone, and UCX has withdrawn the request
  }
  return taken;
}

base::Result<std::unique_ptr<Carrier>> UcxEngine::connect(const base::Ip& to, std::uint16_t port) {
  auto carrier = UcxCarrier::connect(*carriers_, to, port);
  if (!carrier) return base::fail(std::move(carrier.error()));
  return std::unique_ptr<Carrier>(std::move(*carrier));
}

UcxEngine::~UcxEngine() {
  listener_.reset();
  carriers_.reset();
  worker_.reset();
}

}  // namespace starling::io::ucx
