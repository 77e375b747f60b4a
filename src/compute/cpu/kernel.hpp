// Common parts of our own kernels: copies for wider vectors, work split among threads, exponentials
// that vectorise.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <omp.h>

// In front of a kernel: copies for AVX-512 and for AVX2 with FMA beside the baseline one. Unlike
// STARLING_CLONES these may sum in another order on each: gradients need not agree between
// machines. Sanitizers instrument the loader's choice before they are ready, so there is only one
// copy with them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STARLING_KERNEL \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define STARLING_KERNEL
#endif

// For functions called from a kernel's loops: inlined, so that they are compiled for each target.
#define STARLING_INLINE inline __attribute__((always_inline))

namespace starling::compute::cpu {

inline constexpr std::size_t kGrain = 16384;  ///< least elements worth waking a thread for

/// Calls work(first, last) for parts of 0 .. count on the threads that the program set; no part has
/// fewer than `grain` elements unless there is only one. The numbers alone determine which part
/// goes to which thread.
template <class Work>
void in_parallel(std::size_t count, std::size_t grain, const Work& work) {
  const std::size_t parts = std::min<std::size_t>(static_cast<std::size_t>(omp_get_max_threads()),
                                                  count / std::max<std::size_t>(grain, 1));
  if (parts <= 1) {
    work(std::size_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(parts))
  {
    const auto part = static_cast<std::size_t>(omp_get_thread_num());
    const auto team = static_cast<std::size_t>(omp_get_num_threads());
    work(count * part / team, count * (part + 1) / team);
  }
}

/// exp(x) within 2 units in the last place for x from -87 to 88; useless for other x.
STARLING_INLINE float exp_between(float x) noexcept {
  // x = n ln 2 + r with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to a whole number, which then
  // lies in the low bits (a conversion to integers would prevent vectorisation).
  constexpr float kRound = 12582912.0F;
  const float shifted = x * 1.44269504F + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  // Taylor's series, the coefficients adjusted to the interval (Cephes, expf).
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * (r * r) + r + 1.0F;
  const std::uint32_t power = std::bit_cast<std::uint32_t>(shifted) << 23U;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + power);
}

/// exp(x); beyond -87 and 88, the value at these bounds.
STARLING_INLINE float exp_of(float x) noexcept {
  return exp_between(std::min(std::max(x, -87.0F), 88.0F));
}

}  // namespace starling::compute::cpu
