// From a graph to a plan: the work, its order, and its buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "base/integer.hpp"
#include "compute/graph.hpp"
#include "compute/graph_flow.hpp"
#include "cuda/plans/plan.hpp"

namespace starling::compute::cuda {

/// The most bytes of scores for the samples that attention handles together.
inline constexpr std::size_t kScoreBytes = std::size_t{512} << 20;

/// Builds one Plan. Images are NCHW, with bfloat16 NHWC for ops that support it (works_last);
/// everything else is plain.
class Planner {
 public:
  /// Like Queue::fuses.
  using Fuses = std::function<bool(const FusedAttention&)>;

  /// With `rounds`, the factors of products are rounded to bfloat16.
  Planner(const Graph& graph, std::uint32_t batch, bool rounds, Fuses fuses,
          std::size_t score_bytes = kScoreBytes);

  [[nodiscard]] Plan plan();

 private:
  /// Forward's values for backward, one per op.
  struct Saved {
    Value source;
    Value result;
    Value extra;  ///< max_pool2d: number of each window's largest element; norms: figures; a fused
                  ///< attention: log_sums, and its source is rounded
  };
  /// The gradient of an op's result. A shared one may not be written to.
  struct Gradient {
    Value value;
    bool shared = false;
    std::optional<Value> also;  ///< still to be added, for ops that do that themselves
  };
  /// The forms in which a value is needed.
  struct Forms {
    bool exact = false;
    bool rounded = false;
  };
  /// A value in one or both forms.
  struct Made {
    std::optional<Value> exact;
    std::optional<Value> rounded;

    /// In its present form.
    [[nodiscard]] static Made of(const Value& value) {
      return value.rounded ? Made{{}, value} : Made{value, {}};
    }
    /// A form that exists; and the other form, if it exists.
    [[nodiscard]] const Value& first() const { return exact ? *exact : *rounded; }
    [[nodiscard]] const Value& second() const { return rounded ? *rounded : *exact; }
    [[nodiscard]] FloatsTo at(const Addresses& addresses) const {
      return {exact ? addresses.at(*exact) : nullptr,
              rounded ? addresses.at<std::uint16_t>(*rounded) : nullptr};
    }
  };
  /// A batch norm whose result only a sum takes, and computes itself.
  struct Unfinished {
    Value source;
    Value figures;
  };
  /// Rotary positions of an attention op; counts of 0 without them.
  struct RotaryTables {
    Value cosines;
    Value sines;
  };
  /// The factors of attention's products: one matrix per head.
  struct Heads {
    Value query;
    Value key;
    Value value;
    Value scores;
  };
  /// Describes a kernel once there are addresses.
  using MakeKernel = std::function<Kernel(const Addresses&)>;
  /// Describes a product once there are addresses.
  using MakeGemm =
      std::function<Gemm(const void* left, const void* right, const Addresses& others)>;
  /// Some samples of an attention op's batch.
  struct Part {
    std::size_t first;
    std::size_t count;
  };

  // The walk through the graph, and ops of any shape: planner.cpp.
  void forward(bool training);
  Made make_outputs_gradient();
  void loss(const Made* gradient);
  void cross_entropy(const Value& outputs, const Value& losses, const Value& right,
                     const Made* gradient);
  void mean_squared(const Value& outputs, const Value& losses, const Value& right,
                    const Made* gradient);
  void backward(const Value& outputs_gradient);
  void give(std::size_t op, const Gradient& gradient, std::size_t input = 0);
  Gradient add_up(std::size_t op, const Gradient& one, const Gradient& other);
  [[nodiscard]] bool is_done_by_norm(std::size_t op) const;
  /// Whether backward takes a gradient of two terms.
  [[nodiscard]] bool adds_gradients(std::size_t op) const;
  Value forward_of(std::size_t op, const Activation& activation, const Value& source);
  Value forward_of(std::size_t op, const Dropout& dropout, const Value& source);
  Value forward_of(std::size_t op, const Add& add, const Value& source);
  Value forward_of(std::size_t op, const Flatten& flatten, const Value& source);
  void backward_of(std::size_t op, const Activation& activation, const Gradient& gradient);
  void backward_of(std::size_t op, const Dropout& dropout, const Gradient& gradient);
  void drop(std::size_t op, const Dropout& dropout, const Value& from, const Made& to);
  void backward_of(std::size_t op, const Add& add, const Gradient& gradient);
  void backward_of(std::size_t op, const Flatten& flatten, const Gradient& gradient);

  // Images: planner_images.cpp.
  Value forward_of(std::size_t op, const Conv2d& conv, const Value& source);
  Value forward_of(std::size_t op, const BatchNorm& norm, const Value& source);
  Value forward_of(std::size_t op, const MaxPool2d& pool, const Value& source);
  Value forward_of(std::size_t op, const AveragePool2d& pool, const Value& source);
  Value forward_of(std::size_t op, const GlobalAveragePool& pool, const Value& source);
  void backward_of(std::size_t op, const Conv2d& conv, const Gradient& gradient);
  void backward_of(std::size_t op, const BatchNorm& norm, const Gradient& gradient);
  void backward_of(std::size_t op, const MaxPool2d& pool, const Gradient& gradient);
  void backward_of(std::size_t op, const AveragePool2d& pool, const Gradient& gradient);
  void backward_of(std::size_t op, const GlobalAveragePool& pool, const Gradient& gradient);
  /// `what.kind` says which tensor is computed from the other two; it is rounded if the plan
  /// rounds.
  void convolve(std::size_t op, const Convolution& what, const Value& x, const Value& w,
                const Value& y);
  /// Whether the op after a batch norm can do the normalisation itself.
  [[nodiscard]] bool is_left_to_sum(std::size_t op) const;
  Value normalise(std::size_t op, const Channels& channels, const Value& source,
                  const Value& figures);
  void sum_normalised(std::size_t op, const Unfinished& a, const Value& b,
                      const std::optional<Unfinished>& other, const Made& to);
  [[nodiscard]] Convolution convolution_of(std::size_t op, const Conv2d& conv) const;
  /// A kernel that sums the chunks of a batch's channels, and one that joins these sums.
  void kernel_of_chunks(std::size_t op, std::initializer_list<Value> touched,
                        const Channels& channels, MakeKernel make);
  void kernel_of_channels(std::size_t op, std::initializer_list<Value> touched,
                          const Channels& channels, MakeKernel make);
  /// Of all channels.
  [[nodiscard]] std::size_t chunks(const Channels& channels) const;
  [[nodiscard]] Lanes lanes_of(const Channels& channels) const;

  // Rows of features: planner_rows.cpp.
  Value forward_of(std::size_t op, const Linear& linear, const Value& source);
  Value forward_of(std::size_t op, const LayerNorm& norm, const Value& source);
  Value forward_of(std::size_t op, const RmsNorm& norm, const Value& source);
  Value forward_of(std::size_t op, const Embedding& embedding, const Value& source);
  Value forward_of(std::size_t op, const Positions& positions, const Value& source);
  Value forward_of(std::size_t op, const SwiGlu& swiglu, const Value& source);
  void backward_of(std::size_t op, const Linear& linear, const Gradient& gradient);
  void backward_of(std::size_t op, const LayerNorm& norm, const Gradient& gradient);
  void backward_of(std::size_t op, const RmsNorm& norm, const Gradient& gradient);
  void backward_of(std::size_t op, const Embedding& embedding, const Gradient& gradient);
  void backward_of(std::size_t op, const Positions& positions, const Gradient& gradient);
  void backward_of(std::size_t op, const SwiGlu& swiglu, const Gradient& gradient);
  Value forward_rows(std::size_t op, const Value& source, float epsilon, std::size_t weight,
                     std::size_t bias, bool centred);
  void backward_rows(std::size_t op, const Gradient& gradient, std::size_t weight, std::size_t bias,
                     bool centred);
  [[nodiscard]] bool is_factor_of_branch(std::size_t norm) const;
  /// The Add after a linear layer that its product can do: the other term exists.
  struct Behind {
    std::size_t add;
    Value other;
  };
  [[nodiscard]] std::optional<Behind> add_behind(std::size_t op) const;
  /// Whether the op is a linear layer that makes logits, and the plan rounds: then rows of logits,
  /// and of their gradient, which is bfloat16, begin stride_of their number apart.
  [[nodiscard]] bool is_head(std::size_t op) const;
  /// The sources of ColumnSums, and the targets of its sums.
  struct Columns {
    std::size_t rows;
    std::size_t columns;
    Value dy;
    std::optional<Value> plain;   ///< sums
    std::optional<Value> normed;  ///< sums of products with the source
    Value source;                 ///< of a norm, and its figures
    Value figures;
  };
  void sum_columns(std::size_t op, const Columns& what);

  // planner_attention.cpp.
  Value forward_of(std::size_t op, const Attention& attention, const Value& source);
  void backward_of(std::size_t op, const Attention& attention, const Gradient& gradient);
  void forward_part(std::size_t op, const Attention& attention, const Value& source,
                    const Value& result, Part part);
  void backward_part(std::size_t op, const Attention& attention, const Value& above,
                     const Value& result, Part part);
  Heads split(std::size_t op, const Attention& attention, const Value& source, Part part);
  RotaryTables rotary_of(std::size_t op, const Attention& attention);
  [[nodiscard]] AttentionSizes sizes_of(std::size_t op, const Attention& attention,
                                        std::size_t samples) const;
  [[nodiscard]] static HeadSides sides_of(const AttentionSizes& sizes, const RotaryTables& rotary,
                                          const Addresses& at);
  /// Parts whose scores, with this many bytes per sample, are not too large.
  [[nodiscard]] std::vector<Part> parts_of(std::size_t op, const Attention& attention,
                                           std::size_t bytes) const;

  // Attention in one call: planner_fused.cpp.
  [[nodiscard]] bool is_fused(std::size_t op) const { return fused_[op]; }
  [[nodiscard]] bool can_fuse(std::size_t op, const Attention& attention) const;
  Value forward_fused(std::size_t op, const Attention& attention, const Value& source);
  void backward_fused(std::size_t op, const Attention& attention, const Gradient& gradient);
  [[nodiscard]] std::vector<Part> fused_parts_of(std::size_t op, const Attention& attention) const;

  // Calls and values.
  void call(std::size_t op, std::initializer_list<Value> touched, MakeWork make);
  /// A kernel over `count` elements or rows.
  void kernel(std::size_t op, std::initializer_list<Value> touched, std::size_t count,
              MakeKernel make, std::size_t width = 0);
  /// A factor of a product. For a matrix without gaps, with the width of its rows: rounded rows
  /// begin at multiples of 16 bytes, as tensor cores' fast kernels require.
  struct Rows {
    // NOLINTNEXTLINE(google-explicit-constructor): most factors are whole values
    Rows(const Value& matrix, std::size_t row = 0, std::size_t rows = 0)
        : value(matrix), width(row), height(rows) {}
    Value value;
    std::size_t width;
    std::size_t height;  ///< least rows of a copy: those after the matrix are zeros
  };
  /// A product described by `make`, with factors without gaps; they are rounded if the plan rounds.
  /// `beside` is read, too.
  void product(std::size_t op, const Rows& left, const Rows& right, const Value& result,
               MakeGemm make, const std::optional<Value>& beside = {});
  /// The factor for `rows`: itself, or a copy in bfloat16. The same value gets the same copy until
  /// another op is planned, or forever if the value does not change. Rows of a width begin
  /// stride_of(width) elements apart.
  Value factor(std::size_t op, const Rows& rows);
  /// The value that backward gets instead, if one copy suits both.
  Value kept_factor(std::size_t op, const Rows& rows);
  [[nodiscard]] Value shorter(const Value& value) const;
  [[nodiscard]] bool passes_on(std::size_t op) const;
  /// Remembers that `copy` is another form of the value, until another op is planned or forever.
  void remember(const Value& value, const Value& copy);
  /// The value in this form and layout; `image`: its shape, which determines the layouts.
  Value formed(std::size_t op, const Value& value, bool rounded, bool last, const Shape& image);
  void convert(std::size_t op, const Value& from, const Value& to, std::size_t channels,
               std::size_t points);
  /// The value in float32, in its present layout.
  Value exact(std::size_t op, const Value& value);
  /// Whether the op reads and makes images whose channels come last.
  [[nodiscard]] bool works_last(std::size_t op) const;
  [[nodiscard]] static Value laid(Value value, bool last) {
    value.last = last;
    return value;
  }
  /// The forms in which forward's readers of an op's result need it.
  [[nodiscard]] Forms wanted(std::size_t op) const;
  /// For images whose channels come last: whether it sums branches, or is the mean of all points.
  [[nodiscard]] bool is_sum_of_images(std::size_t op) const;
  [[nodiscard]] bool is_mean_of_images(std::size_t op) const;
  /// Whether the op itself, or the op to which it passes its input on, reads it in either form.
  [[nodiscard]] bool reads_rounded(std::size_t op) const;
  [[nodiscard]] bool reads_rounded_gradient(std::size_t op) const;
  /// Whether it is an activation, or works like one.
  [[nodiscard]] bool is_elementwise(std::size_t op) const;
  [[nodiscard]] bool is_row_norm(std::size_t op) const;
  /// Whether it is an attention that works directly on its input, in bfloat16.
  [[nodiscard]] bool takes_heads_as_they_are(std::size_t op) const;
  /// Whether a linear layer makes its result in bfloat16: all its readers would round it, or are
  /// activations.
  [[nodiscard]] bool makes_rounded(std::size_t op) const;
  /// Whether a product may make the gradient of a value in bfloat16: nothing is added to it.
  [[nodiscard]] bool takes_rounded_gradient(ValueId value) const;
  /// Whether the gradient of an op's result is only a factor of products (for a linear layer, its
  /// bias's gradient also sums it).
  [[nodiscard]] bool is_factor_only(ValueId op) const;
  /// An input in the form that the op reads.
  Value taken(std::size_t op, std::size_t input);
  /// Makes the values for an op's result in forward, in the needed forms.
  Made make_wanted(std::size_t op, std::size_t count);
  /// The value that represents it from then on; products find its other form.
  Value keep(const Made& made);
  [[nodiscard]] std::size_t stride_of(std::size_t width) const {
    return rounds_ ? base::round_up(width, kRowStep) : width;
  }
  Value make(std::size_t count) { return plan_.add(count); }
  /// Makes a value for `count` bfloat16.
  Value make_rounded(std::size_t count) {
    Value value = make((count + 1) / 2);
    value.count = count;
    value.rounded = true;
    return value;
  }
  /// Makes a value for a convolution's result: if the plan rounds, bfloat16 with channels last.
  Value make_image(std::size_t count) {
    return rounds_ ? laid(make_rounded(count), true) : make(count);
  }
  /// Rows of floats, or of bfloat16, that begin stride_of(width) elements apart.
  Value make_rows(std::size_t rows, std::size_t width, bool rounded) {
    const std::size_t stride = stride_of(width);
    Value value = rounded ? make_rounded(rows * stride) : make(rows * stride);
    if (stride != width) value.stride = stride;
    return value;
  }
  /// Where to write a gradient of the same size: in place, unless it is shared.
  Value writable(const Gradient& gradient);
  /// The same for the gradient of an input: in bfloat16 if only that is needed.
  Value writable_for(ValueId input, const Gradient& gradient);
  [[nodiscard]] Value parameter(std::size_t tensor) const;
  [[nodiscard]] Value running(std::size_t buffer) const;
  /// The place of a tensor's gradient; from then on it counts as written.
  [[nodiscard]] Value parameter_gradient(std::size_t tensor);

  [[nodiscard]] const Op& op_at(std::size_t op) const { return graph_.ops[op]; }
  /// Elements of the whole batch.
  [[nodiscard]] std::size_t all(const Shape& shape) const { return batch_ * elements(shape); }
  /// The rows of a matrix with one row per position, or per sample.
  [[nodiscard]] std::size_t rows_of(const Shape& shape) const;
  [[nodiscard]] std::size_t columns_of(const Shape& shape) const;

  static constexpr std::size_t kRowStep = 8;  ///< bfloat16

  const Graph& graph_;
  const std::size_t batch_;
  const bool rounds_;
  const Fuses fuses_;
  const std::size_t score_bytes_;
  Plan plan_;
  std::vector<Call>* calls_ = nullptr;
  bool training_ = false;
  std::vector<Value> values_;
  std::vector<Saved> saved_;
  std::vector<std::pair<Value, Value>> rounded_;  ///< copies that this op has made
  std::vector<std::pair<Value, Value>> twins_;    ///< other forms of values that do not change
  std::vector<std::optional<Unfinished>> unfinished_;
  std::vector<std::optional<Value>> summed_;     ///< results of Adds that a product has made
  std::vector<std::vector<std::size_t>> users_;  ///< of each op's result: ops that take it
  std::vector<bool> fused_;                      ///< of attention ops: in one call
  const GraphFlow flow_;
  std::vector<std::optional<Gradient>> gradients_;
  std::vector<bool> written_;                        ///< gradients of tensors
  std::vector<std::optional<RotaryTables>> rotary_;  ///< of attention ops
};

}  // namespace starling::compute::cuda
