// libFuzzer: any bytes as a stream of frames, some of them sound. However it is cut into pieces,
// the same frames come out of it and it ends at the same one. Messages in them are read, too.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "tests/fuzz/input.hpp"
#include "wire/frame.hpp"
#include "wire/messages.hpp"

using namespace starling;

namespace {

constexpr std::size_t kPayloadMax = 1 << 16;
constexpr std::size_t kPartMax = 255;

struct Read {
  std::vector<wire::Frame> frames;
  bool failed = false;
};

/// Pieces of this many bytes.
Read read_all(base::ByteView stream, std::size_t piece) {
  Read read;
  wire::FrameReader reader(kPayloadMax);
  while (!stream.empty()) {
    base::ByteView bytes = stream.first(std::min(piece, stream.size()));
    stream = stream.subspan(bytes.size());
    while (true) {
      auto frame = reader.read(bytes);
      read.failed = !frame;
      if (read.failed) return read;
      if (!*frame) break;
      read.frames.push_back(std::move(**frame));
    }
    ASSERT(bytes.empty(), "what is no frame yet is kept");
  }
  return read;
}

/// A sound frame, or bytes.
void append_part(fuzz::Input& input, base::Bytes& stream) {
  const bool sound = input.at_most(3) != 0;
  const auto type = static_cast<wire::FrameType>(input.take<std::uint8_t>());
  const base::ByteView first = input.take_bytes(input.at_most(kPartMax));
  if (!sound) return base::append(stream, first);
  const base::ByteView second = input.take_bytes(input.at_most(kPartMax));
  base::append(stream, wire::make_frame(type, first, second));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::size_t piece = 1 + input.at_most(254);
  base::Bytes stream;
  while (!input.empty()) append_part(input, stream);
  Read whole = read_all(stream, stream.size());
  const Read pieces = read_all(stream, piece);
  ASSERT(whole.failed == pieces.failed && whole.frames.size() == pieces.frames.size());
  for (std::size_t i = 0; i < whole.frames.size(); ++i) {
    ASSERT(whole.frames[i].type == pieces.frames[i].type);
    ASSERT(whole.frames[i].bytes == pieces.frames[i].bytes);
    static_cast<void>(wire::decode(std::move(whole.frames[i])));
  }
  return 0;
}
