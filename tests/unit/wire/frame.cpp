#include "wire/frame.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"

namespace wire = starling::wire;
using starling::base::Bytes;
using starling::base::ByteView;

namespace {

std::size_t largest_piece = 0;

}  // namespace

// Not inline: the compiler would take them for two that do not belong together.
[[gnu::noinline]] void* operator new(std::size_t size) {
  largest_piece = std::max(largest_piece, size);
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

/// The largest piece of memory that was requested since the last call.
std::size_t take_largest_piece() { return std::exchange(largest_piece, 0); }

Bytes some_bytes(std::size_t size, std::uint64_t seed) {
  starling::base::Rng rng(seed);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(rng());
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(frame)

BOOST_AUTO_TEST_CASE(frames_survive_any_cut_of_the_stream) {
  const Bytes meta = some_bytes(16, 1);
  const Bytes payload = some_bytes(300, 2);
  Bytes stream;
  for (int i = 0; i < 3; ++i) {
    const Bytes frame = wire::make_frame(wire::FrameType::delta, meta, payload);
    stream.insert(stream.end(), frame.begin(), frame.end());
  }
  for (std::size_t piece = 1; piece < 400; piece += 7) {
    BOOST_TEST_CONTEXT("pieces of " << piece) {
      wire::FrameReader reader;
      int frames = 0;
      for (std::size_t at = 0; at < stream.size(); at += piece) {
        ByteView view = ByteView(stream).subspan(at, std::min(piece, stream.size() - at));
        while (true) {
          auto frame = reader.read(view);
          BOOST_REQUIRE(frame.has_value());
          if (!frame->has_value()) break;
          ++frames;
          BOOST_TEST(std::ranges::equal((*frame)->metadata(), meta));
          BOOST_TEST(std::ranges::equal((*frame)->payload(), payload));
        }
      }
      BOOST_TEST(frames == 3);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_flipped_bit_is_noticed) {
  const Bytes frame =
      wire::make_frame(wire::FrameType::gossip, some_bytes(8, 3), some_bytes(20, 4));
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    Bytes damaged = frame;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    wire::FrameReader reader;
    ByteView view = damaged;
    const auto result = reader.read(view);
    // A larger announced length waits for more bytes; everything else is an error at once.
    BOOST_TEST((!result.has_value() || !result->has_value()), "bit " << bit);
  }
}

BOOST_AUTO_TEST_CASE(other_major_version_is_named) {
  Bytes frame = wire::make_frame(wire::FrameType::bye, {}, {});
  frame[0] = std::byte{9};
  wire::FrameReader reader;
  ByteView view = frame;
  const auto result = reader.read(view);
  BOOST_REQUIRE(!result.has_value());
  BOOST_TEST(result.error().text.find("version 9") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(announced_sizes_are_bounded_before_memory_is_taken) {
  const Bytes frame = wire::make_frame(wire::FrameType::delta, {}, some_bytes(1000, 5));
  wire::FrameReader reader(999);
  ByteView view = frame;
  BOOST_TEST(!reader.read(view).has_value());
  wire::FrameReader larger(999);
  larger.set_payload_max(1000);
  view = frame;
  const auto result = larger.read(view);
  BOOST_REQUIRE(result.has_value());
  BOOST_TEST(result->has_value());
}

// A header's size is a stranger's word: to make a peer take memory, a stranger must send bytes.
BOOST_AUTO_TEST_CASE(memory_is_taken_for_eight_times_what_has_arrived_at_most) {
  constexpr std::size_t kPiece = 1000;
  const Bytes frame = wire::make_frame(wire::FrameType::delta, {}, some_bytes(4UL << 20, 6));
  wire::FrameReader reader(frame.size());
  static_cast<void>(take_largest_piece());
  std::size_t largest = 0;
  for (std::size_t at = 0; at < frame.size(); at += kPiece) {
    ByteView view = ByteView(frame).subspan(at, std::min(kPiece, frame.size() - at));
    const auto result = reader.read(view);
    BOOST_REQUIRE(result.has_value());
    BOOST_REQUIRE(result->has_value() == (at + kPiece >= frame.size()));
    const std::size_t piece = take_largest_piece();
    BOOST_REQUIRE(piece <= 8 * (at + kPiece));
    largest = std::max(largest, piece);
  }
  BOOST_TEST(largest > 1U << 20);  // it was seen
}

BOOST_AUTO_TEST_SUITE_END()
