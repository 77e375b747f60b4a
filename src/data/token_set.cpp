#include "data/token_set.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

template <class Token>
void widen(const std::byte* from, std::int32_t max, std::span<std::int32_t> out) noexcept {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Token token;
    std::memcpy(&token, from + i * sizeof token, sizeof token);
    out[i] =
        static_cast<std::int32_t>(std::min(std::uint32_t{token}, static_cast<std::uint32_t>(max)));
  }
}

}  // namespace

void Tokens::append(base::ByteView bytes, std::uint32_t width) {
  ASSERT((width == 1 || width == 2 || width == 4) && bytes.size() % width == 0);
  if (bytes.empty()) return;
  ends_.push_back(size() + bytes.size() / width);
  pieces_.push_back({bytes, width});
}

Tokens Tokens::part(std::uint64_t first, std::uint64_t count) const {
  ASSERT(first <= size() && count <= size() - first);
  Tokens made;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < pieces_.size(); begin = ends_[i], ++i) {
    const std::uint64_t from = std::max(first, begin);
    const std::uint64_t to = std::min(first + count, ends_[i]);
    if (from >= to) continue;
    const std::uint32_t width = pieces_[i].width;
    made.append(pieces_[i].bytes.subspan((from - begin) * width, (to - from) * width), width);
  }
  return made;
}

void Tokens::copy(std::uint64_t first, std::int32_t max,
                  std::span<std::int32_t> out) const noexcept {
  ASSERT(first <= size() && out.size() <= size() - first);
  auto piece = static_cast<std::size_t>(std::ranges::upper_bound(ends_, first) - ends_.begin());
  while (!out.empty()) {
    const std::uint32_t width = pieces_[piece].width;
    const std::uint64_t begin = piece == 0 ? 0 : ends_[piece - 1];
    const auto here = std::min<std::uint64_t>(out.size(), ends_[piece] - first);
    const std::byte* const from = pieces_[piece].bytes.data() + (first - begin) * width;
    const auto to = out.first(here);
    if (width == 1) {
      widen<std::uint8_t>(from, max, to);
    } else if (width == 2) {
      widen<std::uint16_t>(from, max, to);
    } else {
      widen<std::uint32_t>(from, max, to);
    }
    out = out.subspan(here);
    first += here;
    ++piece;
  }
}

base::Result<std::unique_ptr<const TokenSet>> TokenSet::make(Tokens tokens,
                                                             std::uint32_t vocabulary,
                                                             std::uint32_t context, Windows windows,
                                                             const std::string& name) {
  ASSERT(vocabulary > 0);
  if (context == 0 || context > kContextMax) {
    return fail(ErrorCode::run_file, "a context of {} tokens is out of range: 1 to {}", context,
                kContextMax);
  }
  // A label follows the last token of a window; a shift is less than a window.
  const std::uint64_t spare = windows == Windows::shifted ? context : 1;
  if (tokens.size() < context + spare) {
    return fail(ErrorCode::data,
                "{}: has {} tokens, but a context of {} needs at least {}: give it more text, or "
                "the model a smaller context",
                name, tokens.size(), context, context + spare);
  }
  const std::uint64_t count = (tokens.size() - spare) / context;
  if (count > kSamplesMax) {
    return fail(ErrorCode::data,
                "{}: its {} tokens are more than {} windows of {}: use a larger context, or less "
                "text",
                name, tokens.size(), kSamplesMax, context);
  }
  SampleFormat format{
      .shape = {context}, .vocabulary = vocabulary, .classes = vocabulary, .target_shape = {}};
  return std::unique_ptr<const TokenSet>(new TokenSet(std::move(tokens), std::move(format),
                                                      static_cast<std::uint32_t>(count), windows));
}

TokenSet::TokenSet(Tokens tokens, SampleFormat format, std::uint32_t size, Windows windows)
    : SampleSet(std::move(format), size, {}), tokens_(std::move(tokens)), windows_(windows) {}

void TokenSet::read(std::uint32_t index, std::uint32_t shift, const Slot& out) const noexcept {
  ASSERT(shift == 0 || windows_ == Windows::shifted);
  const std::uint32_t context = format().shape[0];
  const auto max = static_cast<std::int32_t>(format().vocabulary - 1);
  const std::uint64_t first = std::uint64_t{index} * context + shift % context;
  tokens_.copy(first, max, {out.tokens, context});
  tokens_.copy(first + 1, max, {out.labels, context});
}

}  // namespace starling::data
