// Text to tokens and back: byte-level byte-pair encoding (Sennrich et al., arXiv:1508.07909; with
// bytes as the alphabet: Radford et al., "Language models are unsupervised multitask learners",
// 2019).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.hpp"
#include "base/result.hpp"
#include "compute/graph.hpp"
#include "data/config.hpp"

namespace starling::data {

inline constexpr std::uint32_t kBytes = 256;
inline constexpr std::uint32_t kVocabularyMax = compute::kClassesMax;

/// Two tokens that become one.
struct Merge {
  std::int32_t left = 0;
  std::int32_t right = 0;

  friend bool operator==(const Merge&, const Merge&) = default;
};

/// Tokens 0 to 255 are the bytes; token 256 + i is the i-th merge of two earlier ones. Immutable.
class Vocabulary {
 public:
  /// The bytes alone.
  Vocabulary() : Vocabulary({}, {}) {}
  /// Error (ErrorCode::data, `name` in the text): a merge of later tokens, a merge that occurs
  /// twice, a token of more than kWordBytesMax bytes, more than kVocabularyMax tokens.
  [[nodiscard]] static base::Result<Vocabulary> make(std::vector<Merge> merges,
                                                     const std::string& name);
  /// Reads a file that save() wrote; the format is in formats.md.
  [[nodiscard]] static base::Result<Vocabulary> load(const std::string& path);
  [[nodiscard]] base::Status save(const std::string& path) const;

  [[nodiscard]] std::uint32_t size() const noexcept {
    return kBytes + static_cast<std::uint32_t>(merges_.size());
  }
  [[nodiscard]] const std::vector<Merge>& merges() const noexcept { return merges_; }
  /// The token that two become, or -1.
  [[nodiscard]] std::int32_t merged(std::int32_t left, std::int32_t right) const noexcept;
  /// The bytes that a token stands for. `token`: 0 to size() - 1.
  [[nodiscard]] std::string_view text(std::int32_t token) const noexcept;
  /// The text of tokens, one after the other. Numbers beyond this vocabulary (a model may have room
  /// for more) come out as U+FFFD.
  [[nodiscard]] std::string decode(std::span<const std::int32_t> tokens) const;
  /// The tokens of a text. For more than a few words an Encoder is faster.
  [[nodiscard]] std::vector<std::int32_t> encode(std::string_view text) const;
  /// XXH3-128 of the merges: vocabularies with the same hash are equal.
  [[nodiscard]] base::Hash128 hash() const noexcept;

 private:
  Vocabulary(std::vector<Merge> merges, std::unordered_map<std::uint64_t, std::int32_t> ids);

  std::vector<Merge> merges_;
  std::unordered_map<std::uint64_t, std::int32_t> ids_;  ///< by both tokens of a merge
  std::string bytes_;                                    ///< of all tokens
  std::vector<std::uint32_t> ends_;                      ///< of each token in bytes_
};

/// Encodes word after word and remembers them: text repeats itself.
class Encoder {
 public:
  /// `vocabulary` outlives this.
  explicit Encoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}

  /// Appends the tokens of a word of Words: merges of pairs, the earliest of the vocabulary first.
  void append(std::string_view word, std::vector<std::int32_t>& out);

 private:
  static constexpr std::size_t kKnownMax = 1 << 18;

  const Vocabulary& vocabulary_;
  std::unordered_map<std::string, std::vector<std::int32_t>> known_;
};

/// The vocabulary that a run file's text has.
[[nodiscard]] base::Result<Vocabulary> load_vocabulary(const Config& config);

}  // namespace starling::data
