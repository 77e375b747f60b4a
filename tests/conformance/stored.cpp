#include "stored.hpp"

#include <cstdint>
#include <fstream>
#include <iterator>
#include <span>

#include <boost/test/unit_test.hpp>

#include "tests/unit/compute/networks.hpp"
#include "train/safetensors.hpp"

namespace starling::conformance {

using namespace compute;
using compute::testing::need;

namespace {

constexpr std::uint32_t kCount = 3;  ///< samples of a step
constexpr std::uint32_t kRunBatches = 5;
constexpr std::uint32_t kRunSteps = 50;

class File {
 public:
  explicit File(const std::string& name) : file_(open(name)) {}

  [[nodiscard]] std::vector<float> floats(const std::string& tensor, const Shape& shape) const {
    std::vector<float> values(elements(shape));
    need(file_.copy(tensor, shape, values));
    return values;
  }

  /// The tensors of a graph with a prefix to their names, in one vector.
  [[nodiscard]] std::vector<float> all(const char* prefix,
                                       const std::vector<Tensor>& tensors) const {
    std::vector<float> values;
    for (const Tensor& tensor : tensors) {
      const auto part = floats(prefix + tensor.name, tensor.shape);
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  }

  [[nodiscard]] State state(const Graph& graph) const {
    return {all("parameter/", graph.tensors), all("buffer/", graph.buffers)};
  }

  [[nodiscard]] Samples samples(const std::string& prefix, const Graph& graph,
                                std::uint32_t count) const {
    Samples result{.count = count};
    const auto shape = [count](Shape sides) {
      sides.insert(sides.begin(), count);
      return sides;
    };
    if (graph.vocabulary > 0) {
      result.tokens = integers(prefix + "tokens", shape(graph.input));
    } else {
      result.samples = floats(prefix + "samples", shape(graph.input));
    }
    const Shape& out = graph.ops.back().out;
    if (graph.loss.kind == LossKind::mean_squared) {
      result.targets = floats(prefix + "targets", shape(out));
    } else {
      result.labels =
          integers(prefix + "labels", out.size() == 2 ? shape({graph.positions}) : shape({}));
    }
    return result;
  }

 private:
  static train::TensorFile open(const std::string& name) {
    const std::string path = STARLING_STORED + ("/" + name) + ".safetensors";
    std::ifstream stream(path, std::ios::binary);
    if (!stream) BOOST_FAIL(path << ": missing; tools/make-conformance " << name << " makes it");
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    const auto bytes = std::as_bytes(std::span(text));
    return need(train::TensorFile::parse({bytes.begin(), bytes.end()}, path));
  }

  [[nodiscard]] std::vector<std::int32_t> integers(const std::string& tensor,
                                                   const Shape& shape) const {
    const auto values = floats(tensor, shape);
    return {values.begin(), values.end()};
  }

  train::TensorFile file_;
};

}  // namespace

Stored read_stored(const std::string& name, const Graph& graph) {
  const File file(name);
  Shape outputs = graph.ops.back().out;
  outputs.insert(outputs.begin(), kCount);
  const auto losses = file.floats("loss", {2});
  return {.samples = file.samples("", graph, kCount),
          .state = file.state(graph),
          .outputs = file.floats("outputs", outputs),
          .evaluation_loss = losses[0],
          .step = {.loss = losses[1],
                   .gradient = file.all("gradient/", graph.tensors),
                   .buffers = file.all("moved/", graph.buffers)}};
}

StoredRun read_run(const std::string& name, const Graph& graph) {
  const File file(name);
  return {.samples = file.samples("curve/", graph, kCount * kRunBatches),
          .state = file.state(graph),
          .batch = kCount,
          .batches = kRunBatches,
          .rate = file.floats("curve/rate", {1})[0],
          .losses = file.floats("curve/losses", {kRunSteps})};
}

}  // namespace starling::conformance
