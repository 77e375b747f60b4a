// From a graph to a plan: chooses primitives and layouts, and fuses operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "compute/cpu/plan.hpp"
#include "compute/cpu/winograd.hpp"
#include "compute/graph.hpp"
#include "compute/graph_flow.hpp"
#include "compute/program.hpp"

namespace starling::compute::cpu {

/// All forward primitives are made for training, also those of evaluation: backward needs this.
inline constexpr auto kTraining = dnnl::prop_kind::forward_training;

/// Builds one Plan; throws dnnl::error if oneDNN lacks something.
class Planner {
 public:
  Planner(const Graph& graph, const CompileOptions& options);

  [[nodiscard]] Plan plan();

 private:
  /// Stands for a buffer of the caller, which has no place in the arena.
  static constexpr BufferId kUser = ~BufferId{0};

  /// Activations, parameters or gradients, in the layout that the primitives around them chose.
  struct Value {
    dnnl::memory memory;
    BufferId buffer = kUser;
  };
  struct Argument {
    int index;  ///< DNNL_ARG_*
    Value value;
  };
  /// Forward's values for backward, one per op. Evaluation's forward fills it, too, and then
  /// training's forward fills it again.
  struct Saved {
    Value source;
    Value result;  ///< backward reads it only through kept_result()
    Value extra;   ///< max_pool2d: which element of each window is the largest; norms, attention:
                   ///< figures
    Value weight;  ///< conv2d: in forward's layout
    dnnl::convolution_forward::primitive_desc convolution;
    std::optional<WinogradShape> winograd;  ///< if the convolution is done by Winograd's algorithm
    dnnl::pooling_forward::primitive_desc pooling;
  };
  /// The gradient of an op's result. A shared one may not be written to.
  struct Gradient {
    Value value;
    bool shared = false;
  };

  // The walk through the graph: planner.cpp.
  void forward(bool training);
  [[nodiscard]] Value forward_op(std::size_t op);
  void backward();
  void backward_op(std::size_t op, Gradient gradient);
  /// Adds a part to the gradient of an op's input.
  void give(std::size_t op, Gradient gradient, std::size_t input = 0);

  // Images: planner_images.cpp.
  Value forward_of(std::size_t op, const Conv2d& conv, const Value& source);
  Value forward_of(std::size_t op, const BatchNorm& norm, Value source);
  Value forward_of(std::size_t op, const MaxPool2d& pool, Value source);
  Value forward_of(std::size_t op, const AveragePool2d& pool, const Value& source);
  Value forward_of(std::size_t op, const GlobalAveragePool& pool, const Value& source);
  void backward_of(std::size_t op, const Conv2d& conv, const Gradient& gradient);
  void backward_of(std::size_t op, const BatchNorm& norm, Gradient gradient);
  void backward_of(std::size_t op, const MaxPool2d& pool, const Gradient& gradient);
  void backward_of(std::size_t op, const AveragePool2d& pool, const Gradient& gradient);
  void backward_of(std::size_t op, const GlobalAveragePool& pool, const Gradient& gradient);
  Value forward_winograd(std::size_t op, const Conv2d& conv, const Value& source);
  void backward_winograd(std::size_t op, const Conv2d& conv, Gradient gradient);
  Value pool_average(std::size_t op, const Value& source);
  Value pool_average_backward(std::size_t op, const Value& gradient);

  // Rows of features: planner_rows.cpp.
  Value forward_of(std::size_t op, const Linear& linear, const Value& source);
  Value forward_rounded(std::size_t op, const Linear& linear, const Value& source);
  Value forward_of(std::size_t op, const LayerNorm& norm, const Value& source);
  Value forward_of(std::size_t op, const RmsNorm& norm, const Value& source);
  Value forward_of(std::size_t op, const Embedding& embedding, const Value& source);
  Value forward_of(std::size_t op, const Positions& positions, Value source);
  Value forward_of(std::size_t op, const Attention& attention, Value source);
  Value forward_of(std::size_t op, const SwiGlu& swiglu, Value source);
  void backward_of(std::size_t op, const Linear& linear, const Gradient& gradient);
  void backward_of(std::size_t op, const LayerNorm& norm, const Gradient& gradient);
  void backward_of(std::size_t op, const RmsNorm& norm, const Gradient& gradient);
  void backward_of(std::size_t op, const Embedding& embedding, const Gradient& gradient);
  void backward_of(std::size_t op, const Positions& positions, Gradient gradient);
  void backward_of(std::size_t op, const Attention& attention, const Gradient& gradient);
  void backward_of(std::size_t op, const SwiGlu& swiglu, const Gradient& gradient);
  Value forward_rows(std::size_t op, Value source, float epsilon, std::size_t weight,
                     std::size_t bias, bool centred);
  void backward_rows(std::size_t op, const Gradient& gradient, float epsilon, std::size_t weight,
                     std::size_t bias, bool centred);

  // Any shape: planner.cpp.
  Value forward_of(std::size_t op, const Activation& activation, const Value& source);
  Value forward_of(std::size_t op, const Dropout& dropout, Value source);
  Value forward_of(std::size_t op, const Add& add, const Value& source);
  Value forward_of(std::size_t op, const Flatten& flatten, const Value& source);
  void backward_of(std::size_t op, const Activation& activation, Gradient gradient);
  void backward_of(std::size_t op, const Dropout& dropout, const Gradient& gradient);
  void backward_of(std::size_t op, const Add& add, const Gradient& gradient);
  void backward_of(std::size_t op, const Flatten& flatten, const Gradient& gradient);
  void drop(std::size_t op, const Dropout& dropout, const Value& from, const Value& to);

  // Calls and values: planner_calls.cpp.
  // Appends a call, with the shared scratchpad if its description requires one.
  void call(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
            std::initializer_list<Argument> arguments);
  /// Appends a call of our own code, which touches the given buffers.
  void call(std::function<void()> own, std::initializer_list<Value> touched);
  void reorder(const Value& from, const Value& to);
  /// The same content in another layout: the value itself if it already has that layout.
  Value convert(const Value& value, const dnnl::memory::desc& desc);
  /// The gradient in another layout; a new one is not shared.
  Gradient convert(const Gradient& gradient, const dnnl::memory::desc& desc);
  /// The same bytes with another shape; the layout is plain.
  Value reshape(const Value& value, const dnnl::memory::dims& sides);
  Value make(const dnnl::memory::desc& desc);
  Value make_floats(std::size_t count);
  /// Where to write a gradient of the same size: in place, unless it is shared.
  Value writable(const Gradient& gradient);
  Value parameter(std::size_t tensor, const dnnl::memory::desc& desc);
  Value parameter(std::size_t tensor);
  Value parameter_gradient(std::size_t tensor, const dnnl::memory::desc& desc);
  Value parameter_gradient(std::size_t tensor);
  Value running(std::size_t buffer);
  Value user(std::vector<UserMemory>& memories, const Tensor& place,
             const dnnl::memory::desc& desc);

  [[nodiscard]] const Op& op_at(std::size_t op) const { return graph_.ops[op]; }
  /// Whether only a max pool takes the ReLU's result, and undoes the ReLU on the way back.
  [[nodiscard]] bool pool_undoes(std::size_t relu) const;
  /// Whether only one op takes the value, and nothing needs it afterwards.
  [[nodiscard]] bool may_overwrite(ValueId value) const;
  /// Whether backward_of the op reads its result, so that nothing may overwrite it.
  [[nodiscard]] bool keeps_result(std::size_t op) const;
  /// That result: backward_of may get it only here.
  [[nodiscard]] const Value& kept_result(std::size_t op) const;
  [[nodiscard]] dnnl::primitive_attr attributes(bool with_relu = false) const;
  /// With the batch in front.
  [[nodiscard]] dnnl::memory::dims dims(const Shape& shape) const;
  [[nodiscard]] dnnl::memory::desc plain(const Shape& shape) const;
  /// {rows, features} of a linear layer's input or result.
  [[nodiscard]] dnnl::memory::dims rows(const Shape& shape) const;

  const Graph& graph_;
  const dnnl::memory::dim batch_;
  const std::uint32_t threads_;
  const bool bf16_;  ///< products round their factors
  Plan plan_;
  bool training_ = false;               ///< which forward is written
  std::vector<Call>* calls_ = nullptr;  ///< the list that is being written
  Value input_;
  std::vector<Value> values_;  ///< results of the ops so far
  std::vector<Saved> saved_;
  const GraphFlow flow_;
  std::vector<std::optional<Gradient>> gradients_;  ///< of each op's result, so far
  std::vector<bool> written_;                       ///< tensors with a gradient
  BufferId scratchpad_ = 0;
};

/// Dense, in the order of the sides.
[[nodiscard]] dnnl::memory::desc dense(const dnnl::memory::dims& sides);
[[nodiscard]] dnnl::memory::desc dense(const dnnl::memory::dims& sides,
                                       dnnl::memory::format_tag tag);
[[nodiscard]] dnnl::memory::dims sides_of(const Shape& shape);
[[nodiscard]] float* floats(const dnnl::memory& values);
/// The number of floats of a layout, including the padding of blocks.
[[nodiscard]] std::size_t floats_of(const dnnl::memory& values);

}  // namespace starling::compute::cpu
