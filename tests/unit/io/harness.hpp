// Two or more transports on one loop, and their reports.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "io/identity.hpp"
#include "io/loop.hpp"
#include "io/transport.hpp"

namespace starling::io::test {

inline constexpr base::Duration kPatience = std::chrono::seconds(20);

inline Loop make_loop() { return std::move(Loop::create().value()); }

/// Turns the loop until `done`; false when that took longer than kPatience.
inline bool run_until(Loop& loop, const std::function<bool()>& done) {
  bool expired = false;
  Timer guard(loop, [&] { expired = true; });
  guard.start(kPatience);
  while (!done() && !expired) loop.run_once();
  return done();
}

/// A transport with a new identity that remembers its reports.
class Endpoint final : public TransportHandler {
 public:
  struct Up {
    base::LinkId link;
    base::PeerId peer;
    std::uint64_t dial;
    std::string address;
    std::string observed;
    base::LinkId via;
    std::string local;
  };
  struct Down {
    base::LinkId link;
    LinkEnd end;
    std::string text;
  };

  explicit Endpoint(Loop& loop, TransportConfig config = {})
      : identity(std::move(Identity::generate().value())) {
    config.listen = "127.0.0.1:0";
    auto made = Transport::create(loop, config, identity, *this);
    BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().text));
    transport = std::move(*made);
  }

  void on_link_up(base::LinkId link, const LinkUp& up) override {
    ups.push_back({link, up.peer, up.dial, up.address, up.observed, up.via, up.local});
  }
  void on_frame(base::LinkId link, wire::Frame&& frame, base::Duration took) override {
    ++frames;
    took_most = std::max(took_most, took);
    if (when_frame) when_frame(link, std::move(frame));
  }
  void on_part(base::LinkId, std::uint8_t type, std::size_t bytes) override {
    parts.emplace_back(type, bytes);
  }
  void on_link_down(base::LinkId link, LinkEnd end, const std::string& text) override {
    downs.push_back({link, end, text});
  }
  void on_dial_failed(std::uint64_t dial, LinkEnd end, const std::string& text) override {
    failed.emplace_back(dial, text);
    failed_by = end;
  }

  void on_circuit_ended(const CircuitEnd& ended) override { circuits_ended.push_back(ended); }

  Identity identity;
  std::unique_ptr<Transport> transport;
  std::vector<Up> ups;
  std::vector<Down> downs;
  std::vector<CircuitEnd> circuits_ended;
  std::vector<std::pair<std::uint64_t, std::string>> failed;
  LinkEnd failed_by{};  ///< the last of them
  std::size_t frames = 0;
  base::Duration took_most{};
  std::vector<std::pair<std::uint8_t, std::size_t>> parts;
  std::function<void(base::LinkId, wire::Frame&&)> when_frame;
};

/// Links a to b; true when both know.
inline bool link_up(Loop& loop, Endpoint& a, Endpoint& b) {
  const std::size_t before_a = a.ups.size();
  const std::size_t before_b = b.ups.size();
  static_cast<void>(a.transport->dial(b.transport->address()));
  return run_until(loop, [&] { return a.ups.size() > before_a && b.ups.size() > before_b; });
}

inline base::Bytes frame_of(std::size_t size, std::uint8_t fill = 7) {
  const base::Bytes payload(size, std::byte{fill});
  return wire::make_frame(wire::FrameType::delta, {}, payload);
}

}  // namespace starling::io::test
