// From a list of layers to a graph: names of tensors, blocks, residuals, and errors that say where.
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "base/suggest.hpp"
#include "model/model.hpp"
#include "model/presets.hpp"

namespace starling::model {

using base::ErrorCode;
using base::fail;
using base::Result;
using base::Status;

namespace {

std::string join(std::string_view prefix, std::string_view name) {
  if (prefix.empty() || name.empty()) return std::string(prefix) + std::string(name);
  return fmt::format("{}.{}", prefix, name);
}

/// The place of a list of layers: in the run file, and in the names of tensors.
struct Place {
  std::string path;     ///< "layers", "layers[3].shortcut"
  std::string named;    ///< in front of its layers' names
  std::string unnamed;  ///< in front of the numbers of its layers without a name
};

Status add(compute::GraphBuilder& builder, const LayerSpec& layer) {
  const auto epsilon = static_cast<float>(layer.epsilon);
  const auto initial_std = static_cast<float>(layer.initial_std);
  const std::uint32_t pool_stride = layer.stride == 0 ? layer.kernel : layer.stride;
  using enum compute::ActivationKind;
  switch (layer.kind) {
    case LayerKind::conv2d:
      return builder.conv2d({.out_channels = layer.out,
                             .kernel = layer.kernel,
                             .stride = std::max(layer.stride, 1U),
                             .padding = layer.padding,
                             .dilation = layer.dilation,
                             .groups = layer.groups,
                             .weight = {layer.bias, initial_std}});
    case LayerKind::linear:
      return builder.linear(layer.out, {layer.bias, initial_std});
    case LayerKind::batch_norm:
      return builder.batch_norm(epsilon, static_cast<float>(layer.momentum));
    case LayerKind::layer_norm:
      return builder.layer_norm(epsilon, layer.bias);
    case LayerKind::rms_norm:
      return builder.rms_norm(epsilon);
    case LayerKind::embedding:
      return builder.embedding(layer.out, initial_std > 0 ? initial_std : 1.0F);
    case LayerKind::positions:
      return builder.positions(initial_std > 0 ? initial_std : 1.0F);
    case LayerKind::attention:
      return builder.attention(layer.heads, layer.kv_heads == 0 ? layer.heads : layer.kv_heads,
                               static_cast<float>(layer.rotary));
    case LayerKind::relu:
      return builder.activation(relu);
    case LayerKind::gelu:
      return builder.activation(gelu);
    case LayerKind::gelu_tanh:
      return builder.activation(gelu_tanh);
    case LayerKind::silu:
      return builder.activation(silu);
    case LayerKind::swiglu:
      return builder.swiglu();
    case LayerKind::dropout:
      return builder.dropout(static_cast<float>(layer.rate));
    case LayerKind::max_pool2d:
      return builder.max_pool2d(layer.kernel, pool_stride, layer.padding);
    case LayerKind::avg_pool2d:
      return builder.average_pool2d(layer.kernel, pool_stride);
    case LayerKind::global_avg_pool:
      return builder.global_average_pool();
    case LayerKind::flatten:
      return builder.flatten();
    case LayerKind::tied_linear:
      return builder.tied_linear();
    case LayerKind::residual:
    case LayerKind::block:
      break;
  }
  return fail(ErrorCode::internal, "unknown kind of layer");
}

/// Adds lists of layers to a graph, lists within lists too.
class Walk {
 public:
  Walk(const Spec& spec, const InputOutput& in_out, compute::GraphBuilder& builder)
      : spec_(spec), tokens_(in_out.vocabulary > 0), builder_(builder) {}

  [[nodiscard]] Status layers(const std::vector<LayerSpec>& list, const Place& place) {
    if (++depth_ > kDepthMax) {
      return fail(ErrorCode::run_file, "{}: layers stand within layers more than {} deep",
                  place.path, kDepthMax);
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string name =
          list[i].name ? join(place.named, *list[i].name) : join(place.unnamed, std::to_string(i));
      if (auto status = layer(list[i], fmt::format("{}[{}]", place.path, i), name); !status) {
        return status;
      }
    }
    --depth_;
    return {};
  }

 private:
  Status layer(const LayerSpec& layer, const std::string& path, const std::string& name) {
    if (auto status = count(path); !status) return status;
    if (layer.kind == LayerKind::block) return block(layer, path, name);
    if (layer.kind == LayerKind::residual) return residual(layer, path, name);
    builder_.name_next(name);
    return located(add(builder_, layer), layer, path, name);
  }

  Status count(const std::string& path) {
    if (++count_ <= compute::kOpsMax) return {};
    return fail(ErrorCode::run_file, "{}: a model may have at most {} layers, repeats counted",
                path, compute::kOpsMax);
  }

  Status residual(const LayerSpec& layer, const std::string& path, const std::string& name) {
    if (layer.layers.empty()) {
      return located(fail(ErrorCode::run_file, "has no layers"), layer, path, name);
    }
    const compute::ValueId input = builder_.value();
    if (tokens_ && input == compute::kGraphInput) {
      return located(fail(ErrorCode::run_file, "its input is tokens: an embedding must come first"),
                     layer, path, name);
    }
    const Place branch{path + ".layers", name, name};
    if (auto status = layers(layer.layers, branch); !status) return status;
    const compute::ValueId result = builder_.value();
    builder_.seek(input);
    const Place shortcut{path + ".shortcut", name, join(name, "shortcut")};
    if (auto status = layers(layer.shortcut, shortcut); !status) return status;
    const compute::ValueId other = builder_.value();
    builder_.seek(result);
    builder_.name_next(name);
    return located(builder_.add(other), layer, path, name);
  }

  Status block(const LayerSpec& layer, const std::string& path, const std::string& name) {
    const auto found = spec_.blocks.find(layer.block);
    if (found == spec_.blocks.end()) {
      std::vector<std::string_view> known;
      for (const auto& [word, list] : spec_.blocks) known.push_back(word);
      return fail(ErrorCode::run_file, "{}: there is no block '{}'{}", path, layer.block,
                  base::suggestion(layer.block, known));
    }
    if (std::ranges::find(open_blocks_, layer.block) != open_blocks_.end()) {
      return fail(ErrorCode::run_file, "{}: block '{}' contains itself", path, layer.block);
    }
    open_blocks_.push_back(layer.block);
    for (std::uint32_t i = 0; i < std::max(layer.repeat, 1U); ++i) {
      if (auto status = count(path); !status) return status;
      const std::string numbered = layer.repeat == 0 ? name : join(name, std::to_string(i));
      const Place place{fmt::format("{}, blocks.{}", path, layer.block), numbered, numbered};
      if (auto status = layers(found->second, place); !status) return status;
    }
    open_blocks_.pop_back();
    return {};
  }

  /// The error with the layer's place, name (if it adds something) and kind in front.
  static Status located(Status status, const LayerSpec& layer, const std::string& path,
                        const std::string& name) {
    if (status) return status;
    const bool numbered = join("layers", path.substr(path.find('[') + 1)) == name + ']';
    const std::string shown = numbered ? "" : fmt::format(" '{}'", name);
    return fail(status.error().in(fmt::format("{}{} ({})", path, shown, name_of(layer.kind))));
  }

  const Spec& spec_;
  const bool tokens_;
  compute::GraphBuilder& builder_;
  std::vector<std::string> open_blocks_;
  std::size_t depth_ = 0;
  std::size_t count_ = 0;
};

/// The model's input and output for data with these.
Result<InputOutput> in_out_of(const Spec& spec, InputOutput in_out) {
  const bool tokens = in_out.vocabulary > 0;
  if (tokens) {
    const std::uint32_t context = context_of(spec);
    if (context == 0) {
      return fail(ErrorCode::run_file,
                  "samples are tokens, but the model takes none: give input = [tokens of a sample] "
                  "and an embedding as the first layer, or take preset gpt");
    }
    if (!in_out.input.empty() && in_out.input != compute::Shape{context}) {
      return fail(ErrorCode::run_file, "it takes {} tokens, but samples have {}", context,
                  compute::to_string(in_out.input));
    }
    in_out.input = {context};
  } else if (!spec.input.empty()) {
    in_out.input = spec.input;
  }
  const std::uint32_t vocabulary = spec.preset == Preset::gpt ? spec.sizes.vocabulary : 0;
  if (tokens && vocabulary > 0) {
    if (vocabulary < in_out.vocabulary) {
      return fail(ErrorCode::run_file, "vocabulary is {}, but the data has {} different tokens",
                  vocabulary, in_out.vocabulary);
    }
    in_out.vocabulary = in_out.outputs = vocabulary;
  }
  return in_out;
}

Result<compute::Graph> finish(compute::GraphBuilder&& builder, const Spec& spec,
                              const InputOutput& in_out) {
  const compute::Shape& out = builder.shape();
  const bool sequence = out.size() == 2;
  const auto given = static_cast<std::uint32_t>(sequence ? out[1] : compute::elements(out));
  if (spec.loss == compute::LossKind::cross_entropy) {
    const std::uint32_t classes = in_out.outputs == 0 ? given : in_out.outputs;
    if (in_out.vocabulary > 0 && (sequence ? out[0] : 1) != in_out.input[0]) {
      return fail(ErrorCode::run_file,
                  "its input is {} tokens and its output {}, but text has a label for each "
                  "position: the output must be {}x{}",
                  in_out.input[0], compute::to_string(out), in_out.input[0], classes);
    }
    return std::move(builder).finish(classes, static_cast<float>(spec.label_smoothing));
  }
  if (in_out.outputs != 0 && compute::elements(out) != in_out.outputs) {
    return fail(ErrorCode::run_file, "the last layer gives {} outputs, but a target has {} values",
                compute::to_string(out), in_out.outputs);
  }
  return std::move(builder).finish_mean_squared();
}

/// Checkpoints hold tensors by name, so names must differ.
Status check_names(const compute::Graph& graph) {
  std::set<std::string_view> names;
  for (const auto* tensors : {&graph.tensors, &graph.buffers}) {
    for (const compute::Tensor& tensor : *tensors) {
      if (names.insert(tensor.name).second) continue;
      return fail(ErrorCode::run_file,
                  "two tensors are called '{}': give their layers different names", tensor.name);
    }
  }
  return {};
}

Result<Model> build_checked(const Spec& spec, const InputOutput& data) {
  const auto in_out = in_out_of(spec, data);
  if (!in_out) return fail(in_out.error());
  auto builder = in_out->vocabulary > 0
                     ? compute::GraphBuilder::start_tokens(in_out->input[0], in_out->vocabulary)
                     : compute::GraphBuilder::start(in_out->input);
  if (!builder) return fail(builder.error());
  Result<std::vector<LayerSpec>> expanded;
  if (spec.preset != Preset::none) {
    expanded = layers_of(spec.preset, spec.sizes, *in_out);
    if (!expanded) return fail(expanded.error());
  }
  const auto& layers = spec.preset == Preset::none ? spec.layers : *expanded;
  const Place top{"layers", "", "layers"};
  if (auto status = Walk(spec, *in_out, *builder).layers(layers, top); !status) {
    return fail(status.error());
  }
  auto graph = finish(std::move(*builder), spec, *in_out);
  if (!graph) return fail(graph.error());
  if (auto status = check_names(*graph); !status) return fail(status.error());
  return Model{std::move(*graph)};
}

}  // namespace

Result<Model> build(const Spec& spec, const InputOutput& in_out) {
  auto model = build_checked(spec, in_out);
  if (!model) return fail(model.error().in("model"));
  return model;
}

Result<Model> build(const Spec& spec, std::uint32_t classes) {
  return build(spec, InputOutput{.input = spec.input, .outputs = classes});
}

}  // namespace starling::model
