// Networks, parameters and batches for tests; all from a seed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "base/rng.hpp"
#include "compute/graph.hpp"
#include "compute/program.hpp"

namespace starling::compute::testing {

inline std::vector<float> random_floats(std::size_t count, base::Rng& rng, float bound = 1.0F) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(2 * rng.uniform() - 1) * bound;
  return values;
}

/// A batch that owns its samples.
struct OwnedBatch {
  std::vector<float> samples;
  std::vector<std::int32_t> labels;

  OwnedBatch(const Graph& graph, std::size_t count, base::Rng& rng)
      : samples(random_floats(count * elements(graph.input), rng)), labels(count) {
    for (auto& label : labels) label = static_cast<std::int32_t>(rng.below(graph.classes));
  }

  [[nodiscard]] Batch view() const {
    return {.samples = samples, .tokens = {}, .labels = labels, .targets = {}};
  }
  [[nodiscard]] Batch view(std::size_t first, std::size_t count) const {
    const std::size_t size = samples.size() / labels.size();
    return {.samples = std::span(samples).subspan(first * size, count * size),
            .tokens = {},
            .labels = std::span(labels).subspan(first, count),
            .targets = {}};
  }
};

/// The result's value; fails the test with its error otherwise.
template <class T>
T need(base::Result<T> result) {
  if (!result) BOOST_FAIL(result.error().text);
  return std::move(*result);
}
inline void need(const base::Status& status) {
  if (!status) BOOST_FAIL(status.error().text);
}

inline std::unique_ptr<Program> compile(const Graph& graph, std::uint32_t batch,
                                        std::uint32_t threads = 1) {
  return need(need(open_backend("cpu"))->compile(graph, {.batch = batch, .threads = threads}));
}

/// Every kind of op: 1x28x28, conv3x3(32) ReLU, conv3x3(64) ReLU, max pool 2, linear-128 ReLU,
/// linear-10.
inline Graph reference_cnn() {
  GraphBuilder builder = need(GraphBuilder::start({1, 28, 28}));
  need(builder.conv2d({.out_channels = 32, .kernel = 3}));
  need(builder.relu());
  need(builder.conv2d({.out_channels = 64, .kernel = 3}));
  need(builder.relu());
  need(builder.max_pool2d(2, 2));
  need(builder.linear(128));
  need(builder.relu());
  need(builder.linear(10));
  return need(std::move(builder).finish(10));
}

}  // namespace starling::compute::testing
