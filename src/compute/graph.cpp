#include "compute/graph.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "compute/graph_flow.hpp"

namespace starling::compute {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

std::size_t elements(const Shape& shape) noexcept {
  std::size_t product = 1;
  for (const std::uint32_t side : shape) product *= side;
  return product;
}

std::string to_string(const Shape& shape) {
  std::string text;
  for (const std::uint32_t side : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(side);
  }
  return text;
}

namespace {

const char* name_of(ActivationKind kind) noexcept {
  switch (kind) {
    case ActivationKind::relu:
      return "relu";
    case ActivationKind::gelu:
      return "gelu";
    case ActivationKind::gelu_tanh:
      return "gelu_tanh";
    case ActivationKind::silu:
      return "silu";
  }
  return "?";
}

}  // namespace

const char* name_of(const Op& op) noexcept {
  if (const auto* activation = std::get_if<Activation>(&op.kind)) return name_of(activation->kind);
  static constexpr const char* kNames[] = {
      "conv2d",     "linear",          "batch_norm", "layer_norm", "rms_norm", "embedding",
      "positions",  "attention",       "activation", "swiglu",     "dropout",  "max_pool2d",
      "avg_pool2d", "global_avg_pool", "add",        "flatten"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(op.kind)>);
  return kNames[op.kind.index()];
}

bool has_parameters(const Op& op) {
  return std::visit(
      [](const auto& kind) {
        return requires { kind.weight; };
      },
      op.kind);
}

double forward_flops(const Graph& graph, const Op& op) noexcept {
  const auto of_weight = [&](std::size_t tensor) {
    return 2.0 * static_cast<double>(graph.tensors[tensor].size);
  };
  if (const auto* conv = std::get_if<Conv2d>(&op.kind)) {
    return of_weight(conv->weight) * op.out[1] * op.out[2];
  }
  if (const auto* linear = std::get_if<Linear>(&op.kind)) {
    return of_weight(linear->weight) * (op.in.size() == 2 ? op.in[0] : 1);
  }
  if (const auto* attention = std::get_if<Attention>(&op.kind)) {
    // Scores and weighted values; each position sees the positions up to itself.
    const double pairs = 0.5 * op.in[0] * (op.in[0] + 1.0);
    return 4.0 * pairs * attention->heads * attention->head_size;
  }
  return 0;
}

double training_flops(const Graph& graph) {
  const GraphFlow flow(graph);
  double sum = 0;
  for (const Op& op : graph.ops) {
    const double weights = has_parameters(op) ? 1 : 0;
    // Each product of attention has two factors that come from its input.
    const double factors = std::holds_alternative<Attention>(op.kind) ? 2 : 1;
    const double source = flow.needs_gradient(op.inputs[0]) ? factors : 0;
    sum += forward_flops(graph, op) * (1 + weights + source);
  }
  return sum;
}

double forward_flops(const Graph& graph) noexcept {
  double sum = 0;
  for (const Op& op : graph.ops) sum += forward_flops(graph, op);
  return sum;
}

namespace {

/// The product of the sides, or kSampleElementsMax + 1 if it is larger than allowed.
std::size_t bounded_elements(const Shape& shape) noexcept {
  std::size_t product = 1;
  for (const std::uint32_t side : shape) {
    if (side == 0) return 0;
    if (product > kSampleElementsMax / side) return kSampleElementsMax + 1;
    product *= side;
  }
  return product;
}

Status check_size(const Shape& shape, const char* what) {
  const std::size_t size = bounded_elements(shape);
  if (size == 0)
    return fail(ErrorCode::run_file, "{} {} has an empty side", what, to_string(shape));
  if (size > kSampleElementsMax) {
    return fail(ErrorCode::run_file, "{} {} has more than {} elements", what, to_string(shape),
                kSampleElementsMax);
  }
  return {};
}

Status check_image(const Shape& shape) {
  if (shape.size() == 3) return {};
  return fail(ErrorCode::run_file,
              "needs an input of channels x height x width, but it gets {} ({} features)",
              to_string(shape), elements(shape));
}

/// Norms work along the last side of these.
Status check_rows(const Shape& shape) {
  if (shape.size() < 3) return {};
  return fail(ErrorCode::run_file,
              "needs an input of features, or of positions x features, but it gets {}",
              to_string(shape));
}

Status check_side(const char* what, std::uint32_t value) {
  if (value > 0 && value <= kSideMax) return {};
  return fail(ErrorCode::run_file, "{} is {}; it must be 1 to {}", what, value, kSideMax);
}

/// Outputs along one side, or an error if not even one window fits.
Result<std::uint32_t> windows(const Shape& in, std::uint32_t side, std::uint32_t kernel,
                              std::uint32_t stride, std::uint32_t padding,
                              std::uint32_t dilation = 1) {
  const std::uint64_t padded = std::uint64_t{side} + 2 * std::uint64_t{padding};
  const std::uint64_t reach = std::uint64_t{kernel - 1} * dilation + 1;
  if (reach > padded) {
    return fail(ErrorCode::run_file,
                "its window of {}x{} is larger than its input {} with {} pixels of padding", reach,
                reach, to_string(in), padding);
  }
  return static_cast<std::uint32_t>((padded - reach) / stride + 1);
}

/// Height and width of the result of sliding a window over an image.
Result<std::pair<std::uint32_t, std::uint32_t>> slide(const Shape& in, std::uint32_t kernel,
                                                      std::uint32_t stride, std::uint32_t padding,
                                                      std::uint32_t dilation = 1) {
  if (auto status = check_image(in); !status) return fail(status.error());
  if (auto status = check_side("kernel", kernel); !status) return fail(status.error());
  if (auto status = check_side("stride", stride); !status) return fail(status.error());
  if (auto status = check_side("dilation", dilation); !status) return fail(status.error());
  const std::uint64_t reach = std::uint64_t{kernel - 1} * dilation + 1;
  if (reach > kSideMax) {
    return fail(ErrorCode::run_file, "its window spreads over {} pixels; at most {} can be", reach,
                kSideMax);
  }
  if (padding >= reach) {
    return fail(
        ErrorCode::run_file,
        "padding is {}, but its window is only {} wide: outputs would see nothing but padding",
        padding, reach);
  }
  const auto height = windows(in, in[1], kernel, stride, padding, dilation);
  if (!height) return fail(height.error());
  const auto width = windows(in, in[2], kernel, stride, padding, dilation);
  if (!width) return fail(width.error());
  return std::pair{*height, *width};
}

Status check_positions(const Shape& shape) {
  if (shape.size() == 2) return {};
  return fail(ErrorCode::run_file, "needs an input of positions x features, but it gets {}",
              to_string(shape));
}

/// Features of each position, or of the sample.
std::uint32_t features(const Shape& shape) { return shape.back(); }

}  // namespace

Result<GraphBuilder> GraphBuilder::start(Shape input) {
  if (input.empty() || input.size() > 3) {
    return fail(ErrorCode::run_file,
                "the input shape has {} sides; it must be [features], [positions, features] or "
                "[channels, height, width]",
                input.size());
  }
  if (auto status = check_size(input, "the input"); !status) return fail(status.error());
  return GraphBuilder(std::move(input));
}

Result<GraphBuilder> GraphBuilder::start_tokens(std::uint32_t positions, std::uint32_t vocabulary) {
  if (auto status = check_size({positions}, "the input"); !status) return fail(status.error());
  if (vocabulary < 2 || vocabulary > kClassesMax) {
    return fail(ErrorCode::run_file, "the vocabulary has {} tokens; it must be 2 to {}", vocabulary,
                kClassesMax);
  }
  GraphBuilder builder({positions});
  builder.graph_.vocabulary = vocabulary;
  return builder;
}

Status GraphBuilder::append(Op op) {
  if (graph_.ops.size() >= kOpsMax) {
    return fail(ErrorCode::run_file, "a model may have at most {} layers", kOpsMax);
  }
  if (auto status = check_size(op.out, "its output"); !status) return status;
  const bool embeds = std::holds_alternative<Embedding>(op.kind);
  if (graph_.vocabulary > 0 && graph_.ops.empty() != embeds) {
    return embeds ? fail(ErrorCode::run_file, "only the first layer can take tokens")
                  : fail(ErrorCode::run_file,
                         "the input is tokens: an embedding must be the first layer");
  }
  if (op.inputs.empty()) op.inputs = {value_};
  op.name = next_name_.empty() ? fmt::format("layers.{}", graph_.ops.size())
                               : std::exchange(next_name_, {});
  shape_ = op.out;
  value_ = graph_.ops.size();
  graph_.ops.push_back(std::move(op));
  return {};
}

Status GraphBuilder::append_same(Op op) {
  op.in = op.out = shape_;
  return append(std::move(op));
}

Status GraphBuilder::reserve(std::size_t parameters) const {
  if (parameters <= kParametersMax - graph_.parameter_count) return {};
  return fail(ErrorCode::run_file, "a model may have at most {} parameters", kParametersMax);
}

std::size_t GraphBuilder::add_tensor(const char* what, TensorKind kind, Shape shape,
                                     std::uint32_t fan_in, float initial_std) {
  Tensor tensor{.name = fmt::format("{}.{}", graph_.ops.back().name, what),
                .kind = kind,
                .shape = std::move(shape),
                .offset = graph_.parameter_count,
                .fan_in = fan_in,
                .initial_std = initial_std};
  tensor.size = elements(tensor.shape);
  graph_.parameter_count += tensor.size;
  graph_.tensors.push_back(std::move(tensor));
  return graph_.tensors.size() - 1;
}

std::size_t GraphBuilder::add_buffer(const char* what, TensorKind kind, std::uint32_t size) {
  graph_.buffers.push_back({.name = fmt::format("{}.{}", graph_.ops.back().name, what),
                            .kind = kind,
                            .shape = {size},
                            .offset = graph_.buffer_count,
                            .size = size});
  graph_.buffer_count += size;
  return graph_.buffers.size() - 1;
}

Status GraphBuilder::conv2d(const Conv2dOptions& o) {
  const Shape in = shape_;
  const auto size = slide(in, o.kernel, o.stride, o.padding, o.dilation);
  if (!size) return fail(size.error());
  if (auto status = check_side("out", o.out_channels); !status) return status;
  if (auto status = check_side("groups", o.groups); !status) return status;
  if (in[0] % o.groups != 0 || o.out_channels % o.groups != 0) {
    return fail(ErrorCode::run_file, "{} groups do not divide its {} input and {} output channels",
                o.groups, in[0], o.out_channels);
  }
  const Shape weight{o.out_channels, in[0] / o.groups, o.kernel, o.kernel};
  if (bounded_elements(weight) > kSampleElementsMax) {
    return fail(ErrorCode::run_file, "its weight {} has more than {} elements", to_string(weight),
                kSampleElementsMax);
  }
  if (auto status = reserve(elements(weight) + o.out_channels); !status) return status;
  Conv2d conv{o.kernel, o.stride, o.padding, o.dilation, o.groups};
  conv.bias = kNoTensor;
  if (auto status = append({conv, {}, in, {o.out_channels, size->first, size->second}, {}});
      !status) {
    return status;
  }
  const std::uint32_t fan_in = weight[1] * o.kernel * o.kernel;
  auto& placed = std::get<Conv2d>(graph_.ops.back().kind);
  placed.weight = add_tensor("weight", TensorKind::weight, weight, fan_in, o.weight.initial_std);
  if (o.weight.bias) placed.bias = add_tensor("bias", TensorKind::bias, {o.out_channels}, fan_in);
  return {};
}

Status GraphBuilder::linear(std::uint32_t out_features, const WeightOptions& options) {
  const Shape in = shape_;
  if (auto status = check_side("out", out_features); !status) return status;
  const std::size_t inputs = in.size() == 2 ? features(in) : elements(in);
  if (auto status = reserve(inputs * out_features + out_features); !status) return status;
  const Shape out = in.size() == 2 ? Shape{in[0], out_features} : Shape{out_features};
  if (auto status = append({Linear{0, kNoTensor}, {}, in, out, {}}); !status) return status;
  const auto fan_in = static_cast<std::uint32_t>(inputs);
  auto& placed = std::get<Linear>(graph_.ops.back().kind);
  placed.weight =
      add_tensor("weight", TensorKind::weight, {out_features, fan_in}, fan_in, options.initial_std);
  if (options.bias) placed.bias = add_tensor("bias", TensorKind::bias, {out_features}, fan_in);
  return {};
}

Status GraphBuilder::tied_linear() {
  if (auto status = check_positions(shape_); !status) return status;
  if (graph_.vocabulary == 0) {
    return fail(ErrorCode::run_file, "there is no embedding to share the weight of");
  }
  const std::size_t weight = std::get<Embedding>(graph_.ops.front().kind).weight;
  const Shape& shape = graph_.tensors[weight].shape;
  if (shape[1] != features(shape_)) {
    return fail(ErrorCode::run_file,
                "its input {} does not fit the embedding's weight {}: both must have the same "
                "number of features",
                to_string(shape_), to_string(shape));
  }
  for (const Op& op : graph_.ops) {
    const auto* linear = std::get_if<Linear>(&op.kind);
    if (linear != nullptr && linear->weight == weight) {
      return fail(ErrorCode::run_file, "layer {} shares the embedding's weight already", op.name);
    }
  }
  return append({Linear{weight, kNoTensor}, {}, shape_, {shape_[0], shape[0]}, {}});
}

Status GraphBuilder::batch_norm(float epsilon, float momentum) {
  if (shape_.size() == 2) {
    return fail(ErrorCode::run_file,
                "needs an input of channels x height x width, or of features, but it gets {}",
                to_string(shape_));
  }
  const std::uint32_t channels = shape_[0];
  if (auto status = reserve(std::size_t{2} * channels); !status) return status;
  if (auto status = append_same({BatchNorm{epsilon, momentum}, {}, {}, {}, {}}); !status) {
    return status;
  }
  auto& norm = std::get<BatchNorm>(graph_.ops.back().kind);
  norm.weight = add_tensor("weight", TensorKind::scale, {channels}, 1);
  norm.bias = add_tensor("bias", TensorKind::shift, {channels}, 1);
  norm.mean = add_buffer("running_mean", TensorKind::running_mean, channels);
  norm.variance = add_buffer("running_var", TensorKind::running_variance, channels);
  return {};
}

Status GraphBuilder::layer_norm(float epsilon, bool bias) {
  if (auto status = check_rows(shape_); !status) return status;
  if (auto status = reserve(std::size_t{2} * features(shape_)); !status) return status;
  if (auto status = append_same({LayerNorm{epsilon, 0, kNoTensor}, {}, {}, {}, {}}); !status) {
    return status;
  }
  auto& norm = std::get<LayerNorm>(graph_.ops.back().kind);
  norm.weight = add_tensor("weight", TensorKind::scale, {features(shape_)}, 1);
  if (bias) norm.bias = add_tensor("bias", TensorKind::shift, {features(shape_)}, 1);
  return {};
}

Status GraphBuilder::rms_norm(float epsilon) {
  if (auto status = check_rows(shape_); !status) return status;
  if (auto status = reserve(features(shape_)); !status) return status;
  if (auto status = append_same({RmsNorm{epsilon}, {}, {}, {}, {}}); !status) return status;
  std::get<RmsNorm>(graph_.ops.back().kind).weight =
      add_tensor("weight", TensorKind::scale, {features(shape_)}, 1);
  return {};
}

Status GraphBuilder::embedding(std::uint32_t out_features, float initial_std) {
  if (graph_.vocabulary == 0) {
    return fail(ErrorCode::run_file, "the input {} is not tokens", to_string(shape_));
  }
  if (auto status = check_side("out", out_features); !status) return status;
  if (auto status = reserve(std::size_t{graph_.vocabulary} * out_features); !status) return status;
  if (auto status = append({Embedding{}, {}, shape_, {shape_[0], out_features}, {}}); !status) {
    return status;
  }
  std::get<Embedding>(graph_.ops.back().kind).weight = add_tensor(
      "weight", TensorKind::embedding, {graph_.vocabulary, out_features}, 1, initial_std);
  return {};
}

Status GraphBuilder::positions(float initial_std) {
  if (auto status = check_positions(shape_); !status) return status;
  if (auto status = reserve(elements(shape_)); !status) return status;
  if (auto status = append_same({Positions{}, {}, {}, {}, {}}); !status) return status;
  std::get<Positions>(graph_.ops.back().kind).weight =
      add_tensor("weight", TensorKind::embedding, shape_, 1, initial_std);
  return {};
}

Status GraphBuilder::attention(std::uint32_t heads, std::uint32_t kv_heads, float rotary_base) {
  if (auto status = check_positions(shape_); !status) return status;
  if (auto status = check_side("heads", heads); !status) return status;
  if (auto status = check_side("kv_heads", kv_heads); !status) return status;
  if (heads % kv_heads != 0) {
    return fail(ErrorCode::run_file, "{} kv_heads do not divide {} heads", kv_heads, heads);
  }
  const std::uint32_t parts = heads + 2 * kv_heads;
  if (features(shape_) % parts != 0) {
    return fail(ErrorCode::run_file,
                "its input {} must have a multiple of {} features: queries of {} heads, keys and "
                "values of {}",
                to_string(shape_), parts, heads, kv_heads);
  }
  const std::uint32_t head_size = features(shape_) / parts;
  if (rotary_base > 0 && head_size % 2 != 0) {
    return fail(ErrorCode::run_file, "rotary positions need heads of an even size, not of {}",
                head_size);
  }
  return append({Attention{heads, kv_heads, head_size, rotary_base},
                 {},
                 shape_,
                 {shape_[0], heads * head_size},
                 {}});
}

Status GraphBuilder::activation(ActivationKind kind) {
  return append_same({Activation{kind}, {}, {}, {}, {}});
}

Status GraphBuilder::swiglu() {
  if (auto status = check_rows(shape_); !status) return status;
  if (features(shape_) % 2 != 0) {
    return fail(ErrorCode::run_file, "its input {} must have an even number of features",
                to_string(shape_));
  }
  Shape out = shape_;
  out.back() /= 2;
  return append({SwiGlu{}, {}, shape_, out, {}});
}

Status GraphBuilder::dropout(float rate) {
  if (!(rate >= 0 && rate < 1)) {
    return fail(ErrorCode::run_file, "its rate is {}; it must be at least 0 and below 1", rate);
  }
  return append_same({Dropout{rate}, {}, {}, {}, {}});
}

Status GraphBuilder::max_pool2d(std::uint32_t kernel, std::uint32_t stride, std::uint32_t padding) {
  const auto size = slide(shape_, kernel, stride, padding);
  if (!size) return fail(size.error());
  if (2 * std::uint64_t{padding} > kernel) {
    return fail(ErrorCode::run_file, "padding is {}; it must be at most half of the kernel, {}",
                padding, kernel);
  }
  return append(
      {MaxPool2d{kernel, stride, padding}, {}, shape_, {shape_[0], size->first, size->second}, {}});
}

Status GraphBuilder::average_pool2d(std::uint32_t kernel, std::uint32_t stride) {
  const auto size = slide(shape_, kernel, stride, 0);
  if (!size) return fail(size.error());
  return append(
      {AveragePool2d{kernel, stride}, {}, shape_, {shape_[0], size->first, size->second}, {}});
}

Status GraphBuilder::global_average_pool() {
  if (auto status = check_image(shape_); !status) return status;
  return append({GlobalAveragePool{}, {}, shape_, {shape_[0]}, {}});
}

Status GraphBuilder::add(ValueId other) {
  ASSERT(other == kGraphInput || other < graph_.ops.size(), "values come from value()");
  const Shape& shape = other == kGraphInput ? graph_.input : graph_.ops[other].out;
  if (shape != shape_ || (other == kGraphInput && graph_.vocabulary > 0)) {
    return fail(ErrorCode::run_file,
                "the two branches give {} and {}: only equal shapes can be added",
                to_string(shape_), to_string(shape));
  }
  return append({Add{}, {value_, other}, shape_, shape_, {}});
}

Status GraphBuilder::flatten() {
  return append({Flatten{}, {}, shape_, {static_cast<std::uint32_t>(elements(shape_))}, {}});
}

void GraphBuilder::seek(ValueId value) {
  ASSERT(value == kGraphInput || value < graph_.ops.size(), "values come from value()");
  value_ = value;
  shape_ = value == kGraphInput ? graph_.input : graph_.ops[value].out;
}

Status GraphBuilder::check_whole() const {
  if (graph_.tensors.empty()) {
    return fail(ErrorCode::run_file, "the model has no layer that can be trained");
  }
  std::vector<bool> used(graph_.ops.size());
  used[value_] = true;
  for (const Op& op : graph_.ops) {
    for (const ValueId input : op.inputs) {
      if (input != kGraphInput) used[input] = true;
    }
  }
  const auto idle = std::ranges::find(used, false);
  if (idle == used.end() && value_ + 1 == used.size()) return {};
  const std::size_t op =
      idle == used.end() ? value_ : static_cast<std::size_t>(idle - used.begin());
  return fail(ErrorCode::run_file, "nothing takes what layer {} gives", graph_.ops[op].name);
}

Result<Graph> GraphBuilder::finish(std::uint32_t classes, float label_smoothing) && {
  if (classes < 2 || classes > kClassesMax) {
    return fail(ErrorCode::run_file, "the data has {} classes; 2 to {} can be told apart", classes,
                kClassesMax);
  }
  if (auto status = check_whole(); !status) return fail(status.error());
  const bool sequence = shape_.size() == 2;
  if ((sequence ? features(shape_) : elements(shape_)) != classes) {
    return fail(ErrorCode::run_file,
                "the last layer gives {} outputs, but the data has {} classes: end the model with "
                "a linear layer of out = {}",
                to_string(shape_), classes, classes);
  }
  graph_.loss = {LossKind::cross_entropy, label_smoothing};
  graph_.classes = classes;
  graph_.positions = sequence ? shape_[0] : 1;
  return std::move(graph_);
}

Result<Graph> GraphBuilder::finish_mean_squared() && {
  if (auto status = check_whole(); !status) return fail(status.error());
  graph_.loss = {LossKind::mean_squared, 0};
  return std::move(graph_);
}

}  // namespace starling::compute
