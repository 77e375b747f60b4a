// libFuzzer: any bytes as a message of the type that the first one says, behind a checksum that is
// right. One that is not refused is within the bounds of its kind, so it can be sent on, and comes
// out the same there.
#include "wire/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "tests/fuzz/input.hpp"
#include "wire/frame.hpp"

using namespace starling;

namespace {

/// The message in a frame; nothing where it is refused or of no known type.
std::optional<wire::Message> read(const base::Bytes& bytes) {
  base::ByteView stream(bytes);
  wire::FrameReader reader(bytes.size());
  auto frame = reader.read(stream);
  ASSERT(frame.has_value() && frame->has_value() && stream.empty());
  auto message = wire::decode(std::move(**frame));
  return message ? std::move(*message) : std::nullopt;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const auto type = static_cast<wire::FrameType>(input.take<std::uint8_t>());
  const base::ByteView metadata = input.take_bytes(input.take<std::uint16_t>());
  const auto message = read(wire::make_frame(type, metadata, input.rest()));
  if (!message) return 0;
  const base::Bytes written = wire::encode(*message);
  const auto again = read(written);
  ASSERT(again.has_value() && again->index() == message->index());
  ASSERT(wire::encode(*again) == written);
  return 0;
}
