#include "report/tensorboard.hpp"

#include <array>
#include <bit>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

namespace starling::report {
namespace {

using base::fail;

// --- protocol buffers: a field is its number and wire type, then its value ---

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class Value>
std::string little_endian(Value value) {
  static_assert(std::endian::native == std::endian::little);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(std::uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

std::string field(std::uint8_t number, Wire wire, std::string_view value) {
  std::string text(1, static_cast<char>(number << 3 | static_cast<std::uint8_t>(wire)));
  if (wire == Wire::bytes) text += varint(value.size());
  return text.append(value);
}

/// event.proto's Event; `what`: one of its alternatives, as a field.
std::string event(double seconds, std::uint64_t step, std::string_view what) {
  return field(1, Wire::fixed64, little_endian(seconds)) + field(2, Wire::varint, varint(step)) +
         std::string(what);
}

/// A Summary::Value.
std::string scalar(std::string_view tag, double value) {
  return field(1, Wire::bytes,
               field(1, Wire::bytes, tag) +
                   field(2, Wire::fixed32, little_endian(static_cast<float>(value))));
}

// --- records: length, its checksum, the event, its checksum ---

/// CRC-32C (Castagnoli, RFC 3720), reflected.
constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = table[i] >> 1 ^ (table[i] & 1) * 0x82F63B78U;
  }
  return table;
}();

/// A checksum as records store it: rotated and moved, since checksums over data with checksums are
/// weak.
std::string checksum(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<std::uint8_t>(byte)) & 0xFF];
  }
  return little_endian(std::rotr(~crc, 15) + 0xA282EAD8U);
}

std::string record(std::string_view bytes) {
  const std::string length = little_endian(std::uint64_t{bytes.size()});
  return length + checksum(length) + std::string(bytes) + checksum(bytes);
}

}  // namespace

base::Result<TensorBoardFile> TensorBoardFile::open(const std::string& dir, const std::string& peer,
                                                    std::uint64_t first_step, double seconds) {
  const std::string folder = dir + "/tb";
  if (auto made = base::make_folder(folder); !made) return fail(made.error());
  auto file = base::AppendedFile::open(
      fmt::format("{}/events.out.tfevents.{:.0f}.{}.{}", folder, seconds, peer, getpid()));
  if (!file) return fail(file.error());
  const std::string starts = field(7, Wire::bytes, field(1, Wire::varint, varint(1)));
  const auto written =
      file->append(record(event(seconds, 0, field(3, Wire::bytes, "brain.Event:2"))) +
                   record(event(seconds, first_step, starts)));
  if (!written) return fail(written.error());
  return TensorBoardFile(std::move(*file));
}

base::Status TensorBoardFile::append(const MetricsRow& row, double seconds) {
  std::string values = scalar("train/learning rate", row.lr);
  const auto add = [&](std::string_view tag, const std::optional<double>& value) {
    if (value) values += scalar(tag, *value);
  };
  add("train/loss", row.train_loss);
  add("test/loss", row.loss);
  add("test/accuracy", row.accuracy);
  add("swarm/drift", row.drift);
  values += scalar("swarm/links", row.links) +
            scalar("swarm/exchanges", static_cast<double>(row.exchanges)) +
            scalar("bytes/sent", static_cast<double>(row.bytes_sent)) +
            scalar("bytes/received", static_cast<double>(row.bytes_received));
  return file_.append(record(event(seconds, row.steps, field(5, Wire::bytes, values))));
}

}  // namespace starling::report
