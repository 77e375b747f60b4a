#include "io/incoming.hpp"

#include <algorithm>

namespace starling::io {

// A stretch that overlaps another is kept whole: it is bounded anyway, and cut when its turn comes.
base::Status Incoming::keep(std::uint64_t offset, base::ByteView bytes) {
  if (waiting_ + bytes.size() > 2 * kWindow) {
    return base::fail(base::ErrorCode::protocol, "the other end sends the same again and again");
  }
  const auto follows = std::ranges::find_if(waiting_stretches_, [&](const auto& entry) {
    return entry.first + entry.second.size() == offset;
  });
  if (follows != waiting_stretches_.end()) {
    follows->second.insert(follows->second.end(), bytes.begin(), bytes.end());
    waiting_ += bytes.size();
    return {};
  }
  base::Bytes& stretch = waiting_stretches_[offset];
  if (stretch.size() < bytes.size()) {
    waiting_ += bytes.size() - stretch.size();
    stretch.assign(bytes.begin(), bytes.end());
  }
  if (waiting_stretches_.size() <= kStretchesMax) return {};
  return base::fail(base::ErrorCode::protocol,
                    "the other end moves from carrier to carrier without sending anything");
}

}  // namespace starling::io
