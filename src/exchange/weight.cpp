#include "exchange/weight.hpp"

namespace starling::exchange {

void VouchedRate::add(std::uint64_t samples, base::Time now) {
  if (since_ && now - *since_ < span_) return;
  if (since_ && samples >= from_) {
    const double rate = static_cast<double>(samples - from_) / base::seconds(now - *since_);
    constexpr double kLeast = wire::kNoWeight + 1;
    const double exponent = rate > 0 ? std::ceil(std::log2(rate)) : kLeast;
    weight_max_ = static_cast<std::int8_t>(std::clamp(exponent, kLeast, double{wire::kWeightMax}));
    span_ = std::min(2 * span_, kSpanMax);
  }
  since_ = now;
  from_ = samples;
}

}  // namespace starling::exchange
