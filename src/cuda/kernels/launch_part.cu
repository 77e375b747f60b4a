// Kernels for a GPU. The build compiles this file once for each part of them, with STARLING_PART as
// its number: one unit with all of them takes minutes.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>
#include <variant>

#include "base/integer.hpp"
#include "cuda/kernels/launch.hpp"

namespace starling::compute::cuda {

namespace {

constexpr unsigned kWarp = 32;
constexpr unsigned kElementThreads = 256;
constexpr unsigned kRowThreadsMax = 512;
constexpr std::size_t kBlocksMax = 65535;   ///< more work is done in rounds
constexpr std::size_t kBlocksWanted = 264;  ///< two for each processor of an H100

/// The sifted elements of a thread in a block of kRowThreadsMax.
constexpr unsigned kFoursHeld = kSifted / (kRowThreadsMax * kFour);
static_assert(kFoursHeld == 2);

/// Elements that a thread sums side by side, so that this many loads are in flight.
constexpr unsigned kSideBySide = 4;

/// The value of the lane whose number differs in these bits, for values of whole words.
template <class Value>
__device__ Value of_lane(const Value& own, unsigned bits) {
  struct Words {
    unsigned of[sizeof(Value) / sizeof(unsigned)];
  };
  Words words = std::bit_cast<Words>(own);
#pragma unroll
  for (unsigned& word : words.of) word = __shfl_xor_sync(0xffffffffU, word, bits);
  return std::bit_cast<Value>(words);
}

/// The sum of this lane's value and those of the warp's lower lanes.
template <class Value>
__device__ Value sum_upto(const Value& own, unsigned lane) {
  Value upto = own;
  for (unsigned lanes = 1; lanes < kWarp; lanes *= 2) {
    const Value lower = __shfl_up_sync(0xffffffffU, upto, lanes);
    if (lane >= lanes) upto += lower;
  }
  return upto;
}

/// All threads of a block, which are whole warps, on one row together. Sums have a fixed order:
/// each thread's elements, a butterfly over each warp (the same bits in all of its lanes), then
/// the warps in turn.
struct BlockTeam {
  template <class F>
  __device__ auto sum(std::size_t count, const F& f) const {
    using Value = decltype(f(std::size_t{}));
    __shared__ Value parts[kWarp];
    Value sums[kSideBySide]{};
    std::size_t i = threadIdx.x;
    for (; i + (kSideBySide - 1) * blockDim.x < count; i += kSideBySide * blockDim.x) {
      Value made[kSideBySide];
#pragma unroll
      for (unsigned side = 0; side < kSideBySide; ++side) made[side] = f(i + side * blockDim.x);
#pragma unroll
      for (unsigned side = 0; side < kSideBySide; ++side) sums[side] += made[side];
    }
    for (; i < count; i += blockDim.x) sums[0] += f(i);
    Value own = sums[0];
#pragma unroll
    for (unsigned side = 1; side < kSideBySide; ++side) own += sums[side];
    for (unsigned lane = kWarp / 2; lane > 0; lane /= 2) own += of_lane(own, lane);
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = own;
    __syncthreads();
    Value all{};
    for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp) all += parts[warp];
    __syncthreads();  // before the next row writes to the parts
    return all;
  }

  template <class F>
  __device__ Largest largest(std::size_t count, const F& f) const {
    __shared__ float values[kWarp];
    __shared__ unsigned long long places[kWarp];
    // A thread without an element holds the first one, which changes nothing.
    float value = f(0);
    unsigned long long place = 0;
    for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) {
      const float other = f(i);
      if (other > value) {
        value = other;
        place = i;
      }
    }
    for (unsigned lane = kWarp / 2; lane > 0; lane /= 2) {
      take(value, place, __shfl_xor_sync(0xffffffffU, value, lane),
           __shfl_xor_sync(0xffffffffU, place, lane));
    }
    if (threadIdx.x % kWarp == 0) {
      values[threadIdx.x / kWarp] = value;
      places[threadIdx.x / kWarp] = place;
    }
    __syncthreads();
    value = values[0];
    place = places[0];
    for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) {
      take(value, place, values[warp], places[warp]);
    }
    __syncthreads();
    return {value, static_cast<std::size_t>(place)};
  }

  template <class F>
  __device__ void each(std::size_t count, const F& f) const {
    for (std::size_t i = threadIdx.x; i < count; i += blockDim.x) f(i);
  }

  template <class F>
  __device__ auto once(const F& f) const {
    __shared__ decltype(f()) shared;
    if (threadIdx.x == 0) shared = f();
    __syncthreads();
    const auto value = shared;
    __syncthreads();  // before the next one is written
    return value;
  }

  template <class T>
  __device__ T& shared() const {
    __shared__ T memory;
    return memory;
  }

  __device__ void meet() const { __syncthreads(); }

  template <class F, class G>
  __device__ auto running_sum(std::size_t count, const F& f, const G& g) const {
    using Value = decltype(f(std::size_t{}));
    __shared__ Value parts[kWarp];
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned own_lane = threadIdx.x % kWarp;
    Value before{};
    for (std::size_t begin = 0; begin < count; begin += blockDim.x) {
      const std::size_t i = begin + threadIdx.x;
      const Value own = i < count ? f(i) : Value{};
      const Value upto = sum_upto(own, own_lane);
      if (own_lane == kWarp - 1) parts[warp] = upto;
      __syncthreads();
      Value at = before + upto - own;
      for (unsigned other = 0; other < blockDim.x / kWarp; ++other) {
        if (other < warp) at += parts[other];
        before += parts[other];
      }
      if (i < count) g(i, at);
      __syncthreads();  // before the next parts are written
    }
    return before;
  }

  template <class F, class Hit, class Place, class G>
  __device__ void sift(std::size_t count, const F& f, const Hit& hit, const Place& place,
                       const G& g) const {
    __shared__ unsigned parts[kWarp];
    __shared__ std::size_t places;
    const unsigned warp = threadIdx.x / kWarp;
    const unsigned lane = threadIdx.x % kWarp;
    // A thread reads all its elements before it waits for anything. The hits of its fours take 16
    // bits each, in which all hits of a round fit.
    Four held[kFoursHeld];
    unsigned hits = 0;
#pragma unroll
    for (unsigned round = 0; round < kFoursHeld; ++round) {
      const std::size_t i = (round * kRowThreadsMax + threadIdx.x) * kFour;
      held[round] = i < count ? f(i, in_four(i, count)) : Four{};
    }
#pragma unroll
    for (unsigned round = 0; round < kFoursHeld; ++round) {
#pragma unroll
      for (unsigned k = 0; k < kFour; ++k) {
        hits += hit(held[round].of[k]) ? 1U << 16 * round : 0U;
      }
    }
    const unsigned upto = sum_upto(hits, lane);
    if (lane == kWarp - 1) parts[warp] = upto;
    __syncthreads();
    const unsigned part = lane < blockDim.x / kWarp ? parts[lane] : 0U;
    const unsigned all = __reduce_add_sync(0xffffffffU, part);
    const unsigned before = __reduce_add_sync(0xffffffffU, lane < warp ? part : 0U) + upto - hits;
    if (threadIdx.x == 0) places = place((all & 0xffffU) + (all >> 16));
    __syncthreads();
    const std::size_t first = places;
    if (hits != 0 && first != kNowhere) {
#pragma unroll
      for (unsigned round = 0; round < kFoursHeld; ++round) {
        std::size_t to = first + (round == 0 ? before & 0xffffU : (all & 0xffffU) + (before >> 16));
#pragma unroll
        for (unsigned k = 0; k < kFour; ++k) {
          const float value = held[round].of[k];
          if (hit(value)) g(to++, (round * kRowThreadsMax + threadIdx.x) * kFour + k, value);
        }
      }
    }
    __syncthreads();  // before the next row writes to the place
  }

  __device__ bool leads() const { return threadIdx.x == 0; }

 private:
  /// The larger one; the first of equals.
  __device__ static void take(float& value, unsigned long long& place, float other,
                              unsigned long long other_place) {
    if (other > value || (other == value && other_place < place)) {
      value = other;
      place = other_place;
    }
  }
};

/// The number of blocks for which a processor must have room at the same time, for kernels that
/// request it.
constexpr unsigned kCrowd = 3;

template <class K>
constexpr unsigned blocks_at_once() {
  if constexpr (CrowdedKernel<K>) {
    return kCrowd;
  } else {
    return 1;
  }
}

template <class K>
__global__ void __launch_bounds__(kElementThreads, blocks_at_once<K>())
    each_element(const K kernel, std::size_t calls) {
  const std::size_t threads = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < calls;
       i += threads) {
    kernel(i * elements_a_call<K>());
  }
}

template <class K>
constexpr unsigned row_threads_max() {
  return CrowdedKernel<K> ? kElementThreads : kRowThreadsMax;
}

template <class K>
__global__ void __launch_bounds__(row_threads_max<K>(), blocks_at_once<K>())
    each_row(const K kernel, std::size_t count) {
  for (std::size_t row = blockIdx.x; row < count; row += gridDim.x) kernel(BlockTeam{}, row);
}

/// The number of threads for a row of `width` elements: a few elements each, whole warps.
unsigned row_threads(std::size_t width, unsigned most) {
  unsigned threads = kWarp;
  while (threads < most && threads * std::size_t{4} < width) threads *= 2;
  return threads;
}

/// Threads of a block of elements: whole warps, and fewer if there would be fewer blocks than a GPU
/// has processors, for example if each element is a block of values whose scale is searched.
unsigned element_threads(std::size_t count) {
  unsigned threads = kElementThreads;
  while (threads > kWarp && count < threads * kBlocksWanted) threads /= 2;
  return threads;
}

template <class K>
cudaError_t load_kernel() {
  cudaFuncAttributes about{};
  if constexpr (RowKernel<K>) {
    return cudaFuncGetAttributes(&about, each_row<K>);
  } else {
    return cudaFuncGetAttributes(&about, each_element<K>);
  }
}

template <class K>
cudaError_t launch_kernel(const K& kernel, const KernelWork& work, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.stream = stream;
  if constexpr (RowKernel<K>) {
    config.gridDim = static_cast<unsigned>(std::min(work.count, kBlocksMax));
    config.blockDim = row_threads(work.width, row_threads_max<K>());
    return cudaLaunchKernelEx(&config, each_row<K>, kernel, work.count);
  } else {
    const std::size_t calls = base::ceil_div(work.count, elements_a_call<K>());
    const unsigned threads = element_threads(calls);
    const std::size_t wanted = base::ceil_div(calls, std::size_t{threads});
    config.gridDim = static_cast<unsigned>(std::min(wanted, kBlocksMax));
    config.blockDim = threads;
    return cudaLaunchKernelEx(&config, each_element<K>, kernel, calls);
  }
}

/// Calls f.operator()<place>() for each kernel of a part, until one answers with an error.
template <std::size_t part, class F>
cudaError_t each_of_part(const F& f) {
  cudaError_t answer = cudaSuccess;
  const auto visit = [&]<std::size_t place>() {
    if constexpr (place % kKernelParts == part) answer = f.template operator()<place>();
    return answer == cudaSuccess;
  };
  [&]<std::size_t... places>(std::index_sequence<places...>) {
    static_cast<void>((visit.template operator()<places>() && ...));
  }
  (std::make_index_sequence<std::variant_size_v<Kernel>>{});
  return answer;
}

}  // namespace

template <std::size_t part>
cudaError_t KernelPart<part>::load() {
  return each_of_part<part>(
      []<std::size_t place>() { return load_kernel<std::variant_alternative_t<place, Kernel>>(); });
}

template <std::size_t part>
cudaError_t KernelPart<part>::launch(const KernelWork& work, cudaStream_t stream) {
  return each_of_part<part>([&]<std::size_t place>() {
    const auto* kernel = std::get_if<place>(&work.kernel);
    return kernel == nullptr ? cudaSuccess : launch_kernel(*kernel, work, stream);
  });
}

template struct KernelPart<STARLING_PART>;

}  // namespace starling::compute::cuda
