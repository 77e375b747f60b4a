// The fill level of something that can grow or wait. Each core reports everything that it keeps, so
// that one check finds anything above its limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/time.hpp"

namespace starling::base {

struct Bound {
  std::string_view what;    ///< lives as long as the program
  std::uint64_t size = 0;   ///< entries; of a timer: milliseconds until it is due
  std::uint64_t limit = 0;  ///< largest allowed `size`
};

/// Takes reports, and keeps the first one that is above its limit.
class Bounds {
 public:
  void add(std::string_view what, std::uint64_t size, std::uint64_t limit) {
    if (size > limit && !broken_) broken_ = Bound{.what = what, .size = size, .limit = limit};
  }
  /// Something that waits until `at`.
  void add_timer(std::string_view what, Time at, Time now, Duration limit) {
    const auto ms = [](Duration time) {
      return static_cast<std::uint64_t>(time.count()) / 1'000'000;
    };
    if (at > now) add(what, ms(at - now), ms(limit));
  }
  [[nodiscard]] const std::optional<Bound>& broken() const noexcept { return broken_; }

 private:
  std::optional<Bound> broken_;
};

}  // namespace starling::base
