// One function object of several, for std::visit.
#pragma once

namespace starling::base {

/// Calls the one of these that fits its argument best.
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace starling::base
