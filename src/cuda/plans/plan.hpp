// A network's calls in order, and their memory: all on the host, without CUDA.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "base/integer.hpp"
#include "compute/arena.hpp"
#include "compute/graph.hpp"
#include "cuda/kernels/work.hpp"

namespace starling::compute::cuda {

/// Every buffer and every tensor starts at a multiple of this, which is best for cuBLAS and cuDNN.
inline constexpr std::size_t kAlignment = 256;

/// Gives out offsets in a block of memory, each aligned, one after another.
class OffsetAllocator {
 public:
  /// The offset in bytes of `count` more of them.
  template <class T>
  std::size_t add(std::size_t count) {
    const std::size_t at = bytes_;
    bytes_ += base::round_up(count * sizeof(T), kAlignment);
    return at;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// Index of a buffer of the plan.
using BufferId = std::size_t;

/// Some floats (or integers of the same size) in a buffer.
struct Value {
  BufferId buffer = 0;
  std::size_t offset = 0;  ///< elements
  std::size_t count = 0;
  bool rounded = false;  ///< these are bfloat16, all of the buffer
  bool last = false;     ///< of images: channels come last (NHWC)
  /// For a matrix with gaps after its rows, which are included; 0: no gaps.
  std::size_t stride = 0;

  friend bool operator==(const Value&, const Value&) = default;
};

/// A piece of one of the caller's flat vectors, and its place in the device's copy.
struct Segment {
  std::size_t host = 0;    ///< elements
  std::size_t device = 0;  ///< elements, a multiple of the alignment
  std::size_t count = 0;
};

/// The device's copy of a flat vector: the same tensors in the same order, each one aligned.
struct Layout {
  std::vector<Segment> segments;
  std::size_t count = 0;  ///< elements, including the gaps
};

[[nodiscard]] Layout aligned_layout(const std::vector<Tensor>& tensors);

/// Figures that are known when a plan is made.
struct Constant {
  Value value;
  std::vector<float> content;
};

/// Turns a plan's values into addresses.
class Addresses {
 public:
  Addresses(std::byte* base, std::span<const std::size_t> offsets)
      : base_(base), offsets_(offsets) {}

  template <class T = float>
  [[nodiscard]] T* at(const Value& value) const {
    return reinterpret_cast<T*>(base_ + offsets_[value.buffer] + value.offset * sizeof(float));
  }
  /// For kernels that take both kinds.
  [[nodiscard]] Floats floats(const Value& value) const { return {at<void>(value), value.rounded}; }
  [[nodiscard]] FloatsTo to(const Value& value) const {
    return floats_to(at<void>(value), value.rounded);
  }

 private:
  std::byte* base_;
  std::span<const std::size_t> offsets_;
};

/// Makes a call's work once there are addresses.
using MakeWork = std::function<decltype(Work::what)(const Addresses&)>;

struct Call {
  std::size_t op = 0;
  MakeWork make;
};

/// `training` turns the input into totals and a gradient, `evaluation` into outputs and totals.
/// Both work in one arena. A buffer lives from the first call that touches it to the last; a
/// lasting buffer always lives: the host writes and reads it between runs.
class Plan {
 public:
  [[nodiscard]] Value add(std::size_t count);
  [[nodiscard]] Value add_lasting(std::size_t count);
  [[nodiscard]] Value add_constant(std::vector<float> content);
  /// The buffer is needed at the current time.
  void touch(const Value& value);
  /// Appends a call, which touches these.
  void call(std::vector<Call>& calls, std::size_t op, std::initializer_list<Value> touched,
            MakeWork make);

  /// Once there are no more calls: bytes of the arena, and each buffer's offset.
  [[nodiscard]] ArenaPlan arena() const;

  std::vector<Call> training;
  std::vector<Call> evaluation;
  std::vector<Constant> constants;
  Layout parameter_layout;
  Layout buffer_layout;
  Value parameters;  ///< the layouts' copies
  Value gradient;    ///< like parameters
  Value buffers;
  Value step;           ///< a StepState
  Value totals;         ///< a Totals
  Value input;          ///< batch samples, or tokens (int32)
  Value sorted_tokens;  ///< for a graph of tokens: the step's tokens, ascending (int32)
  Value token_places;   ///< each token's place in the batch (int32)
  Value labels;         ///< int32; or empty
  Value targets;        ///< or empty
  Value outputs;        ///< of evaluation; valid until anything else runs

 private:
  static constexpr std::size_t kNever = ~std::size_t{0};

  std::vector<Lifetime> lifetimes_;
  std::vector<bool> lasting_;
  std::size_t now_ = 0;
};

}  // namespace starling::compute::cuda
