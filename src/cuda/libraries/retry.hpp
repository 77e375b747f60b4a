// When something that found no memory is tried again.
#pragma once

namespace starling::compute::cuda {

/// Memory comes and goes with links, and asking for it takes time: what is wanted in each step, or
/// part of one, is tried again after so many of them.
class Retry {
 public:
  static constexpr int kSteps = 100;

  /// Asked each time that it is wanted.
  [[nodiscard]] bool is_due() noexcept { return left_ == 0 || --left_ == 0; }
  void failed() noexcept { left_ = kSteps; }

 private:
  int left_ = 0;
};

}  // namespace starling::compute::cuda
