#include "train/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/assert.hpp"

namespace starling::train {
namespace {

using base::ErrorCode;
using base::fail;
using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format's values are little-endian");

constexpr std::size_t kLengthBytes = 8;
constexpr int kDepthMax = 3;  ///< header, tensor, shape

/// Parses the header; refuses nesting deeper than the format's, and names that come twice.
std::optional<json> parse_header(std::string_view text) {
  bool accepted = true;
  std::set<std::string> names;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > kDepthMax) accepted = false;
    if (event == json::parse_event_t::key && depth == 1) {
      accepted = accepted && names.insert(value.get<std::string>()).second;
    }
    return accepted;
  };
  json header = json::parse(text.begin(), text.end(), check, false);
  if (!accepted || !header.is_object()) return std::nullopt;
  return header;
}

/// A whole number that is not negative.
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
  if (*dtype != "F32" || !shape->is_array() || shape->size() > kTensorRankMax) return std::nullopt;
  if (!offsets->is_array() || offsets->size() != 2) return std::nullopt;
  TensorEntry entry{.name = name, .shape = {}, .offset = 0, .size = 1};
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
  if ((*end - *begin) / sizeof(float) != entry.size || (*end - *begin) % sizeof(float) != 0) {
    return std::nullopt;
  }
  entry.offset = *begin;
  return entry;
}

}  // namespace

base::Result<std::vector<TensorEntry>> parse_safetensors(base::ByteView file,
                                                         const std::string& name) {
  std::uint64_t header_bytes = 0;
  if (file.size() < kLengthBytes) {
    return fail(ErrorCode::data, "{}: is truncated: {} bytes", name, file.size());
  }
  std::memcpy(&header_bytes, file.data(), kLengthBytes);
  if (header_bytes > kTensorHeaderBytesMax || header_bytes > file.size() - kLengthBytes) {
    return fail(ErrorCode::data,
                "{}: is truncated or no safetensors file: announces a header of {} bytes", name,
                header_bytes);
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                              header_bytes);
  const auto header = parse_header(text);
  if (!header || header->size() > kTensorsMax + 1) {
    return fail(ErrorCode::data, "{}: its header is not that of a safetensors file", name);
  }
  const std::uint64_t data_at = kLengthBytes + header_bytes;
  std::vector<TensorEntry> entries;
  for (const auto& [key, value] : header->items()) {
    if (key == "__metadata__") continue;
    auto entry = parse_entry(key, value, file.size() - data_at);
    if (!entry) {
      return fail(ErrorCode::data, "{}: tensor '{}' is not float32, or lies outside the file", name,
                  key);
    }
    entries.push_back(std::move(*entry));
  }
  std::ranges::sort(entries, {}, [](const TensorEntry& e) { return std::pair(e.offset, e.size); });
  std::uint64_t position = 0;
  for (TensorEntry& entry : entries) {
    if (entry.offset != position) {
      return fail(ErrorCode::data, "{}: tensor '{}' overlaps another or leaves a gap", name,
                  entry.name);
    }
    position += entry.size * sizeof(float);
    entry.offset += data_at;
  }
  if (position != file.size() - data_at) {
    return fail(ErrorCode::data, "{}: has {} bytes that belong to no tensor", name,
                file.size() - data_at - position);
  }
  return entries;
}

std::string safetensors_header(std::span<const TensorView> tensors) {
  ASSERT(tensors.size() <= kTensorsMax);
  json header = json::object();
  std::size_t offset = 0;
  for (const TensorView& tensor : tensors) {
    std::size_t size = 1;
    for (const std::uint32_t side : tensor.shape) size *= side;
    ASSERT(size == tensor.values.size() && tensor.shape.size() <= kTensorRankMax);
    ASSERT(!header.contains(tensor.name) && tensor.name != "__metadata__");
    const std::size_t end = offset + tensor.values.size_bytes();
    header[tensor.name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", json::array({offset, end})}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  ASSERT(text.size() <= kTensorHeaderBytesMax);
  const std::uint64_t length = text.size();
  std::string out(kLengthBytes, '\0');
  std::memcpy(out.data(), &length, kLengthBytes);
  return out + text;
}

base::Result<TensorFile> TensorFile::parse(base::Buffer file, const std::string& name) {
  auto entries = parse_safetensors(file, name);
  if (!entries) return fail(entries.error());
  TensorFile result;
  result.name_ = name;
  result.file_ = std::move(file);
  result.entries_ = std::move(*entries);
  return result;
}

base::Status TensorFile::copy(std::string_view tensor, std::span<const std::uint32_t> shape,
                              std::span<float> out) const {
  const auto entry = std::ranges::find(entries_, tensor, &TensorEntry::name);
  if (entry == entries_.end()) {
    return fail(ErrorCode::data, "{}: has no tensor '{}'", name_, tensor);
  }
  if (!std::ranges::equal(entry->shape, shape)) {
    return fail(ErrorCode::data, "{}: tensor '{}' has shape [{}], the model needs [{}]", name_,
                tensor, fmt::join(entry->shape, ", "), fmt::join(shape, ", "));
  }
  ASSERT(out.size() == entry->size);
  if (!out.empty()) std::memcpy(out.data(), file_.data() + entry->offset, out.size_bytes());
  return {};
}

}  // namespace starling::train
