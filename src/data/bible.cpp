// The file: a head of 92 bytes that ends in the size of a window and the number of windows, where
// each of them begins and the last one ends (numbers are 32 bits, big-endian), the head of a .Z
// file, then the windows: text cut into pieces of one size, each packed by compress(1) on its own.
#include "data/bible.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/endian.hpp"
#include "base/file.hpp"
#include "data/lzw.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::size_t kFileBytesMax = 16 << 20;
constexpr std::size_t kWindowBytesMax = 1 << 20;
constexpr std::uint32_t kWindowsMax = 1024;
constexpr std::size_t kWindowBytesAt = 84;
constexpr std::size_t kWindowsAt = 88;
constexpr std::size_t kOffsetsAt = 92;
constexpr std::string_view kMagic = "EC02";
constexpr std::string_view kPackedMagic = "\x1f\x9d\x90";

bool has_text_at(base::ByteView file, std::size_t at, std::string_view text) noexcept {
  return file.size() >= at + text.size() &&
         std::ranges::equal(file.subspan(at, text.size()), std::as_bytes(std::span(text)));
}

base::Result<base::Buffer> unpack(base::ByteView file, const std::string& path) {
  const auto damaged = [&] {
    return fail(ErrorCode::data,
                "{}: is not bible-kjv-text's data file, or is damaged: install "
                "the package again",
                path);
  };
  if (!has_text_at(file, 0, kMagic) || file.size() < kOffsetsAt) return damaged();
  const std::uint32_t window_bytes = base::load_big<std::uint32_t>(file, kWindowBytesAt);
  const std::uint32_t windows = base::load_big<std::uint32_t>(file, kWindowsAt);
  if (window_bytes > kWindowBytesMax || windows > kWindowsMax) return damaged();
  if (!has_text_at(file, kOffsetsAt + 4 * (windows + std::size_t{1}), kPackedMagic)) {
    return damaged();
  }
  base::Buffer text;
  for (std::uint32_t i = 0; i < windows; ++i) {
    const std::size_t begin = base::load_big<std::uint32_t>(file, kOffsetsAt + 4 * i);
    const std::size_t end = base::load_big<std::uint32_t>(file, kOffsetsAt + 4 * (i + 1));
    if (begin > end || end > file.size()) return damaged();
    const auto window = unpack_lzw(file.subspan(begin, end - begin), window_bytes, path);
    if (!window) return fail(window.error());
    if (i + 1 < windows && window->size() != window_bytes) return damaged();
    text.insert(text.end(), window->begin(), window->end());
  }
  return text;
}

/// Takes the title, the first line, away, and from each further line its first word: where the
/// verse stands ("Ge1:1").
void keep_verses(base::Buffer& text) {
  auto to = text.begin();
  auto line = std::ranges::find(text, std::byte{'\n'});
  while (line != text.end() && ++line != text.end()) {
    const auto end = std::find(line, text.end(), std::byte{'\n'});
    const auto space = std::find(line, end, std::byte{' '});
    if (space != end) {
      to = std::copy(space + 1, end, to);
      *to++ = std::byte{'\n'};
    }
    line = end;
  }
  text.erase(to, text.end());
}

}  // namespace

base::Result<base::Buffer> read_bible(const std::string& path) {
  const auto file = base::MappedFile::open(path, kFileBytesMax);
  if (!file) {
    base::Error error = file.error();
    error.text +=
        " (data set 'bible-kjv': install it with `apt-get install bible-kjv-text`, or "
        "set data.path to a copy of its file bible.data)";
    return fail(std::move(error));
  }
  auto text = unpack(file->view(), path);
  if (text) keep_verses(*text);
  return text;
}

}  // namespace starling::data
