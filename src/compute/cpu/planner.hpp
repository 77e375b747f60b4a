// From a graph to a plan: chooses primitives and layouts, and fuses what can be fused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "compute/cpu/max_pool.hpp"
#include "compute/cpu/plan.hpp"
#include "compute/graph.hpp"

namespace starling::compute::cpu {

/// Builds one Plan; throws dnnl::error where oneDNN lacks what is needed.
class Planner {
 public:
  Planner(const Graph& graph, std::uint32_t batch);

  [[nodiscard]] Plan plan();

 private:
  /// Stands for a buffer of the caller, which has no place in the arena.
  static constexpr BufferId kUser = ~BufferId{0};

  /// Activations, parameters or gradients, in whatever layout the primitives around them chose.
  struct Value {
    dnnl::memory memory;
    BufferId buffer = kUser;
  };
  struct Argument {
    int index;  ///< DNNL_ARG_*
    Value value;
  };
  /// What forward leaves for backward, one per op.
  struct Saved {
    Value source;
    Value result;
    Value chosen;  ///< max_pool2d: which element of each window is the largest
    Value weight;  ///< conv2d: as forward used it
    dnnl::convolution_forward::primitive_desc convolution;
    dnnl::inner_product_forward::primitive_desc inner_product;
    MaxPoolShape pool;
  };

  void forward();
  Value forward_conv2d(std::size_t op, Value source);
  Value forward_linear(std::size_t op, Value source);
  Value forward_relu(const Value& source);
  Value forward_max_pool2d(std::size_t op, Value source);

  void backward();
  void backward_conv2d_weights(std::size_t op, const Value& gradient);
  Value backward_conv2d_source(std::size_t op, const Value& gradient);
  void backward_linear_weights(std::size_t op, const Value& gradient);
  Value backward_linear_source(std::size_t op, const Value& gradient);
  Value backward_relu(const Value& result, Value gradient);
  Value backward_max_pool2d(std::size_t op, Value gradient);

  /// Appends a call, with the shared scratchpad where its description asks for one.
  void call(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
            std::initializer_list<Argument> arguments);
  /// Appends a call of our own code, which touches the given buffers.
  void call(std::function<void()> own, std::initializer_list<Value> touched);
  void reorder(const Value& from, const Value& to);
  /// The same content in another layout: itself where it already has it.
  Value convert(const Value& value, const dnnl::memory::desc& desc);
  /// The same bytes seen with other sides; the layout is plain.
  Value reshape(const Value& value, const Shape& shape);
  Value make(const dnnl::memory::desc& desc);
  Value user(std::vector<UserMemory>& memories, std::size_t tensor, const dnnl::memory::desc& desc);

  [[nodiscard]] bool is_relu(std::size_t op) const;
  [[nodiscard]] dnnl::primitive_attr attributes(bool with_relu = false) const;
  [[nodiscard]] dnnl::memory::dims dims(const Shape& shape) const;
  [[nodiscard]] dnnl::memory::desc plain(const Shape& shape) const;

  const Graph& graph_;
  const dnnl::memory::dim batch_;
  Plan plan_;
  std::vector<Call>* calls_ = nullptr;  ///< the list that is being written
  std::vector<Saved> saved_;
  BufferId scratchpad_ = 0;
};

}  // namespace starling::compute::cpu
