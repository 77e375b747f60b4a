// When something that found no memory is tried again.
#pragma once

namespace starling::compute::cuda {

/// Memory comes and goes with links, and asking for it takes time: what is wanted in each step is
/// tried again after this many of them.
class Retry {
 public:
  static constexpr int kSteps = 100;

  /// Asked once a step.
  [[nodiscard]] bool is_due() noexcept { return left_ == 0 || --left_ == 0; }
  void failed() noexcept { left_ = kSteps; }

 private:
  int left_ = 0;
};

}  // namespace starling::compute::cuda
