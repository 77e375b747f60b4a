// Text cut into the pieces that a vocabulary's tokens never cross.
#pragma once

#include <cstddef>
#include <string_view>

namespace starling::data {

/// Longer pieces are cut, so this also bounds a token's bytes.
inline constexpr std::size_t kWordBytesMax = 128;

/// Goes through a text word by word, as GPT-2 does (Radford et al., "Language models are
/// unsupervised multitask learners", 2019): letters, digits or other characters, each with a space
/// before them; English endings ('s, 't, 're, 've, 'm, 'll, 'd); white space, whose last character
/// is separate if something follows. Unlike GPT-2, every byte beyond ASCII counts as a letter. All
/// words together are the text.
class Words {
 public:
  explicit Words(std::string_view text) noexcept : rest_(text) {}

  /// The next word; empty at the end.
  [[nodiscard]] std::string_view next() noexcept;

 private:
  std::string_view rest_;
};

}  // namespace starling::data
