// How often one host may come to a listener: a handshake costs half a millisecond of the loop's
// thread, hanging up a tenth of that.
#pragma once

#include <vector>

#include "base/ip.hpp"
#include "base/time.hpp"
#include "reach/allowance.hpp"

namespace starling::io {

class HostPace {
 public:
  static constexpr double kEachSecond = 32;
  static constexpr double kBurst = 128;  ///< an office, when its line is back
  /// Further ones take the place of who came last longest ago.
  static constexpr std::size_t kHostsMax = 256;

  /// Whether a connection from there is answered. This machine itself may come as often as it
  /// likes: who can do that has its processor anyway.
  [[nodiscard]] bool take(const base::Ip& from, base::Time now);

 private:
  struct Host {
    base::Ip ip;
    reach::Allowance allowance;
    base::Time last;
  };
  std::vector<Host> hosts_;
};

}  // namespace starling::io
