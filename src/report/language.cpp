#include "report/language.hpp"

#include <cmath>
#include <numbers>

namespace starling::report {

std::optional<LanguageQuality> language_quality(std::optional<double> loss,
                                                double bytes_per_label) {
  if (!loss || !(bytes_per_label > 0)) return std::nullopt;
  return LanguageQuality{.perplexity = std::exp(*loss),
                         .bits_per_byte = *loss / (std::numbers::ln2 * bytes_per_label)};
}

}  // namespace starling::report
