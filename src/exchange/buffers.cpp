#include "exchange/buffers.hpp"

#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "delta/format.hpp"
#include "delta/replica_memory.hpp"

namespace starling::exchange {

using base::ErrorCode;
using base::fail;
using delta::format::kMagnitudeMax;

Buffers::Buffers(BufferSpec spec)
    : values_(std::move(spec.initial)), least_(std::move(spec.least)) {
  ASSERT(values_.size() == least_.size());
  ASSERT(check(values_, ErrorCode::internal).has_value(), "buffers start within their bounds");
}

base::Status Buffers::set(std::span<const float> values, ErrorCode code) {
  if (auto status = check(values, code); !status) return status;
  values_.assign(values.begin(), values.end());
  return {};
}

std::vector<float> Buffers::behind(std::span<const float> values) const {
  std::vector<float> both;
  both.reserve(values.size() + size());
  both.assign(values.begin(), values.end());
  both.insert(both.end(), values_.begin(), values_.end());
  return both;
}

base::Result<std::span<const float>> Buffers::take_from(std::span<const float> both,
                                                        ErrorCode code) {
  ASSERT(both.size() >= size());
  const std::size_t others = both.size() - size();
  if (auto status = set(both.subspan(others), code); !status) return fail(status.error());
  return both.first(others);
}

base::Status Buffers::write(base::Bytes& out) const {
  if (auto status = check(values_, ErrorCode::diverged); !status) {
    return fail(status.error().in("training has diverged, lower train.lr"));
  }
  const base::ByteView bytes = base::bytes_of(values());
  out.assign(bytes.begin(), bytes.end());
  return {};
}

base::Result<std::vector<float>> Buffers::read(base::ByteView bytes) const {
  if (bytes.size() != size() * sizeof(float)) {
    return fail(ErrorCode::protocol, "{} bytes of buffers where {} were due", bytes.size(),
                size() * sizeof(float));
  }
  std::vector<float> values(size());
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  if (auto status = check(values, ErrorCode::protocol); !status) return fail(status.error());
  return values;
}

base::Result<std::vector<float>> Buffers::read_if_any(base::ByteView bytes) const {
  return bytes.empty() ? base::Result<std::vector<float>>{std::vector<float>{}} : read(bytes);
}

void Buffers::average(std::span<const float> other, float w) {
  ASSERT(other.size() == size() && w >= 0.0F && w <= 1.0F);
  for (std::size_t i = 0; i < size(); ++i) values_[i] = averaged(values_[i], other[i], w);
}

double Buffers::distance(std::span<const float> other) const {
  ASSERT(other.size() == size());
  return relative_distance(values_, other);
}

base::Status Buffers::check(std::span<const float> values, ErrorCode code) const {
  if (values.size() != size()) {
    return fail(code, "{} buffers where {} were due", values.size(), size());
  }
  for (std::size_t i = 0; i < size(); ++i) {
    // A comparison with what is not a number is false.
    if (values[i] >= least_[i] && values[i] <= kMagnitudeMax) continue;
    return fail(code, "buffer {} is {}: it must be a number from {} to {}", i, values[i], least_[i],
                kMagnitudeMax);
  }
  return {};
}

double relative_distance(std::span<const float> values, std::span<const float> others) noexcept {
  delta::Squares sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = static_cast<double>(values[i]);
    const double apart = value - static_cast<double>(others[i]);
    sums.away += apart * apart;
    sums.norm += value * value;
  }
  return sums.distance();
}

}  // namespace starling::exchange
