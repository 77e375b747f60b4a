// A received frame.
#pragma once

#include <boost/test/unit_test.hpp>

#include "base/bytes.hpp"
#include "wire/frame.hpp"

namespace starling::wire {

/// Of a whole frame's bytes.
inline Frame frame_of(const base::Bytes& bytes) {
  FrameReader reader(1 << 20);
  base::ByteView view = bytes;
  auto frame = reader.read(view);
  BOOST_REQUIRE(frame.has_value());
  BOOST_REQUIRE(frame->has_value());
  return std::move(**frame);
}

}  // namespace starling::wire
