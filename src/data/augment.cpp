#include "data/augment.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/rng.hpp"

namespace starling::data {
namespace {

struct Offset {
  std::int64_t down = 0;
  std::int64_t right = 0;
};

/// out[y][x] = in[y + down][x + right], 0 outside.
void move_plane(const float* in, std::int64_t height, std::int64_t width, Offset offset,
                float* out) noexcept {
  for (std::int64_t y = 0; y < height; ++y) {
    const std::int64_t from = y + offset.down;
    float* const row = out + y * width;
    std::fill_n(row, width, 0.0F);
    if (from < 0 || from >= height) continue;
    const std::int64_t begin = std::max<std::int64_t>(0, -offset.right);
    const std::int64_t end = std::min(width, width - offset.right);
    if (begin < end) {
      std::copy_n(in + from * width + begin + offset.right, end - begin, row + begin);
    }
  }
}

}  // namespace

void augment(const Augmentation& augmentation, const std::vector<std::uint32_t>& shape,
             std::uint64_t seed, std::uint64_t first, std::span<float> images,
             std::span<float> scratch) {
  ASSERT(shape.size() == 3);
  const std::int64_t height = shape[1];
  const std::int64_t width = shape[2];
  const auto plane = static_cast<std::size_t>(height * width);
  const std::size_t image = shape[0] * plane;
  ASSERT(images.size() % image == 0 && scratch.size() >= image);
  const std::int64_t crop = augmentation.crop;
  const auto draw_offset = [crop](base::Rng& rng) {
    return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(2 * crop + 1))) - crop;
  };
  for (std::size_t at = 0; at < images.size(); at += image, ++first) {
    const auto pixels = images.subspan(at, image);
    std::uint64_t state = seed ^ 0x617567ULL << 32;
    base::Rng rng(base::splitmix64(state) + first);
    if (crop != 0) {
      const std::int64_t down = draw_offset(rng);
      const std::int64_t right = draw_offset(rng);
      std::ranges::copy(pixels, scratch.begin());
      for (std::size_t channel = 0; channel < shape[0]; ++channel) {
        move_plane(scratch.data() + channel * plane, height, width, {down, right},
                   pixels.data() + channel * plane);
      }
    }
    if (augmentation.flip && rng() >> 63 != 0) {
      for (std::size_t row = 0; row < image; row += shape[2]) {
        std::ranges::reverse(pixels.subspan(row, shape[2]));
      }
    }
  }
}

}  // namespace starling::data
