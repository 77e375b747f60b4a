// Builds the graph of a case; an error fails the test.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "compute/graph.hpp"
#include "tests/unit/compute/networks.hpp"

namespace starling::conformance {

inline constexpr compute::WeightOptions kNoBias{.bias = false};
/// A 3x3 convolution with these keeps the image's size.
inline constexpr compute::Conv2dOptions kSame{.padding = 1};

/// GraphBuilder in one expression: Network({3, 8, 8}).conv(4, 3).relu().linear(5).classify(5).
class Network {
 public:
  explicit Network(compute::Shape input)
      : builder_(compute::testing::need(compute::GraphBuilder::start(std::move(input)))) {}

  static Network of_tokens(std::uint32_t positions, std::uint32_t vocabulary) {
    return Network(
        compute::testing::need(compute::GraphBuilder::start_tokens(positions, vocabulary)));
  }

  /// Names the next layer.
  Network& name(std::string name) {
    builder_.name_next(std::move(name));
    return *this;
  }
  /// The next layer takes this op's result.
  Network& at(compute::ValueId op) {
    builder_.seek(op);
    return *this;
  }
  /// The number of the last op.
  [[nodiscard]] compute::ValueId last() const { return builder_.value(); }

  Network& conv(std::uint32_t out_channels, std::uint32_t kernel,
                compute::Conv2dOptions options = {}) {
    options.out_channels = out_channels;
    options.kernel = kernel;
    return need(builder_.conv2d(options));
  }
  Network& linear(std::uint32_t out, bool bias = true) {
    return need(builder_.linear(out, {.bias = bias}));
  }
  Network& tied_linear() { return need(builder_.tied_linear()); }
  Network& batch_norm(float epsilon = 1e-5F, float momentum = 0.1F) {
    return need(builder_.batch_norm(epsilon, momentum));
  }
  Network& layer_norm(float epsilon = 1e-5F, bool bias = true) {
    return need(builder_.layer_norm(epsilon, bias));
  }
  Network& rms_norm(float epsilon = 1e-5F) { return need(builder_.rms_norm(epsilon)); }
  Network& embedding(std::uint32_t features) { return need(builder_.embedding(features)); }
  Network& positions() { return need(builder_.positions()); }
  Network& attention(std::uint32_t heads, std::uint32_t kv_heads, float rotary_base = 0) {
    return need(builder_.attention(heads, kv_heads, rotary_base));
  }
  Network& relu() { return need(builder_.relu()); }
  Network& activation(compute::ActivationKind kind) { return need(builder_.activation(kind)); }
  Network& swiglu() { return need(builder_.swiglu()); }
  Network& dropout(float rate) { return need(builder_.dropout(rate)); }
  Network& max_pool(std::uint32_t kernel, std::uint32_t stride, std::uint32_t padding = 0) {
    return need(builder_.max_pool2d(kernel, stride, padding));
  }
  Network& avg_pool(std::uint32_t kernel, std::uint32_t stride) {
    return need(builder_.average_pool2d(kernel, stride));
  }
  Network& global_avg_pool() { return need(builder_.global_average_pool()); }
  Network& add(compute::ValueId other) { return need(builder_.add(other)); }
  Network& flatten() { return need(builder_.flatten()); }

  compute::Graph classify(std::uint32_t classes, float label_smoothing = 0) {
    return compute::testing::need(std::move(builder_).finish(classes, label_smoothing));
  }
  compute::Graph mean_squared() {
    return compute::testing::need(std::move(builder_).finish_mean_squared());
  }

 private:
  explicit Network(compute::GraphBuilder builder) : builder_(std::move(builder)) {}

  Network& need(const base::Status& status) {
    compute::testing::need(status);
    return *this;
  }

  compute::GraphBuilder builder_;
};

}  // namespace starling::conformance
