#include "compute/cpu/winograd.hpp"

#include <algorithm>

#include "compute/cpu/gemm_kernel.hpp"
#include "compute/cpu/kernel.hpp"

namespace starling::compute::cpu {

namespace {

constexpr std::size_t kPatch = 4;                // a side of what one tile of results looks at
constexpr std::size_t kTile = 2;                 // a side of a tile of results
constexpr std::size_t kParts = kPatch * kPatch;  // matrices of a transform
constexpr std::size_t kWindow = 3 * 3;
// Tiles that go through all three steps together: of 64 channels their transforms take 420 KB,
// which stay in the second-level cache. A multiple of every GemmKernel's rows.
constexpr std::size_t kTiles = 48;
constexpr std::size_t kDepth = 256;  // of a product: its panel of weights stays in the first level
constexpr std::size_t kLanes = 8;
constexpr std::size_t kLine = 16;  // floats of a cache line: so many channels are written at a time
// Behind each row of transformed patches, so that rows do not fall on the same places of a cache.
constexpr std::size_t kGap = 8;

using Eight __attribute__((vector_size(kLanes * sizeof(float)))) = float;
// As it lies in memory, at any address.
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

/// How the results' tiles are numbered: row by row, sample by sample.
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
  return {(s.out_height() + kTile - 1) / kTile, (s.out_width() + kTile - 1) / kTile};
}

std::size_t tiles_of(const WinogradShape& s) {
  const Tiling tiling = tiling_of(s);
  return s.samples * tiling.down * tiling.across;
}

/// Where the transforms lie. Patches: for each part, a row of channels a tile. Weights and results:
/// for each part, panels of the kernel's columns.
struct Layout {
  explicit Layout(const WinogradShape& s)
      : columns(gemm_kernel().columns),
        panels(round_up(s.out_channels, columns) / columns),
        row(s.in_channels + kGap),
        patches_part(kTiles * row),
        results_part(kTiles * panels * columns),
        weights_part(s.in_channels * panels * columns),
        gradient_rows(round_up(s.in_channels, gemm_kernel().rows)),
        gradient_part(gradient_rows * panels * columns) {}

  std::size_t columns, panels, row;
  std::size_t patches_part, results_part, weights_part;
  std::size_t gradient_rows, gradient_part;
  std::size_t scratch = kParts * (patches_part + results_part);  ///< floats of a thread
  std::size_t gradient_scratch = scratch + kParts * gradient_part + panels * columns;

  /// Where a tile's results lie in a part, from a channel on.
  [[nodiscard]] STARLING_INLINE std::size_t result_at(std::size_t tile, std::size_t channel) const {
    return (channel / columns * kTiles + tile) * columns + channel % columns;
  }
};

// The transforms, with the matrices A, B and G of the article's section 4.1. Of one that lies in
// memory, `part` floats are from an element to the next of its 16.

/// B^T d B.
STARLING_INLINE void transform_patch(const Eight (&d)[kPatch][kPatch], float* to,
                                     std::size_t part) {
  Eight t[kPatch][kPatch];
  for (std::size_t j = 0; j < kPatch; ++j) {
    t[0][j] = d[0][j] - d[2][j];
    t[1][j] = d[1][j] + d[2][j];
    t[2][j] = d[2][j] - d[1][j];
    t[3][j] = d[1][j] - d[3][j];
  }
  for (std::size_t i = 0; i < kPatch; ++i, to += kPatch * part) {
    eight(to) = t[i][0] - t[i][2];
    eight(to + part) = t[i][1] + t[i][2];
    eight(to + 2 * part) = t[i][2] - t[i][1];
    eight(to + 3 * part) = t[i][1] - t[i][3];
  }
}

/// A^T m A.
STARLING_INLINE void transform_result(const float* m, std::size_t part, Eight (&y)[kTile][kTile]) {
  Eight s[kTile][kPatch];
  for (std::size_t j = 0; j < kPatch; ++j, m += part) {
    const Eight middle = eight(m + kPatch * part);
    const Eight next = eight(m + 2 * kPatch * part);
    s[0][j] = eight(m) + middle + next;
    s[1][j] = middle - next - eight(m + 3 * kPatch * part);
  }
  for (std::size_t i = 0; i < kTile; ++i) {
    y[i][0] = s[i][0] + s[i][1] + s[i][2];
    y[i][1] = s[i][1] - s[i][2] - s[i][3];
  }
}

/// A y A^T.
STARLING_INLINE void transform_gradient(const Eight (&y)[kTile][kTile], float* to,
                                        std::size_t part) {
  const Eight r[kPatch][kTile] = {{y[0][0], y[0][1]},
                                  {y[0][0] + y[1][0], y[0][1] + y[1][1]},
                                  {y[0][0] - y[1][0], y[0][1] - y[1][1]},
                                  {-y[1][0], -y[1][1]}};
  for (std::size_t i = 0; i < kPatch; ++i, to += kPatch * part) {
    eight(to) = r[i][0];
    eight(to + part) = r[i][0] + r[i][1];
    eight(to + 2 * part) = r[i][0] - r[i][1];
    eight(to + 3 * part) = -r[i][1];
  }
}

/// G g G^T.
STARLING_INLINE void transform_weights(const Eight (&g)[3][3], float* to, std::size_t part) {
  Eight t[kPatch][3];
  for (std::size_t j = 0; j < 3; ++j) {
    const Eight ends = 0.5F * (g[0][j] + g[2][j]);
    t[0][j] = g[0][j];
    t[1][j] = ends + 0.5F * g[1][j];
    t[2][j] = ends - 0.5F * g[1][j];
    t[3][j] = g[2][j];
  }
  for (std::size_t i = 0; i < kPatch; ++i, to += kPatch * part) {
    const Eight ends = 0.5F * (t[i][0] + t[i][2]);
    eight(to) = t[i][0];
    eight(to + part) = ends + 0.5F * t[i][1];
    eight(to + 2 * part) = ends - 0.5F * t[i][1];
    eight(to + 3 * part) = t[i][2];
  }
}

/// G^T u G.
STARLING_INLINE void transform_back(const Eight (&u)[kPatch][kPatch], Eight (&g)[3][3]) {
  Eight t[3][kPatch];
  for (std::size_t j = 0; j < kPatch; ++j) {
    const Eight both = 0.5F * (u[1][j] + u[2][j]);
    t[0][j] = u[0][j] + both;
    t[1][j] = 0.5F * (u[1][j] - u[2][j]);
    t[2][j] = both + u[3][j];
  }
  for (std::size_t i = 0; i < 3; ++i) {
    const Eight both = 0.5F * (t[i][1] + t[i][2]);
    g[i][0] = t[i][0] + both;
    g[i][1] = 0.5F * (t[i][1] - t[i][2]);
    g[i][2] = both + t[i][3];
  }
}

/// Calls use(tile, place, channel) for the tiles first .. first + count - 1, counted from 0, and 8
/// channels from `channel` on: those of a cache line, then the next tile's.
template <class Use>
STARLING_INLINE void for_each_vector(const Images& images, const Tiling& tiling, std::size_t first,
                                     std::size_t count, const Use& use) {
  for (std::size_t line = 0; line < images.channels; line += kLine) {
    const std::size_t end = std::min(line + kLine, images.channels);
    for (std::size_t t = 0; t < count; ++t) {
      const Tiling::Place place = tiling.place(first + t);
      for (std::size_t channel = line; channel < end; channel += kLanes) use(t, place, channel);
    }
  }
}

/// The transformed patches of tiles first .. first + count - 1.
STARLING_KERNEL
void load_patches(const Images& images, const Tiling& tiling, std::size_t padding,
                  const Layout& layout, std::size_t first, std::size_t count, const float* source,
                  float* patches) {
  const std::size_t point = images.block;
  const std::size_t line = images.width * point;
  const auto load = [&](std::size_t t, const Tiling::Place& place, std::size_t channel)
      __attribute__((always_inline)) {
    const auto [sample, top, left] = place;
    const float* const from = source + images.offset(sample, channel);
    Eight d[kPatch][kPatch];
    if (top >= padding && left >= padding && top + kPatch <= images.height + padding &&
        left + kPatch <= images.width + padding) {
      const float* const corner = from + (top - padding) * line + (left - padding) * point;
      for (std::size_t i = 0; i < kPatch; ++i) {
        for (std::size_t j = 0; j < kPatch; ++j) d[i][j] = eight(corner + i * line + j * point);
      }
    } else {
      for (std::size_t i = 0; i < kPatch; ++i) {
        for (std::size_t j = 0; j < kPatch; ++j) {
          const std::size_t y = top + i - padding;  // wraps around above and left of the image
          const std::size_t x = left + j - padding;
          d[i][j] =
              y < images.height && x < images.width ? eight(from + y * line + x * point) : Eight{};
        }
      }
    }
    transform_patch(d, patches + t * layout.row + channel, layout.patches_part);
  };
  for_each_vector(images, tiling, first, count, load);
}

/// From products to results.
STARLING_KERNEL
void store_results(const Images& images, const Tiling& tiling, const Layout& layout,
                   std::size_t first, std::size_t count, const float* products, const float* bias,
                   bool relu, float* result) {
  const std::size_t point = images.block;
  const std::size_t line = images.width * point;
  const auto store = [&](std::size_t t, const Tiling::Place& place, std::size_t channel)
      __attribute__((always_inline)) {
    const auto [sample, top, left] = place;
    Eight y[kTile][kTile];
    transform_result(products + layout.result_at(t, channel), layout.results_part, y);
    const Eight start = bias != nullptr ? Eight{eight(bias + channel)} : Eight{};
    float* const to = result + images.offset(sample, channel) + top * line + left * point;
    for (std::size_t i = 0; i < kTile && top + i < images.height; ++i) {
      for (std::size_t j = 0; j < kTile && left + j < images.width; ++j) {
        const Eight value = y[i][j] + start;
        eight(to + i * line + j * point) = relu ? (value > Eight{} ? value : Eight{}) : value;
      }
    }
  };
  for_each_vector(images, tiling, first, count, store);
}

/// The transformed gradients of results, and their sums over all points added to `sums`.
STARLING_KERNEL
void load_gradients(const Images& images, const Tiling& tiling, const Layout& layout,
                    std::size_t first, std::size_t count, const float* gradient, float* transformed,
                    float* sums) {
  const std::size_t point = images.block;
  const std::size_t line = images.width * point;
  const auto load = [&](std::size_t t, const Tiling::Place& place, std::size_t channel)
      __attribute__((always_inline)) {
    const auto [sample, top, left] = place;
    const float* const from = gradient + images.offset(sample, channel) + top * line + left * point;
    const bool below = top + 1 < images.height;
    const bool right = left + 1 < images.width;
    const Eight y[kTile][kTile] = {{eight(from), right ? Eight{eight(from + point)} : Eight{}},
                                   {below ? Eight{eight(from + line)} : Eight{},
                                    below && right ? Eight{eight(from + line + point)} : Eight{}}};
    eight(sums + channel) += (y[0][0] + y[0][1]) + (y[1][0] + y[1][1]);
    transform_gradient(y, transformed + layout.result_at(t, channel), layout.results_part);
  };
  for_each_vector(images, tiling, first, count, load);
}

/// Weights of input channel `c` for the 8 output channels from `k` on, zero where there are none.
STARLING_INLINE void gather(const WinogradShape& s, WinogradPass pass, const float* weight,
                            std::size_t c, std::size_t k, Eight (&g)[3][3]) {
  alignas(Eight) float lanes[kWindow][kLanes] = {};
  for (std::size_t lane = 0; lane < kLanes && k + lane < s.out_channels; ++lane) {
    const float* const window = pass == WinogradPass::forward
                                    ? weight + ((k + lane) * s.in_channels + c) * kWindow
                                    : weight + (c * s.out_channels + k + lane) * kWindow;
    for (std::size_t i = 0; i < kWindow; ++i) {
      lanes[i][lane] = window[pass == WinogradPass::forward ? i : kWindow - 1 - i];
    }
  }
  for (std::size_t i = 0; i < kWindow; ++i) g[i / 3][i % 3] = eight(lanes[i]);
}

STARLING_KERNEL
void transform_panels(const WinogradShape& s, WinogradPass pass, const Layout& layout,
                      std::size_t first, std::size_t last, const float* weight, float* to) {
  for (std::size_t panel = first; panel < last; ++panel) {
    for (std::size_t c = 0; c < s.in_channels; ++c) {
      for (std::size_t j = 0; j < layout.columns; j += kLanes) {
        Eight g[3][3];
        gather(s, pass, weight, c, panel * layout.columns + j, g);
        transform_weights(g, to + (panel * s.in_channels + c) * layout.columns + j,
                          layout.weights_part);
      }
    }
  }
}

/// The weights' gradient from its transform, which `count` threads have a part of each, `apart`
/// from one another.
STARLING_KERNEL
void transform_panels_back(const WinogradShape& s, const Layout& layout, std::size_t first,
                           std::size_t last, const float* transformed, std::size_t apart,
                           std::size_t count, float* dweight) {
  for (std::size_t panel = first; panel < last; ++panel) {
    for (std::size_t c = 0; c < s.in_channels; ++c) {
      for (std::size_t j = 0; j < layout.columns; j += kLanes) {
        const std::size_t k = panel * layout.columns + j;
        if (k >= s.out_channels) break;
        const float* const from =
            transformed + (panel * layout.gradient_rows + c) * layout.columns + j;
        Eight u[kPatch][kPatch];
        for (std::size_t e = 0; e < kParts; ++e) {
          Eight sum = eight(from + e * layout.gradient_part);
          for (std::size_t part = 1; part < count; ++part) {
            sum += eight(from + e * layout.gradient_part + part * apart);
          }
          u[e / kPatch][e % kPatch] = sum;
        }
        Eight g[3][3];
        transform_back(u, g);
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          float* const window = dweight + ((k + lane) * s.in_channels + c) * kWindow;
          for (std::size_t i = 0; i < kWindow; ++i) window[i] = g[i / 3][i % 3][lane];
        }
      }
    }
  }
}

/// The 16 products of `count` transformed patches with the weights.
void multiply(const WinogradShape& s, const Layout& layout, std::size_t count, const float* patches,
              const float* weights, float* products) {
  const GemmKernel& kernel = gemm_kernel();
  for (std::size_t e = 0; e < kParts; ++e) {
    for (std::size_t k = 0; k < s.in_channels; k += kDepth) {
      const std::size_t depth = std::min(kDepth, s.in_channels - k);
      for (std::size_t panel = 0; panel < layout.panels; ++panel) {
        const float* const right =
            weights + e * layout.weights_part + (panel * s.in_channels + k) * layout.columns;
        float* const to = products + e * layout.results_part + panel * kTiles * layout.columns;
        // The rows behind the last patch are there, with whatever they hold.
        for (std::size_t t = 0; t < count; t += kernel.rows) {
          kernel.tile_rows(depth, patches + e * layout.patches_part + t * layout.row + k,
                           layout.row, right, to + t * layout.columns, layout.columns, k > 0);
        }
      }
    }
  }
}

/// The 16 products of the patches, transposed, with the results' gradients.
void multiply_transposed(const WinogradShape& s, const Layout& layout, std::size_t count,
                         const float* patches, const float* gradients, float* products, bool add) {
  const GemmKernel& kernel = gemm_kernel();
  for (std::size_t e = 0; e < kParts; ++e) {
    for (std::size_t panel = 0; panel < layout.panels; ++panel) {
      const float* const right =
          gradients + e * layout.results_part + panel * kTiles * layout.columns;
      float* const to =
          products + e * layout.gradient_part + panel * layout.gradient_rows * layout.columns;
      // The columns behind the last channel are there, with whatever they hold.
      for (std::size_t c = 0; c < s.in_channels; c += kernel.rows) {
        kernel.tile_columns(count, patches + e * layout.patches_part + c, layout.row, right,
                            to + c * layout.columns, layout.columns, add);
      }
    }
  }
}

/// Calls work(part, first, last) for as many parts of the tiles as there are threads.
template <class Work>
void for_each_part(std::size_t tiles, std::uint32_t threads, const Work& work) {
#pragma omp parallel for num_threads(threads) schedule(static, 1) if (threads > 1)
  for (std::size_t part = 0; part < threads; ++part) {
    work(part, tiles * part / threads, tiles * (part + 1) / threads);
  }
}

}  // namespace

std::size_t winograd_weights_size(const WinogradShape& shape) {
  return kParts * Layout(shape).weights_part;
}

std::size_t winograd_scratch_size(const WinogradShape& shape, std::uint32_t threads) {
  return threads * Layout(shape).scratch;
}

std::size_t winograd_gradient_scratch_size(const WinogradShape& shape, std::uint32_t threads) {
  return threads * Layout(shape).gradient_scratch;
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
  for_each_part(tiles_of(shape), threads,
                [&](std::size_t part, std::size_t first, std::size_t last) {
                  float* const patches = scratch + part * layout.scratch;
                  float* const products = patches + kParts * layout.patches_part;
                  for (; first < last; first += kTiles) {
                    const std::size_t count = std::min(kTiles, last - first);
                    load_patches(source_of(shape), tiling, shape.padding, layout, first, count,
                                 source, patches);
                    multiply(shape, layout, count, patches, transformed, products);
                    store_results(result_of(shape), tiling, layout, first, count, products, bias,
                                  relu, result);
                  }
                });
}

void winograd_backward_weights(const WinogradShape& shape, const float* source,
                               const float* result_gradient, float* dweight, float* dbias,
                               float* scratch, std::uint32_t threads) {
  const Layout layout(shape);
  const Tiling tiling = tiling_of(shape);
  const std::size_t products_at = layout.scratch;
  const std::size_t sums_at = products_at + kParts * layout.gradient_part;
  for_each_part(tiles_of(shape), threads,
                [&](std::size_t part, std::size_t first, std::size_t last) {
                  float* const patches = scratch + part * layout.gradient_scratch;
                  float* const gradients = patches + kParts * layout.patches_part;
                  float* const products = patches + products_at;
                  float* const sums = patches + sums_at;
                  std::fill_n(sums, shape.out_channels, 0.0F);
                  if (first == last) std::fill_n(products, kParts * layout.gradient_part, 0.0F);
                  for (bool add = false; first < last; first += kTiles, add = true) {
                    const std::size_t count = std::min(kTiles, last - first);
                    load_patches(source_of(shape), tiling, shape.padding, layout, first, count,
                                 source, patches);
                    load_gradients(result_of(shape), tiling, layout, first, count, result_gradient,
                                   gradients, sums);
                    multiply_transposed(shape, layout, count, patches, gradients, products, add);
                  }
                });
  in_parallel(layout.panels, 1, [&](std::size_t first, std::size_t last) {
    transform_panels_back(shape, layout, first, last, scratch + products_at,
                          layout.gradient_scratch, threads, dweight);
  });
  if (dbias == nullptr) return;
  for (std::size_t c = 0; c < shape.out_channels; ++c) {
    dbias[c] = scratch[sums_at + c];
    for (std::size_t part = 1; part < threads; ++part) {
      dbias[c] += scratch[part * layout.gradient_scratch + sums_at + c];
    }
  }
}

}  // namespace starling::compute::cpu
