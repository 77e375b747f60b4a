// The values that a key of a run file may have: the rules that keys.hpp gives each key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace starling::runfile {

/// A whole number from min to max.
struct IntegerRange {
  std::uint64_t min;
  std::uint64_t max;
};

/// A number from min to max.
struct NumberRange {
  double min;
  double max;
};

/// A duration in seconds from min to max.
struct SecondsRange {
  double min;
  double max;
};

/// A string of at most `max` characters; `name`: only such that may be in a file name.
struct Text {
  std::size_t max;
  bool name;
};

/// true or false.
struct Flag {};

/// A list of strings, or of whole numbers from 1.
struct List {
  std::size_t max;
};

/// A list of numbers.
struct NumberList {
  std::size_t max;
  NumberRange each;
};

/// A path, or a list of several.
struct Paths {
  std::size_t max;
};

/// Part of a tensor's name: words of letters, digits, '_' and '-' with dots between them, or empty.
struct TensorName {};

/// A list of layers.
struct Layers {};

/// Lists of layers by name.
struct Blocks {};

/// A key that is there only with some values of others: with `what`.
template <class Rule>
struct Only {
  bool applies;
  std::string_view what;
  Rule rule;
};

/// A key that has an effect only with some values of the key `by`: with `what`. Elsewhere it may be
/// given the value that it has by default, which earlier versions wrote, but no other one; and
/// where an override says `by`, what the file says for another value of that is passed over.
template <class Rule>
struct Used {
  bool applies;
  std::string_view by;  ///< "section.key"
  std::string_view what;
  Rule rule;
};

}  // namespace starling::runfile
