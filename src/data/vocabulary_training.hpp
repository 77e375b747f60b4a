// Learns a vocabulary's merges from text.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "data/vocabulary.hpp"

namespace starling::data {

/// Counts the words of texts, then merges the most frequent pair of neighbours again and again
/// (Sennrich et al., arXiv:1508.07909). Among equally frequent pairs, the one with the smaller left
/// token comes first, then the one with the smaller right: the same text gives the same vocabulary
/// on every machine.
class VocabularyTraining {
 public:
  /// Counts the words of a text. They are not copied: the text outlives this.
  void add(std::string_view text);

  /// A vocabulary of `size` tokens (257 to kVocabularyMax), or fewer if no pair occurs twice any
  /// more. The time depends on the number of different words and of merges, not on the length of
  /// the text.
  [[nodiscard]] Vocabulary train(std::uint32_t size) const;

 private:
  std::unordered_map<std::string_view, std::uint64_t> words_;  ///< how often each occurred
};

}  // namespace starling::data
