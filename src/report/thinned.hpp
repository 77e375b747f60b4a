// A long course of values in bounded memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace starling::report {

/// Values in the order in which they came: all of them while they are few. When there would be more
/// than `max`, every second one goes, and of those that follow every second one, then every fourth,
/// and so on, is taken. The first one always stays.
template <class Value>
class Thinned {
 public:
  /// `max`: at least 2.
  explicit Thinned(std::size_t max) : max_(max) {}

  void push(Value value) {
    if (offered_ % stride_ == 0) {
      if (values_.size() == max_) thin();
      if (offered_ % stride_ == 0) values_.push_back(std::move(value));
    }
    ++offered_;
  }

  [[nodiscard]] const std::vector<Value>& values() const noexcept { return values_; }

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
};

}  // namespace starling::report
