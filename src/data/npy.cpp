#include "data/npy.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/printable.hpp"
#include "data/file_hash.hpp"

namespace starling::data {
namespace {

using base::ErrorCode;
using base::fail;

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kNpyBytesMax = std::uint64_t{1} << 44;
constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct TypeName {
  NpyType type;
  std::string_view name;
  std::string_view code;
  std::size_t size;
};

constexpr std::array kNpyTypes{
    TypeName{NpyType::uint8, "uint8", "|u1", 1}, TypeName{NpyType::int32, "int32", "<i4", 4},
    TypeName{NpyType::int64, "int64", "<i8", 8}, TypeName{NpyType::float32, "float32", "<f4", 4}};

const TypeName& of(NpyType type) noexcept {
  return *std::ranges::find(kNpyTypes, type, &TypeName::type);
}

/// Reads a header's text, a Python dictionary of three entries, piece by piece. Each method skips
/// white space before its text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool take(std::string_view what) {
    skip();
    if (!rest_.starts_with(what)) return false;
    rest_.remove_prefix(what.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    skip();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const auto end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::optional<std::uint64_t> number() {
    skip();
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    take("L");  // Python 2 wrote long numbers so
    return value;
  }

 private:
  void skip() {
    const auto first = rest_.find_first_not_of(" \t\n");
    rest_.remove_prefix(std::min(first, rest_.size()));
  }

  std::string_view rest_;
};

struct Fields {
  std::optional<std::string> type;  ///< "<f4"
  std::optional<bool> fortran;
  std::optional<std::vector<std::uint64_t>> shape;
};

std::optional<std::vector<std::uint64_t>> read_shape(Scanner& scanner) {
  std::vector<std::uint64_t> shape;
  if (!scanner.take("(")) return std::nullopt;
  while (!scanner.take(")")) {
    const auto side = scanner.number();
    if (!side || shape.size() == kNpyDimensionsMax) return std::nullopt;
    shape.push_back(*side);
    if (!scanner.take(",")) return scanner.take(")") ? std::optional(shape) : std::nullopt;
  }
  return shape;
}

/// The entries of the dictionary; nothing if the text is not a dictionary.
std::optional<Fields> read_fields(std::string_view text) {
  Scanner scanner(text);
  Fields fields;
  if (!scanner.take("{")) return std::nullopt;
  while (!scanner.take("}")) {
    const auto key = scanner.quoted();
    if (!key || !scanner.take(":")) return std::nullopt;
    if (*key == "descr") {
      const auto type = scanner.quoted();
      if (!type) return std::nullopt;
      fields.type = *type;
    } else if (*key == "fortran_order") {
      if (scanner.take("True")) {
        fields.fortran = true;
      } else if (scanner.take("False")) {
        fields.fortran = false;
      } else {
        return std::nullopt;
      }
    } else if (*key == "shape") {
      fields.shape = read_shape(scanner);
      if (!fields.shape) return std::nullopt;
    } else {
      return std::nullopt;
    }
    scanner.take(",");
  }
  if (!fields.type || !fields.fortran || !fields.shape) return std::nullopt;
  return fields;
}

/// Where the header's text lies in the file.
base::Result<std::string_view> header_text(base::ByteView bytes, const std::string& path) {
  const std::string_view file = base::text_of(bytes);
  if (!file.starts_with(kNpyMagic) || file.size() < kNpyMagic.size() + 4) {
    return fail(ErrorCode::data, "{}: is not a NumPy array file (.npy)", path);
  }
  const int version = static_cast<unsigned char>(file[kNpyMagic.size()]);
  if (version < 1 || version > 3) {
    return fail(ErrorCode::data, "{}: has version {} of NumPy's format, 1 to 3 are known", path,
                version);
  }
  const std::size_t size_at = kNpyMagic.size() + 2;
  const std::size_t size_bytes = version == 1 ? 2 : 4;
  const std::size_t text_at = size_at + size_bytes;
  std::uint32_t size = 0;
  if (file.size() >= text_at) std::memcpy(&size, file.data() + size_at, size_bytes);
  if (file.size() < text_at || size > kNpyHeaderBytesMax || size > file.size() - text_at) {
    return fail(ErrorCode::data, "{}: is cut off in its header, or damaged", path);
  }
  return file.substr(text_at, size);
}

base::Status check_finite(const Npy& array, const std::string& path) {
  if (array.header.type != NpyType::float32) return {};
  const base::ByteView bytes = array.values();
  for (std::uint64_t i = 0; i < array.header.values; ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    if ((bits & 0x7f800000U) == 0x7f800000U) {
      return fail(ErrorCode::data, "{}: element {} is not finite", path, i);
    }
  }
  return {};
}

}  // namespace

std::size_t size_of(NpyType type) noexcept { return of(type).size; }

std::string_view name_of(NpyType type) noexcept { return of(type).name; }

base::Result<NpyHeader> npy_header(base::ByteView bytes, const std::string& path) {
  const auto text = header_text(bytes, path);
  if (!text) return fail(text.error());
  const auto fields = read_fields(*text);
  if (!fields) {
    return fail(ErrorCode::data, "{}: its header is damaged, or of a structured type: {}", path,
                base::printable(*text, base::kShownMax));
  }
  const auto type = std::ranges::find(kNpyTypes, *fields->type, &TypeName::code);
  if (type == kNpyTypes.end()) {
    return fail(ErrorCode::data,
                "{}: has dtype '{}'; uint8, int32, int64 and float32 (little-endian) are read: "
                "convert it, for example with array.astype('float32')",
                path, base::printable(*fields->type, base::kShownMax));
  }
  if (*fields->fortran) {
    return fail(ErrorCode::data, "{}: is in Fortran order: save numpy.ascontiguousarray(array)",
                path);
  }
  NpyHeader header{.type = type->type, .shape = *fields->shape, .values = 1};
  for (const std::uint64_t side : header.shape) {
    if (side != 0 && header.values > kNpyBytesMax / side) {
      return fail(ErrorCode::data, "{}: its shape ({}) has too many values; is it damaged?", path,
                  fmt::join(header.shape, ", "));
    }
    header.values *= side;
  }
  header.values_at =
      static_cast<std::size_t>(reinterpret_cast<const std::byte*>(text->data()) - bytes.data()) +
      text->size();
  return header;
}

base::Result<Npy> open_npy(const std::string& path, const Cache& cache) {
  auto file = base::MappedFile::open(path, kNpyBytesMax);
  if (!file) return fail(file.error());
  auto header = npy_header(file->view(), path);
  if (!header) return fail(header.error());
  const std::uint64_t there = file->view().size() - header->values_at;
  const std::uint64_t needed = header->values * size_of(header->type);
  if (there != needed) {
    return fail(ErrorCode::data,
                "{}: shape ({}) of {} needs {} bytes after the header, {} are "
                "there: {}",
                path, fmt::join(header->shape, ", "), name_of(header->type), needed, there,
                there < needed ? "it is truncated" : "it has trailing bytes");
  }
  const base::FileStamp opened = file->stamp();
  Npy array{.storage = Storage(std::move(*file)), .header = std::move(*header), .hash = {}};
  const auto hash = file_hash(path, opened, array.storage.view(), cache,
                              {"finite", [&] { return check_finite(array, path); }});
  if (!hash) return fail(hash.error());
  array.hash = *hash;
  return array;
}

}  // namespace starling::data
