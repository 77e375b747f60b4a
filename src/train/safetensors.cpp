#include "train/safetensors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/assert.hpp"
#include "base/bfloat16.hpp"
#include "base/endian.hpp"
#include "base/file.hpp"
#include "base/integer.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"
#include "train/read_json.hpp"

namespace starling::train {
namespace {

using base::ErrorCode;
using base::fail;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format's values are little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr const char* kMetadata = "__metadata__";
constexpr int kHeaderDepthMax = 3;  ///< header, tensor, shape

struct TypeName {
  TensorType type;
  std::string_view word;
  std::size_t bytes;  ///< an element
};

constexpr std::array kTypes{
    TypeName{TensorType::f32, "F32", 4},
    TypeName{TensorType::f16, "F16", 2},
    TypeName{TensorType::bf16, "BF16", 2},
    TypeName{TensorType::i64, "I64", 8},
};

const TypeName& name_of(TensorType type) { return kTypes[static_cast<std::size_t>(type)]; }

/// A tensor's name in a message: files may come from anywhere.
std::string shown(std::string_view name) { return base::printable(name, base::kShownMax); }

/// A non-negative whole number.
std::optional<std::uint64_t> natural(const json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

/// One entry of the header; its offset counts from the start of the data.
std::optional<TensorEntry> parse_entry(const std::string& name, const json& value,
                                       std::uint64_t data_bytes) {
  if (!value.is_object() || value.size() != 3) return std::nullopt;
  const auto dtype = value.find("dtype");
  const auto shape = value.find("shape");
  const auto offsets = value.find("data_offsets");
  if (dtype == value.end() || shape == value.end() || offsets == value.end()) return std::nullopt;
  const auto type =
      std::ranges::find_if(kTypes, [&](const TypeName& known) { return *dtype == known.word; });
  if (type == kTypes.end()) return std::nullopt;
  if (!shape->is_array() || shape->size() > kTensorRankMax) return std::nullopt;
  if (!offsets->is_array() || offsets->size() != 2) return std::nullopt;
  TensorEntry entry{.name = name, .type = type->type, .shape = {}, .offset = 0, .size = 1};
  for (const json& side : *shape) {
    const auto length = natural(side);
    if (!length || *length > UINT32_MAX) return std::nullopt;
    if (*length != 0 && entry.size > data_bytes / *length) return std::nullopt;
    entry.size *= *length;
    entry.shape.push_back(static_cast<std::uint32_t>(*length));
  }
  const auto begin = natural((*offsets)[0]);
  const auto end = natural((*offsets)[1]);
  if (!begin || !end || *begin > *end || *end > data_bytes) return std::nullopt;
  if ((*end - *begin) / type->bytes != entry.size || (*end - *begin) % type->bytes != 0) {
    return std::nullopt;
  }
  entry.offset = *begin;
  return entry;
}

bool has_its_values(const TensorView& tensor) {
  return std::visit([&](const auto span) { return span.size() == compute::elements(tensor.shape); },
                    tensor.values);
}

/// The header as JSON, padded. Does not read the values.
std::string header_text(std::span<const TensorView> tensors, const TensorMetadata& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  std::size_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const TypeName& type =
        name_of(std::holds_alternative<std::span<const float>>(tensor.values) ? TensorType::f32
                                                                              : TensorType::i64);
    const std::size_t end = offset + compute::elements(tensor.shape) * type.bytes;
    ASSERT(tensor.shape.size() <= kTensorRankMax);
    ASSERT(!header.contains(tensor.name) && tensor.name != kMetadata);
    header[tensor.name] = {{"dtype", type.word},
                           {"shape", tensor.shape},
                           {"data_offsets", json::array({offset, end})}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize(base::round_up(text.size(), 8), ' ');
  return text;
}

/// IEEE 754 binary16 to binary32, exactly.
float widen_half(std::uint16_t half) noexcept {
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fU;
  const std::uint32_t fraction = half & 0x3ffU;
  if (exponent == 0) {  // zero, or without a leading one
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

float widen_bfloat(std::uint16_t bits) noexcept { return base::widen(base::BFloat16{bits}); }

/// Widens 16-bit elements that may lie at any address.
template <class Widen>
void widen(const std::byte* from, std::span<float> out, Widen one) {
  for (float& value : out) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    value = one(bits);
    from += sizeof bits;
  }
}

}  // namespace

base::Result<std::vector<TensorEntry>> parse_safetensors(base::ByteView file,
                                                         const std::string& name) {
  if (file.size() < kLengthBytes) {
    return fail(ErrorCode::data, "{}: is truncated: {} bytes", name, file.size());
  }
  const auto header_bytes = base::load_little<std::uint64_t>(file);
  if (header_bytes > kTensorHeaderBytesMax || header_bytes > file.size() - kLengthBytes) {
    return fail(ErrorCode::data,
                "{}: is truncated or no safetensors file: announces a header of {} bytes", name,
                header_bytes);
  }
  const auto header =
      read_json(base::text_of(file.subspan(kLengthBytes, header_bytes)), kHeaderDepthMax);
  if (!header || !header->is_object() || header->size() > kTensorsMax + 1) {
    return fail(ErrorCode::data, "{}: its header is not that of a safetensors file", name);
  }
  const std::uint64_t data_at = kLengthBytes + header_bytes;
  std::vector<TensorEntry> entries;
  for (const auto& [key, value] : header->items()) {
    if (key == kMetadata) continue;
    auto entry = parse_entry(key, value, file.size() - data_at);
    if (!entry) {
      return fail(ErrorCode::data,
                  "{}: tensor '{}' is not of type F32, F16, BF16 or I64, or lies outside the file",
                  name, shown(key));
    }
    entries.push_back(std::move(*entry));
  }
  std::ranges::sort(entries, {}, [](const TensorEntry& e) { return std::pair(e.offset, e.size); });
  std::uint64_t position = 0;
  for (TensorEntry& entry : entries) {
    if (entry.offset != position) {
      return fail(ErrorCode::data, "{}: tensor '{}' overlaps another or leaves a gap", name,
                  shown(entry.name));
    }
    position += entry.size * name_of(entry.type).bytes;
    entry.offset += data_at;
  }
  if (position != file.size() - data_at) {
    return fail(ErrorCode::data, "{}: has {} bytes that belong to no tensor", name,
                file.size() - data_at - position);
  }
  return entries;
}

base::Status check_tensors(std::span<const TensorView> tensors, const TensorMetadata& metadata) {
  if (tensors.size() > kTensorsMax) {
    return fail(ErrorCode::usage, "tensors: are {}, at most {} are accepted", tensors.size(),
                kTensorsMax);
  }
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string& name = tensors[i].name;
    if (!base::is_utf8(name)) {
      return fail(ErrorCode::usage, "tensors: the name of number {} is not UTF-8", i);
    }
    if (name == kMetadata) {
      return fail(ErrorCode::usage,
                  "tensors: '{}' is not for a tensor in a safetensors file: give it another name",
                  name);
    }
    if (!names.insert(name).second) {
      return fail(ErrorCode::usage, "tensors: '{}' is the name of two", name);
    }
  }
  const std::size_t bytes = header_text(tensors, metadata).size();
  if (bytes > kTensorHeaderBytesMax) {
    return fail(ErrorCode::usage,
                "tensors: names and shapes take {} bytes in a file, at most {} are accepted: give "
                "them shorter names",
                bytes, kTensorHeaderBytesMax);
  }
  return {};
}

std::string safetensors_header(std::span<const TensorView> tensors,
                               const TensorMetadata& metadata) {
  ASSERT(tensors.size() <= kTensorsMax);
  ASSERT(std::ranges::all_of(tensors, has_its_values));
  const std::string text = header_text(tensors, metadata);
  ASSERT(text.size() <= kTensorHeaderBytesMax);
  const std::uint64_t length = text.size();
  std::string out(kLengthBytes, '\0');
  std::memcpy(out.data(), &length, kLengthBytes);
  return out + text;
}

std::vector<base::ByteView> safetensors_parts(const std::string& header,
                                              std::span<const TensorView> tensors) {
  std::vector<base::ByteView> parts{base::bytes_of(header.data(), header.size())};
  for (const TensorView& tensor : tensors) parts.push_back(tensor.bytes());
  return parts;
}

base::Result<TensorFile> TensorFile::parse(base::Bytes file, const std::string& name) {
  auto entries = parse_safetensors(file, name);
  if (!entries) return fail(entries.error());
  TensorFile result;
  result.name_ = name;
  result.file_ = std::move(file);
  result.entries_ = std::move(*entries);
  return result;
}

base::Result<TensorFile> TensorFile::read(const std::string& path) {
  auto bytes = base::read_file(path, kTensorFileBytesMax);
  if (!bytes) return base::fail(bytes.error());
  return parse(std::move(*bytes), path);
}

base::Status TensorFile::copy(std::string_view tensor, std::span<const std::uint32_t> shape,
                              std::span<float> out) const {
  const auto entry = std::ranges::find(entries_, tensor, &TensorEntry::name);
  if (entry == entries_.end()) {
    return fail(ErrorCode::data, "{}: has no tensor '{}'", name_, shown(tensor));
  }
  if (!std::ranges::equal(entry->shape, shape)) {
    return fail(ErrorCode::data, "{}: tensor '{}' has shape [{}], the model needs [{}]", name_,
                shown(tensor), fmt::join(entry->shape, ", "), fmt::join(shape, ", "));
  }
  ASSERT(out.size() == entry->size);
  const std::byte* const from = file_.data() + entry->offset;
  switch (entry->type) {
    case TensorType::f32:
      if (!out.empty()) std::memcpy(out.data(), from, out.size_bytes());
      return {};
    case TensorType::f16:
      widen(from, out, widen_half);
      return {};
    case TensorType::bf16:
      widen(from, out, widen_bfloat);
      return {};
    case TensorType::i64:
      break;
  }
  return fail(ErrorCode::data, "{}: tensor '{}' is of type {}, the model needs floats", name_,
              shown(tensor), name_of(entry->type).word);
}

}  // namespace starling::train
