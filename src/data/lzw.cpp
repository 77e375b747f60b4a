#include "data/lzw.hpp"

#include <array>
#include <cstdint>
#include <optional>

#include "base/integer.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

constexpr std::uint32_t kBitsMin = 9;
constexpr std::uint32_t kBitsMax = 16;
constexpr std::uint32_t kClear = 256;  ///< the code that empties the table
constexpr std::uint32_t kCodes = 1U << kBitsMax;

/// Reads codes from the low bits on. The packer writes eight codes at a time: where their width
/// changes, the rest of the eight is skipped.
class CodeReader {
 public:
  explicit CodeReader(base::ByteView bytes) : bytes_(bytes) {}

  [[nodiscard]] std::uint32_t bits() const noexcept { return bits_; }
  void set_bits(std::uint32_t bits) noexcept {
    const std::size_t group = std::size_t{8} * bits_;
    at_ = begin_ + base::round_up(at_ - begin_, group);
    begin_ = at_;
    bits_ = bits;
  }

  /// The next code; nothing at the end.
  std::optional<std::uint32_t> next() noexcept {
    if (at_ + bits_ > 8 * bytes_.size()) return std::nullopt;
    std::uint32_t window = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t byte = at_ / 8 + i;
      if (byte < bytes_.size()) window |= std::to_integer<std::uint32_t>(bytes_[byte]) << (8 * i);
    }
    const std::uint32_t code = window >> (at_ % 8) & ((1U << bits_) - 1);
    at_ += bits_;
    return code;
  }

 private:
  base::ByteView bytes_;
  std::size_t at_ = 0;     ///< in bits
  std::size_t begin_ = 0;  ///< of the codes of this width
  std::uint32_t bits_ = kBitsMin;
};

/// A code above 256 stands for an earlier code's text and one byte more.
struct Table {
  std::array<std::uint16_t, kCodes> prefix{};
  std::array<std::byte, kCodes> suffix{};
  std::uint32_t next = kClear + 1;
};

}  // namespace

base::Result<base::Buffer> unpack_lzw(base::ByteView codes, std::size_t bytes_max,
                                      const std::string& name) {
  base::Buffer out;
  base::Buffer text;  // of a code, last byte first
  CodeReader reader(codes);
  Table table;
  std::optional<std::uint32_t> previous;
  std::byte first{};  // of the previous code's text
  for (;;) {
    if (table.next > (1U << reader.bits()) - 1 && reader.bits() < kBitsMax) {
      reader.set_bits(reader.bits() + 1);
    }
    const auto code = reader.next();
    if (!code) return out;
    if (*code == kClear && previous) {
      reader.set_bits(kBitsMin);
      table.next = kClear;  // the entry that the next code makes is of no use to anyone
      continue;
    }
    const bool unknown = previous ? *code > table.next : *code >= kClear;
    if (unknown) return fail(ErrorCode::data, "{}: is damaged: an LZW code has no meaning", name);
    text.clear();
    std::uint32_t at = *code;
    if (previous && at == table.next) {  // the very entry that this code completes
      text.push_back(first);
      at = *previous;
    }
    for (; at > kClear; at = table.prefix[at]) text.push_back(table.suffix[at]);
    first = static_cast<std::byte>(at);
    text.push_back(first);
    if (text.size() > bytes_max - out.size()) {
      return fail(ErrorCode::data, "{}: is damaged: it unpacks to more than {} bytes", name,
                  bytes_max);
    }
    out.insert(out.end(), text.rbegin(), text.rend());
    if (previous && table.next < kCodes) {
      table.prefix[table.next] = static_cast<std::uint16_t>(*previous);
      table.suffix[table.next++] = first;
    }
    previous = code;
  }
}

}  // namespace starling::data
