// How well a language model predicts text, in the usual units.
#pragma once

#include <optional>

namespace starling::report {

struct LanguageQuality {
  double perplexity = 0;     ///< e^loss: as if choosing among this many equally likely tokens
  double bits_per_byte = 0;  ///< of text; does not depend on how it is cut into tokens

  friend bool operator==(const LanguageQuality&, const LanguageQuality&) = default;
};

/// From the mean loss in nats a token, and the mean bytes of text per token:
/// data::Dataset::bytes_per_label. Nothing if that is 0 (the data is not text) or the loss is not
/// known.
[[nodiscard]] std::optional<LanguageQuality> language_quality(std::optional<double> loss,
                                                              double bytes_per_label);

}  // namespace starling::report
