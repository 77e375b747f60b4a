// The addresses at which others reach this peer, as they change while it runs.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ip.hpp"
#include "io/interfaces.hpp"
#include "io/loop.hpp"
#include "io/port_mapping.hpp"

namespace starling::io {

/// On the loop's thread.
class OwnAddresses {
 public:
  struct Observer {
    /// Others have to be told.
    std::function<void(const std::vector<std::string>& addresses)> changed;
    std::function<void(const std::string& text)> note;
  };

  /// `bound`: where the peer listens. `announced`: addresses that a person gave, told first.
  OwnAddresses(const base::IpPort& bound, std::vector<std::string> announced, Observer observer);

  /// Checks the machine's addresses every few seconds from now on. `port_mapper`: the program that
  /// maps the port on the router; empty: none. `loop` outlives this.
  void start(Loop& loop, const std::string& port_mapper);
  /// Checks no more, and gives the router's port back.
  void stop();
  /// Waits no longer for the router. The addresses stay as they are.
  void release() { mapping_.reset(); }

  /// A peer came from this "ip:port".
  void note_comer(const std::string& from);

  /// At least one.
  [[nodiscard]] const std::vector<std::string>& all() const noexcept { return addresses_; }
  /// Null: no router is asked, or not yet.
  [[nodiscard]] const PortMapping* mapping() const noexcept { return mapping_.get(); }

 private:
  void check();

  base::IpPort bound_;
  Observer observer_;
  KnownOfSelf known_;
  std::vector<OwnAddress> interfaces_;  ///< of the machine, at the last check
  std::vector<std::string> addresses_;
  std::unique_ptr<Timer> timer_;
  std::unique_ptr<PortMapping> mapping_;
};

}  // namespace starling::io
