// A network as plain data: its operations with their shapes, and the place of each tensor in the
// flat parameter vector. Backends compile it; nothing here computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/result.hpp"
#include "compute/activation.hpp"

namespace starling::compute {

/// Sides of one sample's activations, or of a parameter tensor; the batch axis is left out.
/// Activations: {features}, {channels, height, width} or {positions, features}.
using Shape = std::vector<std::uint32_t>;

/// Number of elements of a shape.
[[nodiscard]] std::size_t elements(const Shape& shape) noexcept;
/// "32x26x26", for people.
[[nodiscard]] std::string to_string(const Shape& shape);

/// Limits that keep every size of a batch within what backends can index.
inline constexpr std::size_t kOpsMax = 4096;
inline constexpr std::size_t kSampleElementsMax = std::size_t{1} << 26;
inline constexpr std::size_t kParametersMax = std::size_t{1} << 30;
inline constexpr std::uint32_t kSideMax = 1U << 24;     ///< of kernels, strides and layer widths
inline constexpr std::uint32_t kClassesMax = 1U << 20;  ///< of labels, and words of a vocabulary
inline constexpr std::uint32_t kBatchMax = 65536;       ///< samples

/// The role of a tensor: determines its initial values and the optimizer rules that apply to it.
enum class TensorKind : std::uint8_t {
  weight,            ///< of a conv2d or linear layer
  bias,              ///< of a conv2d or linear layer
  scale,             ///< of a norm; starts at one
  shift,             ///< of a norm; starts at zero
  embedding,         ///< a row for each token or position
  running_mean,      ///< buffer of a batch norm; starts at zero
  running_variance,  ///< buffer of a batch norm, at least zero; starts at one
};

/// A named piece of the flat float32 parameter vector, or of the vector of buffers, in PyTorch's
/// order of axes.
struct Tensor {
  std::string name;  ///< "layers.0.weight": the layer's name, then PyTorch's word
  TensorKind kind = TensorKind::weight;
  Shape shape;               ///< conv2d weight OIHW (I: of one group), linear weight [out, in]
  std::size_t offset = 0;    ///< first element in the vector
  std::size_t size = 0;      ///< elements
  std::uint32_t fan_in = 0;  ///< inputs that one output sums over (also for a bias)
  float initial_std = 0;     ///< the model's initial standard deviation; 0: none given
};

/// The index of an optional tensor that is left out.
inline constexpr std::size_t kNoTensor = ~std::size_t{0};

/// Cross-correlation over square windows with zeros around the image, plus a bias per channel.
/// Channels are split in `groups`; outputs of a group see the inputs of the same group.
struct Conv2d {
  std::uint32_t kernel = 0;
  std::uint32_t stride = 1;
  std::uint32_t padding = 0;
  std::uint32_t dilation = 1;  ///< pixels from one element of the window to the next
  std::uint32_t groups = 1;
  std::size_t weight = 0;  ///< index into Graph::tensors
  std::size_t bias = 0;    ///< index into Graph::tensors, or kNoTensor
};

/// y = W x + b: over all elements of a sample, or of {positions, features} at each position.
struct Linear {
  std::size_t weight = 0;  ///< index into Graph::tensors; may be an embedding's
  std::size_t bias = 0;    ///< index into Graph::tensors, or kNoTensor
};

/// (x - mean) / sqrt(variance + epsilon) * weight + bias for each channel of an image, or feature
/// (Ioffe and Szegedy, arXiv:1502.03167). Training takes the batch's mean and (biased) variance
/// and moves the buffers by `momentum` towards the mean and the unbiased variance; evaluation
/// takes the buffers.
struct BatchNorm {
  float epsilon = 1e-5F;
  float momentum = 0.1F;
  std::size_t weight = 0;    ///< index into Graph::tensors
  std::size_t bias = 0;      ///< index into Graph::tensors
  std::size_t mean = 0;      ///< index into Graph::buffers
  std::size_t variance = 0;  ///< index into Graph::buffers
};

/// (x - mean) / sqrt(variance + epsilon) * weight + bias over the features of each position
/// (Ba et al., arXiv:1607.06450).
struct LayerNorm {
  float epsilon = 1e-5F;
  std::size_t weight = 0;  ///< index into Graph::tensors
  std::size_t bias = 0;    ///< index into Graph::tensors, or kNoTensor
};

/// x / sqrt(mean of squares + epsilon) * weight over the features of each position (Zhang and
/// Sennrich, arXiv:1910.07467).
struct RmsNorm {
  float epsilon = 1e-5F;
  std::size_t weight = 0;  ///< index into Graph::tensors
};

/// A row of the weight for each token. First op of a graph whose input is tokens.
struct Embedding {
  std::size_t weight = 0;  ///< index into Graph::tensors, [vocabulary, features]
};

/// Adds a row of the weight for each position.
struct Positions {
  std::size_t weight = 0;  ///< index into Graph::tensors, [positions, features]
};

/// Causal scaled dot-product attention (Vaswani et al., arXiv:1706.03762). In: at each position
/// heads queries, then kv_heads keys, then kv_heads values of `head_size` features. Query head h
/// sees key and value head h / (heads / kv_heads) (Ainslie et al., arXiv:2305.13245).
struct Attention {
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_size = 0;
  /// Base of rotary positions (Su et al., arXiv:2104.09864): feature i of the first half and of the
  /// second half of a query or key are rotated by position * base^(-2 i / head_size), as in Llama;
  /// 0: none.
  float rotary_base = 0;
};

struct Activation {
  ActivationKind kind = ActivationKind::relu;
};

/// silu(a) * b, where a is the first half of the features and b the second (Shazeer,
/// arXiv:2002.05202).
struct SwiGlu {};

/// In training, each element becomes zero with probability `rate`, and the others are divided by 1
/// - rate. dropout_bits (dropout.hpp) of the step's seed, the op and the element decide.
struct Dropout {
  float rate = 0;
};

/// Largest element of each square window; padding never wins, windows that would leave the padded
/// image are dropped.
struct MaxPool2d {
  std::uint32_t kernel = 0;
  std::uint32_t stride = 0;
  std::uint32_t padding = 0;
};

/// Mean of each square window; windows that would leave the image are dropped.
struct AveragePool2d {
  std::uint32_t kernel = 0;
  std::uint32_t stride = 0;
};

/// Mean of each channel: {channels, height, width} to {channels}.
struct GlobalAveragePool {};

/// The sum of two results of the same shape.
struct Add {};

/// The same elements in one row.
struct Flatten {};

/// The source of an op's input: the result of an op, by its number, or kGraphInput.
using ValueId = std::size_t;
inline constexpr ValueId kGraphInput = ~ValueId{0};

struct Op {
  std::variant<Conv2d, Linear, BatchNorm, LayerNorm, RmsNorm, Embedding, Positions, Attention,
               Activation, SwiGlu, Dropout, MaxPool2d, AveragePool2d, GlobalAveragePool, Add,
               Flatten>
      kind;
  std::vector<ValueId> inputs;  ///< of earlier ops; Add has two, all others one
  Shape in;                     ///< of the first input
  Shape out;
  std::string name;  ///< of the layer in the model, as in its tensors' names
};

/// "conv2d", "linear", "relu", ...: the names in a run file.
[[nodiscard]] const char* name_of(const Op& op) noexcept;

/// Whether the op has parameters.
[[nodiscard]] bool has_parameters(const Op& op);

enum class LossKind : std::uint8_t {
  cross_entropy,  ///< softmax cross-entropy against a label per sample, or per position
  mean_squared,   ///< mean of squared differences to the targets, over all outputs
};

struct Loss {
  LossKind kind = LossKind::cross_entropy;
  float label_smoothing = 0;  ///< in training: share of the label's weight that all classes share
};

/// A network: each op comes after its inputs; the last op's result goes into the loss.
struct Graph {
  Shape input;                   ///< of samples; {positions} for tokens
  std::uint32_t vocabulary = 0;  ///< tokens are below it; 0: the input is floats
  std::vector<Op> ops;
  std::vector<Tensor> tensors;  ///< in the order of their offsets, without gaps
  std::size_t parameter_count = 0;
  std::vector<Tensor> buffers;  ///< the same for the vector of buffers
  std::size_t buffer_count = 0;
  Loss loss;
  std::uint32_t classes = 0;    ///< cross_entropy: outputs from which a label chooses; otherwise 0
  std::uint32_t positions = 1;  ///< labels a sample

  /// Outputs of a sample.
  [[nodiscard]] std::size_t outputs() const noexcept { return elements(ops.back().out); }
};

/// Floating-point operations of a training step per sample: twice the multiply-adds of forward,
/// backward-data (if anything before the op has parameters) and backward-weights.
[[nodiscard]] double training_flops(const Graph& graph);

/// Floating-point operations of an evaluation per sample.
[[nodiscard]] double forward_flops(const Graph& graph) noexcept;

/// The same for one op's forward pass.
[[nodiscard]] double forward_flops(const Graph& graph, const Op& op) noexcept;

/// Options of a conv2d or linear layer beside its sides.
struct WeightOptions {
  bool bias = true;
  float initial_std = 0;  ///< Tensor::initial_std of the weight
};

struct Conv2dOptions {
  std::uint32_t out_channels = 0;
  std::uint32_t kernel = 0;
  std::uint32_t stride = 1;
  std::uint32_t padding = 0;
  std::uint32_t dilation = 1;
  std::uint32_t groups = 1;
  WeightOptions weight{};
};

/// Builds a Graph layer by layer and checks that the shapes fit. Each layer takes the last layer's
/// result, unless seek() says otherwise. After an error, the builder is as before the call. Errors
/// (ErrorCode::run_file) name both shapes, not the layer.
class GraphBuilder {
 public:
  /// Starts from one sample's shape.
  [[nodiscard]] static base::Result<GraphBuilder> start(Shape input);
  /// Starts from `positions` tokens below `vocabulary`.
  [[nodiscard]] static base::Result<GraphBuilder> start_tokens(std::uint32_t positions,
                                                               std::uint32_t vocabulary);

  /// Names the next layer; without it a layer is called "layers.N" after its op's number.
  void name_next(std::string name) { next_name_ = std::move(name); }

  [[nodiscard]] base::Status conv2d(const Conv2dOptions& options);
  /// For {positions, features} at each position; any other input is flattened.
  [[nodiscard]] base::Status linear(std::uint32_t out_features, const WeightOptions& options = {});
  /// A linear layer without bias that shares the weight of the embedding; one at most.
  [[nodiscard]] base::Status tied_linear();
  [[nodiscard]] base::Status batch_norm(float epsilon = 1e-5F, float momentum = 0.1F);
  [[nodiscard]] base::Status layer_norm(float epsilon = 1e-5F, bool bias = true);
  [[nodiscard]] base::Status rms_norm(float epsilon = 1e-5F);
  [[nodiscard]] base::Status embedding(std::uint32_t features, float initial_std = 1.0F);
  [[nodiscard]] base::Status positions(float initial_std = 1.0F);
  /// The number of features must be (heads + 2 kv_heads) times that of a head; rotary positions
  /// need an even number per head.
  [[nodiscard]] base::Status attention(std::uint32_t heads, std::uint32_t kv_heads,
                                       float rotary_base = 0);
  [[nodiscard]] base::Status activation(ActivationKind kind);
  [[nodiscard]] base::Status relu() { return activation(ActivationKind::relu); }
  [[nodiscard]] base::Status swiglu();
  [[nodiscard]] base::Status dropout(float rate);
  [[nodiscard]] base::Status max_pool2d(std::uint32_t kernel, std::uint32_t stride,
                                        std::uint32_t padding = 0);
  [[nodiscard]] base::Status average_pool2d(std::uint32_t kernel, std::uint32_t stride);
  [[nodiscard]] base::Status global_average_pool();
  /// The sum of the last layer's result and an earlier one's.
  [[nodiscard]] base::Status add(ValueId other);
  [[nodiscard]] base::Status flatten();

  /// The shape after the last layer so far.
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  /// The last layer's result.
  [[nodiscard]] ValueId value() const noexcept { return value_; }
  /// The next layer takes this result: an earlier value().
  void seek(ValueId value);

  /// The graph, if the last layer has `classes` outputs (at each position, if the shape has
  /// positions) and something can be trained.
  [[nodiscard]] base::Result<Graph> finish(std::uint32_t classes, float label_smoothing = 0) &&;
  /// The graph for targets of the last layer's shape.
  [[nodiscard]] base::Result<Graph> finish_mean_squared() &&;

 private:
  explicit GraphBuilder(Shape input) : shape_(input) { graph_.input = std::move(input); }

  base::Status append(Op op);
  base::Status append_same(Op op);
  base::Status reserve(std::size_t parameters) const;
  std::size_t add_tensor(const char* what, TensorKind kind, Shape shape, std::uint32_t fan_in,
                         float initial_std = 0);
  std::size_t add_buffer(const char* what, TensorKind kind, std::uint32_t size);
  [[nodiscard]] base::Status check_whole() const;

  Graph graph_;
  Shape shape_;
  ValueId value_ = kGraphInput;
  std::string next_name_;
};

}  // namespace starling::compute
