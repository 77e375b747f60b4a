// A relay in its own process: a member without a replica, with its folder, identity, log, links and
// control port.
#pragma once

#include <memory>
#include <string>

#include "base/result.hpp"
#include "data/sharding.hpp"
#include "io/node.hpp"
#include "runtime/belongings.hpp"
#include "runtime/options.hpp"

namespace starling::runtime {

/// Opened and run, in that order, on one thread.
class Relay {
 public:
  /// Makes its folder, and opens the listener and the control port. Errors: usage (the name, an
  /// address, or a peer runs in this folder), secret, data (the folder), network.
  [[nodiscard]] static base::Result<std::unique_ptr<Relay>> open(RelayOptions relay,
                                                                 Options options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] const std::string& name() const noexcept { return own_.place.name; }
  [[nodiscard]] const std::string& dir() const noexcept { return own_.place.dir; }
  [[nodiscard]] const base::PeerId& id() const noexcept { return own_.identity.id(); }
  /// "ip:port" on which it listens, and at which others reach it.
  [[nodiscard]] const std::string& listens() const { return node_->address(); }
  [[nodiscard]] const std::string& address() const { return node_->addresses().front(); }
  [[nodiscard]] const std::string& http_address() const { return node_->control_address(); }

  /// Relays until a person ends it, or (EndReason::done) until all members of its run have been
  /// gone for a minute, so that another Relay may serve the next run. This is the loop thread from
  /// now on.
  [[nodiscard]] io::NodeEnd run();

 private:
  Relay(RelayOptions relay, Options options, Belongings own);
  base::Status open_node();
  [[nodiscard]] io::ControlReply serve(const io::ControlRequest& request,
                                       const io::Node& asked) const;

  const RelayOptions relay_;
  const Options options_;
  Belongings own_;
  const data::Shards nothing_{1, {}, {}, 0};  ///< a core needs some shards
  std::unique_ptr<io::Node> node_;
};

}  // namespace starling::runtime
