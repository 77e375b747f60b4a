// Limits how often one host may connect to a listener: a handshake costs half a millisecond of the
// loop's thread, hanging up a tenth of that.
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
  /// A further host replaces the one that has not come for the longest time.
  static constexpr std::size_t kHostsMax = 256;

  /// Whether a connection from there is answered. This machine itself is not limited: a program
  /// here can use the processor anyway.
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
