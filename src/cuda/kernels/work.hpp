// The parts of a compiled network, with addresses: one piece of work after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "cuda/kernels/attention.hpp"
#include "cuda/kernels/channels_last.hpp"
#include "cuda/kernels/choose.hpp"
#include "cuda/kernels/coding.hpp"
#include "cuda/kernels/elementwise.hpp"
#include "cuda/kernels/gemm.hpp"
#include "cuda/kernels/heads.hpp"
#include "cuda/kernels/images.hpp"
#include "cuda/kernels/losses.hpp"
#include "cuda/kernels/replica.hpp"
#include "cuda/kernels/rows.hpp"
#include "cuda/kernels/update.hpp"

namespace starling::compute::cuda {

/// A kernel of our own and its range.
using Kernel = std::variant<
    Activate, ActivateBackward, Convert, RoundRows, SwiGluForward, SwiGluBackward, Drop, Sum,
    AddRow, FinishImage, Embed, EmbedBackward, EmbedJoin, ColumnSums, JoinColumns, MaxPoolForward,
    MaxPoolBackward, AveragePoolForward, AveragePoolBackward, SpreadMean, BatchNormApply,
    BatchNormEvaluate, BatchNormBackward, SumNormalised, NormLast, SumLast, NormBackwardLast,
    NormSumsLast, NormGradientSumsLast, MaxPoolForwardLast, MaxPoolBackwardLast, PointMeansLast,
    SpreadMeanLast, Relayout, PlainConvolution<float>, PlainConvolution<std::uint16_t>, SplitHeads,
    MergeGradients, TurnHeads, MergeHeads, SplitRows, PlaneMeans, RowNormForward, RowNormBackward,
    ChannelSums, JoinChannelSums, BatchNormSums, BatchNormStatistics, BatchNormGradientSums,
    BatchNormGradients, CausalSoftmax, CausalSoftmaxBackward, CrossEntropy, MeanSquared, AddUp,
    SampleDifference<float>, SampleDifference<std::uint16_t>, FindLargest<float>,
    FindLargest<std::uint16_t>, CountKeys<AllValues<float>>, CountKeys<AllValues<std::uint16_t>>,
    CountKeys<ListedValues>, FindDigit, CountTiles<AllTiles<float>>,
    CountTiles<AllTiles<std::uint16_t>>, CountTiles<FoundTiles>, AddBefore,
    TakeChosen<AllTiles<float>>, TakeChosen<AllTiles<std::uint16_t>>, TakeChosen<FoundTiles>,
    PickGaps, MeasureRuns, WriteRuns, FitScales, PackValues, UnpackValues, ReadRuns, JoinRuns,
    RunSquares<float>, RunSquares<std::uint16_t>, ReadMirror<float>, ReadMirror<std::uint16_t>,
    Release, AddDelta, CommitLinks<1>, CommitLinks<2>, CommitLinks<4>, CommitLinks<kLinksAtOnce>,
    CommitTouched<float>, CommitTouched<std::uint16_t>, CommitAll<float>, CommitAll<std::uint16_t>,
    CommitPut<float>, CommitPut<std::uint16_t>, ReleaseSent, SpreadParameters, AddShare, AddLoss,
    RowSquares, FinishNorm, UpdateSgd, UpdateAdam>;

template <class K>
concept RowKernel = requires {
  requires K::kByRows;
};

/// One call handles elements i to i + kWide - 1, except those beyond the kernel's own count.
template <class K>
concept WideKernel = requires {
  K::kWide;
};

/// A kernel that moves more bytes at a time with more threads than with all the registers that it
/// could use.
template <class K>
concept CrowdedKernel = requires {
  K::kCrowded;
};

/// Elements that one call handles.
template <class K>
[[nodiscard]] constexpr std::size_t elements_a_call() {
  if constexpr (WideKernel<K>) {
    return K::kWide;
  } else {
    return 1;
  }
}

struct KernelWork {
  Kernel kernel;
  std::size_t count = 0;  ///< elements, or rows
  std::size_t width = 0;  ///< approximate elements of a row: determines the number of threads
};

/// A convolution by kernels of our own.
[[nodiscard]] inline KernelWork plain(const Convolution& convolution) {
  if (convolution.rounded) {
    const PlainConvolution<std::uint16_t> rounded{convolution};
    return {rounded, rounded.count()};
  }
  const PlainConvolution<float> exact{convolution};
  return {exact, exact.count()};
}

/// The rest of a product that a library makes without bias and ReLU; a batch of one.
[[nodiscard]] inline std::optional<KernelWork> rest_of(const Gemm& gemm) {
  if (gemm.bias == nullptr && !gemm.relu) return {};
  const std::size_t count = gemm.rows * gemm.columns;
  const Floats from{gemm.result, gemm.result_rounded};
  const FloatsTo to = floats_to(gemm.result, gemm.result_rounded);
  return KernelWork{FinishImage{1, gemm.columns, gemm.bias, gemm.relu, count, from, to}, count};
}

/// Fills with zeros.
struct Clear {
  float* to = nullptr;
  std::size_t count = 0;
};

/// Another list of the queue's, by its number.
struct Sublist {
  std::size_t list = 0;
};

struct Work {
  std::variant<KernelWork, Gemm, Convolution, FusedAttention, Clear, Sublist> what;
  std::size_t op = 0;  ///< of the graph, for errors; one past the last: the loss
};

}  // namespace starling::compute::cuda
