// The loop's prepare phase, in which everything that the network causes is done.
#pragma once

#include <functional>

#include "io/loop.hpp"

namespace starling::io {

/// Calls its owner before the loop waits, again and again until there is nothing left to do; while
/// there is, other handles get their turn, but the loop does not wait.
class Turn {
 public:
  /// `work`: does what it can; true if it did anything, or if more is left to do.
  Turn(Loop& loop, std::function<bool()> work);

 private:
  void prepare();

  std::function<bool()> work_;
  Handle<uv_prepare_t> prepare_;
  Handle<uv_idle_t> idle_;
};

}  // namespace starling::io
