// Some elements of a vector, in this process's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "delta/delta.hpp"

namespace starling::delta {

/// `indices` strictly rising, values[j] belongs to indices[j].
struct Elements {
  std::vector<std::uint32_t> indices;
  std::vector<float> values;

  [[nodiscard]] std::size_t size() const noexcept { return indices.size(); }
};

/// A delta of vectors that lie in this process's memory.
class HostDelta final : public Delta {
 public:
  [[nodiscard]] Elements& elements() noexcept { return elements_; }
  [[nodiscard]] const Elements& elements() const noexcept { return elements_; }

  std::size_t size() const noexcept override { return elements_.size(); }
  void clear() noexcept override {
    elements_.indices.clear();
    elements_.values.clear();
  }
  void free_beyond(std::size_t count) noexcept override {
    if (elements_.indices.capacity() > count + count / 2) elements_ = {};
  }
  base::Status read(std::vector<std::uint32_t>& indices,
                    std::vector<float>& values) const override {
    indices = elements_.indices;
    values = elements_.values;
    return {};
  }

 private:
  Elements elements_;
};

}  // namespace starling::delta
