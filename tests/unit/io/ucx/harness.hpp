// Fabrics on loopback, driven by hand.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <sys/socket.h>

#include "base/descriptor.hpp"
#include "base/port_range.hpp"
#include "io/loop.hpp"
#include "io/ucx/fabric.hpp"

namespace starling::io::ucx::test {

inline constexpr base::Duration kPatience = std::chrono::seconds(20);

inline const base::Ip kLoopback = base::Ip::loopback();
inline const base::Ip kStranger = base::Ip::parse("127.0.0.2").value();

inline base::Ip ip(const std::string& text) { return base::Ip::parse(text).value(); }

inline bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

/// A fabric on loopback with at most one carrier.
struct Side {
  explicit Side(Loop& loop, base::PortRange ports = {}, const base::Ip& at = kLoopback) {
    auto started = Fabric::start(loop, {"lo", at, ports});
    BOOST_REQUIRE_MESSAGE(started.has_value(), (started ? "" : started.error().text));
    fabric = std::move(*started);
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    if (!carrier) return;
    carrier->abort();
    while (!carrier->closed()) fabric->progress();
  }
  void allow(const std::vector<base::Ip>& members) {
    BOOST_REQUIRE(fabric->allow(members).has_value());
  }
  void turn() {
    while (fabric->progress()) continue;
    for (auto& one : fabric->take_incoming(carrier ? 0 : 1)) carrier = std::move(one);
  }

  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<Carrier> carrier;
};

/// Two that let each other in, and one carrier between them, over which a byte went.
struct Pair {
  explicit Pair(const base::Ip& at = kLoopback) : server(loop, {}, at), client(loop, {}, at) {
    server.allow({at});
    client.allow({at});
    client.carrier = client.fabric->connect(at, server.fabric->port()).value();
    client.carrier->send(base::Bytes(1));
    BOOST_REQUIRE(run_until([&] { return server.carrier && server.carrier->readable(); }));
    static_cast<void>(server.carrier->take());
  }
  /// Gives turns until `done`; false when that took longer than kPatience.
  bool run_until(const std::function<bool()>& done) {
    const base::Time late = Loop::now() + kPatience;
    while (!done() && Loop::now() < late) {
      server.turn();
      client.turn();
    }
    return done();
  }

  Loop loop = std::move(Loop::create().value());
  Side server;
  Side client;
};

/// `count` ports in a row that were free a moment ago, outside the range that systems give to
/// clients. Different ones each time: a port stays taken for a minute after its connections.
base::PortRange free_ports(unsigned count);

/// Ports on which this process listens for TCP.
std::vector<std::uint16_t> listening_ports();

/// Whether a connection from `from` to that port of loopback comes up within `patience`.
base::Descriptor connect_from(const base::Ip& from, std::uint16_t port, int patience_ms);

}  // namespace starling::io::ucx::test
