#include "delta/mirror.hpp"

#include <utility>

#include "base/bytes.hpp"
#include "base/hash.hpp"

namespace starling::delta {

Mirror::Mirror(MirrorType type, base::LargeFloats values) {
  if (type == MirrorType::float32) {
    full_ = std::move(values);
  } else {
    half_.resize(values.size());
    base::narrow(values, half_);
  }
}

MirrorView Mirror::view() const noexcept {
  if (half_.empty()) return full_;
  return std::span<const base::BFloat16>(half_);
}

const float* Mirror::read(std::size_t begin, std::size_t n, Room& room) const noexcept {
  if (half_.empty()) return full_.data() + begin;
  base::widen(std::span(half_).subspan(begin, n), std::span(room).first(n));
  return room.data();
}

float* Mirror::take(std::size_t begin, std::size_t n, Room& room) noexcept {
  return const_cast<float*>(read(begin, n, room));
}

base::BFloat16* Mirror::half(std::size_t begin) noexcept {
  return half_.empty() ? nullptr : half_.data() + begin;
}

base::LargeFloats Mirror::values() const {
  if (half_.empty()) return full_;
  base::LargeFloats values(half_.size());
  base::widen(half_, values);
  return values;
}

void Mirror::read_at(std::span<const std::uint32_t> indices, std::vector<float>& values) const {
  values.resize(indices.size());
  for (std::size_t j = 0; j < indices.size(); ++j) {
    values[j] = half_.empty() ? full_[indices[j]] : base::widen(half_[indices[j]]);
  }
}

std::uint64_t Mirror::hash() const noexcept {
  return base::xxh3(half_.empty() ? base::bytes_of(std::span<const float>(full_))
                                  : base::bytes_of(std::span<const base::BFloat16>(half_)));
}

}  // namespace starling::delta
