// How a thread computes with floats.
#pragma once

#include <cfenv>

namespace starling::base {

/// For as long as it lives, its thread rounds to the nearest, and subnormal numbers are not taken
/// for 0: results have the same bits on all machines. A program that owns the thread may want it
/// otherwise, as with PyTorch's set_flush_denormal(), and gets that back.
class DefaultFloats {
 public:
  DefaultFloats() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  DefaultFloats(const DefaultFloats&) = delete;
  DefaultFloats& operator=(const DefaultFloats&) = delete;
  ~DefaultFloats() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

}  // namespace starling::base
