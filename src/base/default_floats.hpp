// How a thread computes with floats.
#pragma once

#include <cfenv>

namespace starling::base {

/// While it lives, its thread rounds to the nearest, and does not treat subnormal numbers as 0:
/// results have the same bits on all machines. A program that owns the thread may have set other
/// modes, as with PyTorch's set_flush_denormal(), and gets them back.
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
