// Text as samples: windows of tokens, each labelled with the token that follows it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "data/sample_set.hpp"

namespace starling::data {

inline constexpr std::uint32_t kContextMax = 1 << 20;

/// A row of tokens in pieces, which lie in memory that outlives this.
class Tokens {
 public:
  /// `bytes`: unsigned little-endian numbers of `width` bytes: 1, 2 or 4.
  void append(base::ByteView bytes, std::uint32_t width);

  [[nodiscard]] std::uint64_t size() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  /// `count` tokens from the token `first` on.
  [[nodiscard]] Tokens part(std::uint64_t first, std::uint64_t count) const;
  /// Writes tokens first, first + 1, ... until `out` is full. A token above `max` comes out as
  /// `max`: the file may have been overwritten since it was checked.
  void copy(std::uint64_t first, std::int32_t max, std::span<std::int32_t> out) const noexcept;

 private:
  struct Piece {
    base::ByteView bytes;
    std::uint32_t width;
  };
  std::vector<Piece> pieces_;
  std::vector<std::uint64_t> ends_;  ///< of each piece, in tokens
};

/// Windows of `context` tokens side by side: sample i begins at token i context + shift % context.
/// With a new shift each epoch, every token comes once an epoch, and over time at every place of a
/// window.
class TokenSet final : public SampleSet {
 public:
  enum class Windows {
    fixed,    ///< there is no shift: nearly all tokens are labels
    shifted,  ///< the last windows leave room for one
  };
  /// Errors: ErrorCode::data if there are too few tokens for a window or too many windows;
  /// ErrorCode::run_file for a context out of range. `name` stands in messages.
  [[nodiscard]] static base::Result<std::unique_ptr<const TokenSet>> make(Tokens tokens,
                                                                          std::uint32_t vocabulary,
                                                                          std::uint32_t context,
                                                                          Windows windows,
                                                                          const std::string& name);

  [[nodiscard]] const Tokens& tokens() const noexcept { return tokens_; }

 private:
  TokenSet(Tokens tokens, SampleFormat format, std::uint32_t size, Windows windows);
  void read(std::uint32_t index, std::uint32_t shift, const Slot& out) const noexcept override;

  Tokens tokens_;
  Windows windows_;
};

}  // namespace starling::data
