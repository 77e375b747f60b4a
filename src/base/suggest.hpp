// "Did you mean": the known name that is most like a wrong one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace starling::base {

/// Number of single-character changes, and of swaps of two neighbours, between two words (optimal
/// string alignment).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// "; did you mean 'x'?" for the most similar of the names, or else "; there are: a, b". Empty if
/// there are no names.
[[nodiscard]] std::string suggestion(std::string_view wrong,
                                     std::span<const std::string_view> names);

}  // namespace starling::base
