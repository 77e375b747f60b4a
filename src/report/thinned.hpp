// A long series of values in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace starling::report {

/// Values in the order in which they came: all of them while they are few. When there would be more
/// than `max`, every second one is dropped, and of later values only every second one, then every
/// fourth, and so on, is kept. The first and the newest one are always there.
template <class Value>
class Thinned {
 public:
  /// `max`: at least 2.
  explicit Thinned(std::size_t max) : max_(max) {}

  void push(Value value) {
    if (offered_ % stride_ == 0 && values_.size() == max_) thin();
    passed_over_ = offered_++ % stride_ != 0;
    (passed_over_ ? newest_ : values_.emplace_back()) = std::move(value);
  }

  /// At most max + 1.
  [[nodiscard]] std::vector<Value> values() const {
    std::vector<Value> all = values_;
    if (passed_over_) all.push_back(newest_);
    return all;
  }

 private:
  void thin() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < values_.size(); i += 2) values_[kept++] = std::move(values_[i]);
    values_.erase(values_.begin() + static_cast<std::ptrdiff_t>(kept), values_.end());
    stride_ *= 2;
  }

  std::size_t max_;
  std::uint64_t stride_ = 1;
  std::uint64_t offered_ = 0;
  std::vector<Value> values_;
  Value newest_{};  ///< if it is not in values_
  bool passed_over_ = false;
};

}  // namespace starling::report
