#include "compute/cpu/winograd.hpp"

#include <algorithm>

#include "base/integer.hpp"
#include "compute/cpu/gemm_kernel.hpp"
#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

constexpr std::size_t kTile = 4;                 // a side of a tile of results
constexpr std::size_t kPatch = kTile + 2;        // a side of its source patch
constexpr std::size_t kParts = kPatch * kPatch;  // matrices of a transform
constexpr std::size_t kWindow = 3;               // a side of the weights
constexpr std::size_t kWeights = kWindow * kWindow;
// Tiles that go through all three steps together. Fewer would leave more room in the second-level
// cache, but panels of weights are read again for each block. A multiple of every GemmKernel's
// rows.
constexpr std::size_t kTiles = 48;
constexpr std::size_t kDepth = 256;  // of a product: its panel of weights stays in the first level
constexpr std::size_t kLanes = 8;
constexpr std::size_t kLine = 16;  // floats of a cache line: channels that are written at a time
// A gap after each row of transformed patches, so that rows do not fall on the same places of a
// cache; a line after each part of a transform does the same for the parts.
constexpr std::size_t kGap = 8;

using Eight __attribute__((vector_size(kLanes * sizeof(float)))) = float;
// A vector in memory, at any address.
using Loose __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias)) = float;

STARLING_INLINE const Loose& eight(const float* at) { return *reinterpret_cast<const Loose*>(at); }
STARLING_INLINE Loose& eight(float* at) { return *reinterpret_cast<Loose*>(at); }

/// Images of one side of a convolution.
struct Images {
  std::size_t channels, height, width, block;

  /// The first of the 8 channels from `channel` on, at the first point of a sample.
  [[nodiscard]] STARLING_INLINE std::size_t offset(std::size_t sample, std::size_t channel) const {
    return (sample * channels / block + channel / block) * height * width * block + channel % block;
  }
};

Images source_of(const WinogradShape& s) { return {s.in_channels, s.height, s.width, s.block}; }
Images result_of(const WinogradShape& s) {
  return {s.out_channels, s.out_height(), s.out_width(), s.block};
}

/// The numbering of the results' tiles: row by row, sample by sample.
struct Tiling {
  std::size_t down, across;

  struct Place {
    std::size_t sample, y, x;  ///< of the tile's first result
  };
  [[nodiscard]] STARLING_INLINE Place place(std::size_t tile) const {
    const std::size_t in_sample = tile % (down * across);
    return {tile / (down * across), in_sample / across * kTile, in_sample % across * kTile};
  }
};

Tiling tiling_of(const WinogradShape& s) {
  return {base::ceil_div(s.out_height(), kTile), base::ceil_div(s.out_width(), kTile)};
}

/// The places of the transforms. Patches: for each part, a row of channels per tile. Weights and
/// results: for each part, panels of the kernel's columns.
struct Layout {
  explicit Layout(const WinogradShape& s)
      : columns(gemm_kernel().columns),
        panels(base::ceil_div(s.out_channels, columns)),
        row(s.in_channels + kGap),
        patches_part(kTiles * row + kLine),
        results_part(kTiles * panels * columns + kLine),
        weights_part(s.in_channels * panels * columns + kLine),
        gradient_rows(base::round_up(s.in_channels, gemm_kernel().rows)),
        gradient_part(gradient_rows * panels * columns + kLine) {}

  std::size_t columns, panels, row;
  std::size_t patches_part, results_part, weights_part;
  std::size_t gradient_rows, gradient_part;
  std::size_t scratch = kParts * (patches_part + results_part);  ///< floats of a thread
  /// Floats of a gradient of the weights, followed by that of the bias.
  std::size_t gradient = kParts * gradient_part + panels * columns;

  /// The place of a tile's results in a part, from a channel on.
  [[nodiscard]] STARLING_INLINE std::size_t result_at(std::size_t tile, std::size_t channel) const {
    return (channel / columns * kTiles + tile) * columns + channel % columns;
  }
};

// The transforms in one direction, with the article's matrices A, B and G for the points 0, +-a,
// +-b and infinity, where a^2 = 1/2 and b^2 = 2. Their powers stay nearer to 1 than those of the
// article's points 0, +-1 and +-2, so rounding loses less.
constexpr float kA = 0.70710678F;
constexpr float kB = 1.41421356F;

/// The values for a point and for the opposite point, from their even and odd parts.
STARLING_INLINE void set_pair(const Eight& even, const Eight& odd, Eight& plus, Eight& minus) {
  plus = even + odd;
  minus = even - odd;
}

/// B^T d.
STARLING_INLINE void patch_way(const Eight (&d)[kPatch], Eight (&t)[kPatch]) {
  t[0] = d[0] - 2.5F * d[2] + d[4];
  set_pair(d[4] - 2.0F * d[2], kA * (d[3] - 2.0F * d[1]), t[1], t[2]);
  set_pair(d[4] - 0.5F * d[2], kB * (d[3] - 0.5F * d[1]), t[3], t[4]);
  t[5] = d[1] - 2.5F * d[3] + d[5];
}

/// A^T m.
STARLING_INLINE void result_way(const Eight (&m)[kPatch], Eight (&y)[kTile]) {
  const Eight even_a = m[1] + m[2];
  const Eight odd_a = kA * (m[1] - m[2]);
  const Eight even_b = m[3] + m[4];
  const Eight odd_b = kB * (m[3] - m[4]);
  y[0] = m[0] + even_a + even_b;
  y[1] = odd_a + odd_b;
  y[2] = 0.5F * even_a + 2.0F * even_b;
  y[3] = 0.5F * odd_a + 2.0F * odd_b + m[5];
}

/// A y.
STARLING_INLINE void gradient_way(const Eight (&y)[kTile], Eight (&t)[kPatch]) {
  t[0] = y[0];
  set_pair(y[0] + 0.5F * y[2], kA * (y[1] + 0.5F * y[3]), t[1], t[2]);
  set_pair(y[0] + 2.0F * y[2], kB * (y[1] + 2.0F * y[3]), t[3], t[4]);
  t[5] = y[3];
}

/// G g.
STARLING_INLINE void weights_way(const Eight (&g)[kWindow], Eight (&t)[kPatch]) {
  t[0] = g[0];
  set_pair((-2.0F / 3) * g[0] - (1.0F / 3) * g[2], (-2.0F / 3 * kA) * g[1], t[1], t[2]);
  set_pair((1.0F / 6) * g[0] + (1.0F / 3) * g[2], (1.0F / 6 * kB) * g[1], t[3], t[4]);
  t[5] = g[2];
}

/// G^T u.
STARLING_INLINE void back_way(const Eight (&u)[kPatch], Eight (&g)[kWindow]) {
  const Eight even_a = u[1] + u[2];
  const Eight even_b = u[3] + u[4];
  g[0] = u[0] - (2.0F / 3) * even_a + (1.0F / 6) * even_b;
  g[1] = (1.0F / 6 * kB) * (u[3] - u[4]) - (2.0F / 3 * kA) * (u[1] - u[2]);
  g[2] = (1.0F / 3) * (even_b - even_a) + u[5];
}

/// Transforms columns, then rows: load(i, j, element) sets the input, store(i, j, element)
/// takes the output.
template <auto kOneWay, std::size_t kFrom, std::size_t kTo, class Load, class Store>
STARLING_INLINE void transform(const Load& load, const Store& store) {
  Eight half[kTo][kFrom];
  for (std::size_t j = 0; j < kFrom; ++j) {
    Eight from[kFrom];
    for (std::size_t i = 0; i < kFrom; ++i) load(i, j, from[i]);
    Eight to[kTo];
    kOneWay(from, to);
    for (std::size_t i = 0; i < kTo; ++i) half[i][j] = to[i];
  }
  for (std::size_t i = 0; i < kTo; ++i) {
    Eight to[kTo];
    kOneWay(half[i], to);
    for (std::size_t j = 0; j < kTo; ++j) store(i, j, to[j]);
  }
}

/// Tiles that go through the three steps together: `tiles` of them from `first` on, at most kTiles.
struct Block {
  std::size_t first, tiles;
};

/// Channels from `first` to before `end`.
struct Channels {
  std::size_t first, end;
};

/// Calls use(tile, place, channel) for the block's tiles, counted from 0, and 8 channels from
/// `channel` on: those of a cache line, then the next tile's.
template <class Use>
STARLING_INLINE void for_each_vector(const Tiling& tiling, const Block& block,
                                     const Channels& channels, const Use& use) {
  for (std::size_t line = channels.first; line < channels.end; line += kLine) {
    const std::size_t end = std::min(line + kLine, channels.end);
    for (std::size_t t = 0; t < block.tiles; ++t) {
      const Tiling::Place place = tiling.place(block.first + t);
      for (std::size_t channel = line; channel < end; channel += kLanes) use(t, place, channel);
    }
  }
}

/// The block's transformed patches.
STARLING_KERNEL
void load_patches(const Images& images, const Tiling& tiling, std::size_t padding,
                  const Layout& layout, const Block& block, const float* source, float* patches) {
  const std::size_t point = images.block;
  const std::size_t line = images.width * point;
  const auto load = [&](std::size_t t, const Tiling::Place& place, std::size_t channel)
      __attribute__((always_inline)) {
    const std::size_t top = place.y;
    const std::size_t left = place.x;
    const float* const from = source + images.offset(place.sample, channel);
    float* const to = patches + t * layout.row + channel;
    const auto store = [&](std::size_t i, std::size_t j, const Eight& value)
        __attribute__((always_inline)) {
      eight(to + (i * kPatch + j) * layout.patches_part) = value;
    };
    if (top >= padding && left >= padding && top + kPatch <= images.height + padding &&
        left + kPatch <= images.width + padding) {
      const float* const corner = from + (top - padding) * line + (left - padding) * point;
      const auto inside = [&](std::size_t i, std::size_t j, Eight & value)
          __attribute__((always_inline)) {
        value = eight(corner + i * line + j * point);
      };
      transform<patch_way, kPatch, kPatch>(inside, store);
    } else {
      const auto or_zero = [&](std::size_t i, std::size_t j, Eight & value)
          __attribute__((always_inline)) {
        const std::size_t y = top + i - padding;  // wraps around above and left of the image
        const std::size_t x = left + j - padding;
        value = y < images.height && x < images.width ? Eight{eight(from + y * line + x * point)}
                                                      : Eight{};
      };
      transform<patch_way, kPatch, kPatch>(or_zero, store);
    }
  };
  for_each_vector(tiling, block, {0, images.channels}, load);
}

/// From products to results.
STARLING_KERNEL
void store_results(const Images& images, const Tiling& tiling, const Layout& layout,
                   const Block& block, const Channels& channels, const float* products,
                   const float* bias, bool relu, float* result) {
  const std::size_t point = images.block;
  const std::size_t line = images.width * point;
  const auto store = [&](std::size_t t, const Tiling::Place& place, std::size_t channel)
      __attribute__((always_inline)) {
    const auto [sample, top, left] = place;
    const float* const from = products + layout.result_at(t, channel);
    float* const to = result + images.offset(sample, channel) + top * line + left * point;
    const Eight start = bias != nullptr ? Eight{eight(bias + channel)} : Eight{};
    const std::size_t down = images.height - top;
    const std::size_t across = images.width - left;
    transform<result_way, kPatch, kTile>(
        [&](std::size_t i, std::size_t j, Eight & value) __attribute__((always_inline)) {
          value = eight(from + (i * kPatch + j) * layout.results_part);
        },
        [&](std::size_t i, std::size_t j, const Eight& sum) __attribute__((always_inline)) {
          if (i >= down || j >= across) return;
          const Eight value = sum + start;
          eight(to + i * line + j * point) = relu ? (value < Eight{} ? Eight{} : value) : value;
        });
  };
  for_each_vector(tiling, block, channels, store);
}

/// The block's transformed gradients of results, and their sums over all points added to `sums`.
STARLING_KERNEL
void load_gradients(const Images& images, const Tiling& tiling, const Layout& layout,
                    const Block& block, const Channels& channels, const float* gradient,
                    float* transformed, float* sums) {
  const std::size_t point = images.block;
  const std::size_t line = images.width * point;
  const auto load = [&](std::size_t t, const Tiling::Place& place, std::size_t channel)
      __attribute__((always_inline)) {
    const auto [sample, top, left] = place;
    const float* const from = gradient + images.offset(sample, channel) + top * line + left * point;
    float* const to = transformed + layout.result_at(t, channel);
    const std::size_t down = images.height - top;
    const std::size_t across = images.width - left;
    Eight sum = eight(sums + channel);
    transform<gradient_way, kTile, kPatch>(
        [&](std::size_t i, std::size_t j, Eight & value) __attribute__((always_inline)) {
          value = i < down && j < across ? Eight{eight(from + i * line + j * point)} : Eight{};
          sum += value;
        },
        [&](std::size_t i, std::size_t j, const Eight& value) __attribute__((always_inline)) {
          eight(to + (i * kPatch + j) * layout.results_part) = value;
        });
    eight(sums + channel) = sum;
  };
  for_each_vector(tiling, block, channels, load);
}

/// Weights of input channel `c` for the 8 output channels from `k` on, zero if there are none.
STARLING_INLINE void gather(const WinogradShape& s, WinogradPass pass, const float* weight,
                            std::size_t c, std::size_t k, Eight (&g)[kWindow][kWindow]) {
  alignas(Eight) float lanes[kWeights][kLanes] = {};
  for (std::size_t lane = 0; lane < kLanes && k + lane < s.out_channels; ++lane) {
    const float* const window = pass == WinogradPass::forward
                                    ? weight + ((k + lane) * s.in_channels + c) * kWeights
                                    : weight + (c * s.out_channels + k + lane) * kWeights;
    for (std::size_t i = 0; i < kWeights; ++i) {
      lanes[i][lane] = window[pass == WinogradPass::forward ? i : kWeights - 1 - i];
    }
  }
  for (std::size_t i = 0; i < kWeights; ++i) g[i / kWindow][i % kWindow] = eight(lanes[i]);
}

STARLING_KERNEL
void transform_panels(const WinogradShape& s, WinogradPass pass, const Layout& layout,
                      std::size_t first, std::size_t last, const float* weight, float* to) {
  for (std::size_t panel = first; panel < last; ++panel) {
    for (std::size_t c = 0; c < s.in_channels; ++c) {
      for (std::size_t lane = 0; lane < layout.columns; lane += kLanes) {
        Eight g[kWindow][kWindow];
        gather(s, pass, weight, c, panel * layout.columns + lane, g);
        float* const at = to + (panel * s.in_channels + c) * layout.columns + lane;
        transform<weights_way, kWindow, kPatch>(
            [&](std::size_t i, std::size_t j, Eight & value)
                __attribute__((always_inline)) { value = g[i][j]; },
            [&](std::size_t i, std::size_t j, const Eight& value) __attribute__((always_inline)) {
              eight(at + (i * kPatch + j) * layout.weights_part) = value;
            });
      }
    }
  }
}

/// The weights' gradient from the sum of the `copies` of its transform.
STARLING_KERNEL
void transform_panels_back(const WinogradShape& s, const Layout& layout, std::size_t first,
                           std::size_t last, const float* transformed, std::size_t copies,
                           float* dweight) {
  for (std::size_t panel = first; panel < last; ++panel) {
    for (std::size_t c = 0; c < s.in_channels; ++c) {
      const float* const row = transformed + (panel * layout.gradient_rows + c) * layout.columns;
      const std::size_t start = panel * layout.columns;
      const std::size_t end = std::min(start + layout.columns, s.out_channels);
      for (std::size_t k = start; k < end; k += kLanes) {
        transform<back_way, kPatch, kWindow>(
            [&](std::size_t i, std::size_t j, Eight & sum) __attribute__((always_inline)) {
              const float* const from = row + k - start + (i * kPatch + j) * layout.gradient_part;
              sum = eight(from);
              for (std::size_t copy = 1; copy < copies; ++copy) {
                sum += eight(from + copy * layout.gradient);
              }
            },
            [&](std::size_t i, std::size_t j, const Eight& value) __attribute__((always_inline)) {
              for (std::size_t lane = 0; lane < kLanes; ++lane) {
                dweight[((k + lane) * s.in_channels + c) * kWeights + i * kWindow + j] =
                    value[lane];
              }
            });
      }
    }
  }
}

/// One thread's share of a convolution: some tiles, and some panels of output channels.
struct Share {
  std::size_t first, last;
  std::size_t first_panel, last_panel;

  [[nodiscard]] Channels channels(const WinogradShape& s, const Layout& layout) const {
    return {first_panel * layout.columns, std::min(last_panel * layout.columns, s.out_channels)};
  }
  template <class Work>
  void for_each_block(const Work& work) const {
    for (std::size_t at = first; at < last; at += kTiles) {
      work(Block{at, std::min(kTiles, last - at)});
    }
  }
};

/// The products of a block's transformed patches with the share's panels of weights.
void multiply(const WinogradShape& s, const Layout& layout, const Share& share, std::size_t tiles,
              const float* patches, const float* weights, float* products) {
  const GemmKernel& kernel = gemm_kernel();
  for (std::size_t e = 0; e < kParts; ++e) {
    for (std::size_t k = 0; k < s.in_channels; k += kDepth) {
      const std::size_t depth = std::min(kDepth, s.in_channels - k);
      for (std::size_t panel = share.first_panel; panel < share.last_panel; ++panel) {
        const float* const right =
            weights + e * layout.weights_part + (panel * s.in_channels + k) * layout.columns;
        float* const to = products + e * layout.results_part + panel * kTiles * layout.columns;
        // The rows after the last patch exist, with any content.
        for (std::size_t t = 0; t < tiles; t += kernel.rows) {
          kernel.tile_rows(depth, patches + e * layout.patches_part + t * layout.row + k,
                           layout.row, right, to + t * layout.columns, layout.columns, k > 0);
        }
      }
    }
  }
}

/// The products of a block's patches, transposed, with the results' gradients.
void multiply_transposed(const WinogradShape& s, const Layout& layout, const Share& share,
                         std::size_t tiles, const float* patches, const float* gradients,
                         float* products, bool add) {
  const GemmKernel& kernel = gemm_kernel();
  for (std::size_t e = 0; e < kParts; ++e) {
    for (std::size_t panel = share.first_panel; panel < share.last_panel; ++panel) {
      const float* const right =
          gradients + e * layout.results_part + panel * kTiles * layout.columns;
      float* const to =
          products + e * layout.gradient_part + panel * layout.gradient_rows * layout.columns;
      // The columns after the last channel exist, with any content.
      for (std::size_t c = 0; c < s.in_channels; c += kernel.rows) {
        kernel.tile_columns(tiles, patches + e * layout.patches_part + c, layout.row, right,
                            to + c * layout.columns, layout.columns, add);
      }
    }
  }
}

/// Whether threads divide the panels, and each transforms all patches: if there are few tiles, this
/// costs less than if each thread reads all weights, or sums a gradient of all weights.
bool shares_panels(const WinogradShape& s, std::uint32_t threads) {
  return threads > 1 && s.tiles() < s.out_channels * threads;
}

/// Calls work(thread, share) for each thread's share.
template <class Work>
void for_each_share(const WinogradShape& s, const Layout& layout, std::uint32_t threads,
                    const Work& work) {
  const bool by_panels = shares_panels(s, threads);
  const std::size_t count = by_panels ? layout.panels : s.tiles();
  const std::size_t shares = std::min<std::size_t>(threads, count);
#pragma omp parallel for num_threads(shares) schedule(static, 1) if (shares > 1)
  for (std::size_t thread = 0; thread < shares; ++thread) {
    const std::size_t first = count * thread / shares;
    const std::size_t last = count * (thread + 1) / shares;
    work(thread,
         by_panels ? Share{0, s.tiles(), first, last} : Share{first, last, 0, layout.panels});
  }
}

/// The number of partial sums of the weights' gradient.
std::size_t gradient_copies(const WinogradShape& s, std::uint32_t threads) {
  return shares_panels(s, threads) ? 1 : threads;
}

}  // namespace

std::size_t WinogradShape::tiles() const noexcept {
  const Tiling tiling = tiling_of(*this);
  return samples * tiling.down * tiling.across;
}

std::size_t winograd_weights_size(const WinogradShape& shape) {
  return kParts * Layout(shape).weights_part;
}

std::size_t winograd_scratch_size(const WinogradShape& shape, std::uint32_t threads) {
  return threads * Layout(shape).scratch;
}

std::size_t winograd_gradient_scratch_size(const WinogradShape& shape, std::uint32_t threads) {
  const Layout layout(shape);
  return threads * layout.scratch + gradient_copies(shape, threads) * layout.gradient;
}

void winograd_weights(const WinogradShape& shape, WinogradPass pass, const float* weight,
                      float* transformed) {
  const Layout layout(shape);
  in_parallel(layout.panels, 1, [&](std::size_t first, std::size_t last) {
    transform_panels(shape, pass, layout, first, last, weight, transformed);
  });
}

void winograd_forward(const WinogradShape& shape, const float* source, const float* transformed,
                      const float* bias, bool relu, float* result, float* scratch,
                      std::uint32_t threads) {
  const Layout layout(shape);
  const Tiling tiling = tiling_of(shape);
  for_each_share(shape, layout, threads, [&](std::size_t thread, const Share& share) {
    float* const patches = scratch + thread * layout.scratch;
    float* const products = patches + kParts * layout.patches_part;
    share.for_each_block([&](const Block& block) {
      load_patches(source_of(shape), tiling, shape.padding, layout, block, source, patches);
      multiply(shape, layout, share, block.tiles, patches, transformed, products);
      store_results(result_of(shape), tiling, layout, block, share.channels(shape, layout),
                    products, bias, relu, result);
    });
  });
}

void winograd_backward_weights(const WinogradShape& shape, const float* source,
                               const float* result_gradient, float* dweight, float* dbias,
                               float* scratch, std::uint32_t threads) {
  const Layout layout(shape);
  const Tiling tiling = tiling_of(shape);
  const std::size_t copies = gradient_copies(shape, threads);
  float* const sums = scratch + threads * layout.scratch;
  float* const bias_sums = sums + kParts * layout.gradient_part;
  for (std::size_t copy = 0; copy < copies; ++copy) {
    std::fill_n(bias_sums + copy * layout.gradient, shape.out_channels, 0.0F);
  }
  for_each_share(shape, layout, threads, [&](std::size_t thread, const Share& share) {
    float* const patches = scratch + thread * layout.scratch;
    float* const gradients = patches + kParts * layout.patches_part;
    const std::size_t copy = thread % copies * layout.gradient;
    share.for_each_block([&](const Block& block) {
      load_patches(source_of(shape), tiling, shape.padding, layout, block, source, patches);
      load_gradients(result_of(shape), tiling, layout, block, share.channels(shape, layout),
                     result_gradient, gradients, bias_sums + copy);
      multiply_transposed(shape, layout, share, block.tiles, patches, gradients, sums + copy,
                          block.first > share.first);
    });
  });
  in_parallel(layout.panels, 1, [&](std::size_t first, std::size_t last) {
    transform_panels_back(shape, layout, first, last, sums, copies, dweight);
  });
  if (dbias == nullptr) return;
  for (std::size_t c = 0; c < shape.out_channels; ++c) {
    dbias[c] = bias_sums[c];
    for (std::size_t copy = 1; copy < copies; ++copy) {
      dbias[c] += bias_sums[copy * layout.gradient + c];
    }
  }
}

}  // namespace starling::compute::cpu
