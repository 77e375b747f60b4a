// From a graph to a plan: which work, in which order, on which buffers.
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

/// How much attention may use for the scores of the samples that it treats together.
inline constexpr std::size_t kScoreBytes = std::size_t{512} << 20;

/// Builds one Plan. Images are NCHW, with bfloat16 NHWC where ops know that (works_last);
/// everything else is plain.
class Planner {
 public:
  /// As Queue::fuses.
  using Fuses = std::function<bool(const FusedAttention&)>;

  /// With `rounds` the factors of products are rounded to bfloat16.
  Planner(const Graph& graph, std::uint32_t batch, bool rounds, Fuses fuses,
          std::size_t score_bytes = kScoreBytes);

  [[nodiscard]] Plan plan();

 private:
  /// What forward leaves for backward, one per op.
  struct Saved {
    Value source;
    Value result;
    Value extra;  ///< max_pool2d: which element of each window is the largest; norms: figures;
                  ///< a fused attention: log_sums, and its source is rounded
  };
  /// The gradient of an op's result. A shared one may not be written to.
  struct Gradient {
    Value value;
    bool shared = false;
    std::optional<Value> also;  ///< what is still to be added; of ops that do that themselves
  };
  /// In which forms a value is wanted.
  struct Forms {
    bool exact = false;
    bool rounded = false;
  };
  /// A value in one or both forms.
  struct Made {
    std::optional<Value> exact;
    std::optional<Value> rounded;

    /// In the form that it has.
    [[nodiscard]] static Made of(const Value& value) {
      return value.rounded ? Made{{}, value} : Made{value, {}};
    }
    /// One that is there; and the other one, if that is.
    [[nodiscard]] const Value& first() const { return exact ? *exact : *rounded; }
    [[nodiscard]] const Value& second() const { return rounded ? *rounded : *exact; }
    [[nodiscard]] FloatsTo at(const Addresses& addresses) const {
      return {exact ? addresses.at(*exact) : nullptr,
              rounded ? addresses.at<std::uint16_t>(*rounded) : nullptr};
    }
  };
  /// A batch norm whose result only a sum takes, which makes it.
  struct Unfinished {
    Value source;
    Value figures;
  };
  /// Rotary positions of an attention op; counts of 0 without.
  struct RotaryTables {
    Value cosines;
    Value sines;
  };
  /// What attention's products work on: a matrix a head.
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
  /// What `what.kind` says is written comes from the other two; it is rounded where the plan is.
  void convolve(std::size_t op, const Convolution& what, const Value& x, const Value& w,
                const Value& y);
  /// Whether the op behind a batch norm can normalise what it reads.
  [[nodiscard]] bool is_left_to_sum(std::size_t op) const;
  Value normalise(std::size_t op, const Channels& channels, const Value& source,
                  const Value& figures);
  void sum_normalised(std::size_t op, const Unfinished& a, const Value& b,
                      const std::optional<Unfinished>& other, const Made& to);
  [[nodiscard]] Convolution convolution_of(std::size_t op, const Conv2d& conv) const;
  /// A kernel that sums up the chunks of a batch's channels, and one that joins these sums.
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
  /// The Add behind a linear layer that its product can do: what it adds to is there.
  struct Behind {
    std::size_t add;
    Value other;
  };
  [[nodiscard]] std::optional<Behind> add_behind(std::size_t op) const;
  /// Whether the op is a linear layer that makes logits, and the plan rounds: rows of these, and of
  /// their gradient, which is bfloat16, begin stride_of their number apart.
  [[nodiscard]] bool is_head(std::size_t op) const;
  /// What ColumnSums reads, and where its sums go.
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
  /// So that a part's scores, of so many bytes each, are not too large.
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
  /// A factor of a product. Where it is a matrix without gaps, with the width of its rows: rounded
  /// ones begin at multiples of 16 bytes, as tensor cores' fast kernels want them.
  struct Rows {
    // NOLINTNEXTLINE(google-explicit-constructor): most factors are whole values
    Rows(const Value& matrix, std::size_t row = 0, std::size_t rows = 0)
        : value(matrix), width(row), height(rows) {}
    Value value;
    std::size_t width;
    std::size_t height;  ///< rows that a copy has at least: those behind the matrix are zeros
  };
  /// A product as `make` describes it, of factors without gaps; they are rounded where the plan
  /// says so. `beside` is read, too.
  void product(std::size_t op, const Rows& left, const Rows& right, const Value& result,
               MakeGemm make, const std::optional<Value>& beside = {});
  /// What products take for `rows`: itself, or a copy in bfloat16, the same one for the same value
  /// until another op is planned, or for good where what is copied stays as it is. Rows of a width
  /// begin stride_of(width) elements apart.
  Value factor(std::size_t op, const Rows& rows);
  /// What backward gets in its place, where one copy does for both.
  Value kept_factor(std::size_t op, const Rows& rows);
  [[nodiscard]] Value shorter(const Value& value) const;
  [[nodiscard]] bool passes_on(std::size_t op) const;
  /// That `copy` is another form of the value, until another op is planned or for good.
  void remember(const Value& value, const Value& copy);
  /// The value in this form and layout; `image`: its shape, which tells what the layouts are.
  Value formed(std::size_t op, const Value& value, bool rounded, bool last, const Shape& image);
  void convert(std::size_t op, const Value& from, const Value& to, std::size_t channels,
               std::size_t points);
  /// The value in float32, in the layout that it has.
  Value exact(std::size_t op, const Value& value);
  /// Whether the op reads and makes images whose channels come last.
  [[nodiscard]] bool works_last(std::size_t op) const;
  [[nodiscard]] static Value laid(Value value, bool last) {
    value.last = last;
    return value;
  }
  /// In which forms those that take the result of an op in forward want it.
  [[nodiscard]] Forms wanted(std::size_t op) const;
  /// Of images whose channels come last: what adds up branches, and the mean of all points.
  [[nodiscard]] bool is_sum_of_images(std::size_t op) const;
  [[nodiscard]] bool is_mean_of_images(std::size_t op) const;
  /// Whether the op itself, or what it hands its input on to, reads it in either form.
  [[nodiscard]] bool reads_rounded(std::size_t op) const;
  [[nodiscard]] bool reads_rounded_gradient(std::size_t op) const;
  /// Whether it is an activation, or made as these are.
  [[nodiscard]] bool is_elementwise(std::size_t op) const;
  [[nodiscard]] bool is_row_norm(std::size_t op) const;
  /// Whether it is an attention that works on what it gets, in bfloat16.
  [[nodiscard]] bool takes_heads_as_they_are(std::size_t op) const;
  /// Whether a linear layer makes its result in bfloat16: all that reads it would round it, or is
  /// an activation.
  [[nodiscard]] bool makes_rounded(std::size_t op) const;
  /// Whether a product may make the gradient of a value in bfloat16: nothing is added to it.
  [[nodiscard]] bool takes_rounded_gradient(ValueId value) const;
  /// Whether the gradient of an op's result is nothing but a factor of products (of a linear layer
  /// also what its bias' gradient adds up).
  [[nodiscard]] bool is_factor_only(ValueId op) const;
  /// An input as the op reads it.
  Value taken(std::size_t op, std::size_t input);
  /// For what an op makes in forward, in the forms that are wanted.
  Made make_wanted(std::size_t op, std::size_t count);
  /// What stands for it from then on; products find its other form.
  Value keep(const Made& made);
  [[nodiscard]] std::size_t stride_of(std::size_t width) const {
    return rounds_ ? base::round_up(width, kRowStep) : width;
  }
  Value make(std::size_t count) { return plan_.add(count); }
  /// For as many bfloat16.
  Value make_rounded(std::size_t count) {
    Value value = make((count + 1) / 2);
    value.count = count;
    value.rounded = true;
    return value;
  }
  /// For what convolutions give: as many bfloat16, channels last, where the plan rounds.
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
  /// Where to write a gradient of the same size: itself unless it is shared.
  Value writable(const Gradient& gradient);
  /// The same, where the result is that of an input: in bfloat16 where that is all it wants.
  Value writable_for(ValueId input, const Gradient& gradient);
  [[nodiscard]] Value parameter(std::size_t tensor) const;
  [[nodiscard]] Value running(std::size_t buffer) const;
  /// Where a tensor's gradient goes; from then on it counts as written.
  [[nodiscard]] Value parameter_gradient(std::size_t tensor);

  [[nodiscard]] const Op& op_at(std::size_t op) const { return graph_.ops[op]; }
  /// Elements of the whole batch.
  [[nodiscard]] std::size_t all(const Shape& shape) const { return batch_ * elements(shape); }
  /// Of a matrix with a row a position, or a sample.
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
  std::vector<std::pair<Value, Value>> twins_;    ///< other forms of what stays as it is
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
