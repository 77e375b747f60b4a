// Decides when an attempt that found no memory is repeated.
#pragma once

namespace starling::compute::cuda {

/// Memory comes and goes with links, and a request for it takes time: an attempt that is due in
/// each step, or part of one, is repeated only after a number of them.
class Retry {
 public:
  static constexpr int kSteps = 100;

  /// Call this each time that the attempt is due.
  [[nodiscard]] bool is_due() noexcept { return left_ == 0 || --left_ == 0; }
  void failed() noexcept { left_ = kSteps; }

 private:
  int left_ = 0;
};

}  // namespace starling::compute::cuda
