// libFuzzer: any bytes as what comes in on a link, cut into pieces. The first byte says how long
// these are. Checksums are mended on the way, or nothing would pass them. A message that is not
// refused is within the bounds of its kind: it can be sent on.
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/assert.hpp"
#include "tests/fuzz/input.hpp"
#include "wire/frame.hpp"
#include "wire/messages.hpp"

using namespace starling;

namespace {

constexpr std::size_t kPayloadMax = 1 << 16;

void fuzz_stream(fuzz::Input input) {
  const std::size_t piece = 1 + input.at_most(254);
  wire::FrameReader reader(kPayloadMax);
  while (!input.empty()) {
    base::ByteView bytes = input.take_bytes(piece);
    while (true) {
      auto frame = reader.read(bytes);
      if (!frame) return;
      if (!*frame) break;
      static_cast<void>(wire::decode(std::move(**frame)));
    }
  }
}

// One frame of the type that the first byte says.
void fuzz_message(fuzz::Input input) {
  const auto type = static_cast<wire::FrameType>(input.take<std::uint8_t>());
  const base::ByteView metadata =
      input.take_bytes(input.take<std::uint16_t>() % wire::kMetadataMax);
  const base::Buffer bytes = wire::make_frame(type, metadata, input.rest());
  base::ByteView stream(bytes);
  wire::FrameReader reader(bytes.size());
  auto frame = reader.read(stream);
  ASSERT(frame.has_value() && frame->has_value() && stream.empty());
  const auto message = wire::decode(std::move(**frame));
  if (!message || !*message) return;
  base::Buffer again = wire::encode(**message);
  stream = again;
  wire::FrameReader second(again.size());
  auto back = second.read(stream);
  ASSERT(back.has_value() && back->has_value());
  const auto same = wire::decode(std::move(**back));
  ASSERT(same.has_value() && same->has_value() && (*same)->index() == (*message)->index());
  ASSERT(wire::encode(**same) == again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  if (input.flag()) {
    fuzz_stream(input);
  } else {
    fuzz_message(input);
  }
  return 0;
}
