#include "reference.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <span>
#include <variant>

#include "compute/dropout.hpp"

namespace starling::conformance {

using namespace compute;

namespace {

/// One pass; each function takes its op's input and gives its result, `count_` samples each.
class Pass {
 public:
  Pass(const Graph& graph, const Doubles& parameters, Doubles& buffers, std::size_t count,
       Mode mode, std::uint64_t seed)
      : graph_(graph),
        parameters_(parameters),
        buffers_(buffers),
        count_(count),
        mode_(mode),
        seed_(seed) {}

  /// The last op's result; `input` are samples or tokens.
  Doubles run(const Doubles& input) {
    std::map<ValueId, Doubles> values{{kGraphInput, input}};
    for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
      const Op& op = graph_.ops[i];
      op_ = i;
      values[i] = std::visit(
          [&](const auto& kind) { return apply(op, kind, values.at(op.inputs[0])); }, op.kind);
      if (std::holds_alternative<Add>(op.kind)) {
        const Doubles& other = values.at(op.inputs[1]);
        for (std::size_t k = 0; k < other.size(); ++k) values[i][k] += other[k];
      }
    }
    return values.at(graph_.ops.size() - 1);
  }

 private:
  Doubles apply(const Op& op, const Conv2d& conv, const Doubles& x) const {
    const std::size_t inputs = op.in[0] / conv.groups;
    const std::size_t outputs = op.out[0] / conv.groups;
    const double* weight = tensor(conv.weight);
    Doubles y;
    for (std::size_t n = 0; n < count_; ++n) {
      for (std::size_t o = 0; o < op.out[0]; ++o) {
        const std::size_t first = o / outputs * inputs;  // input channel of the group
        for (std::size_t place = 0; place < op.out[1] * op.out[2]; ++place) {
          double sum = conv.bias == kNoTensor ? 0.0 : tensor(conv.bias)[o];
          for (std::size_t c = 0; c < inputs; ++c) {
            const double* image = &x[(n * op.in[0] + first + c) * op.in[1] * op.in[2]];
            const double* window = weight + (o * inputs + c) * conv.kernel * conv.kernel;
            sum += convolve(op, conv, image, window, place / op.out[2], place % op.out[2]);
          }
          y.push_back(sum);
        }
      }
    }
    return y;
  }

  static double convolve(const Op& op, const Conv2d& conv, const double* image,
                         const double* window, std::size_t i, std::size_t j) {
    double sum = 0;
    for (std::size_t u = 0; u < conv.kernel; ++u) {
      for (std::size_t v = 0; v < conv.kernel; ++v) {
        const std::size_t row = i * conv.stride + u * conv.dilation;
        const std::size_t column = j * conv.stride + v * conv.dilation;
        if (row < conv.padding || row >= op.in[1] + conv.padding) continue;
        if (column < conv.padding || column >= op.in[2] + conv.padding) continue;
        sum += window[u * conv.kernel + v] *
               image[(row - conv.padding) * op.in[2] + column - conv.padding];
      }
    }
    return sum;
  }

  Doubles apply(const Op&, const Linear& linear, const Doubles& x) const {
    const Shape& shape = graph_.tensors[linear.weight].shape;
    const double* weight = tensor(linear.weight);
    Doubles y;
    for (std::size_t row = 0; row < x.size(); row += shape[1]) {
      for (std::size_t o = 0; o < shape[0]; ++o) {
        double sum = linear.bias == kNoTensor ? 0.0 : tensor(linear.bias)[o];
        for (std::size_t i = 0; i < shape[1]; ++i) sum += weight[o * shape[1] + i] * x[row + i];
        y.push_back(sum);
      }
    }
    return y;
  }

  Doubles apply(const Op& op, const BatchNorm& norm, const Doubles& x) {
    const std::size_t channels = op.in[0];
    const std::size_t plane = elements(op.in) / channels;
    const double count = static_cast<double>(count_ * plane);
    Doubles y(x.size());
    for (std::size_t c = 0; c < channels; ++c) {
      const auto each = [&](auto&& body) {
        for (std::size_t n = 0; n < count_; ++n) {
          for (std::size_t i = 0; i < plane; ++i) body((n * channels + c) * plane + i);
        }
      };
      double& moving_mean = buffers_[graph_.buffers[norm.mean].offset + c];
      double& moving_variance = buffers_[graph_.buffers[norm.variance].offset + c];
      double mean = moving_mean;
      double variance = moving_variance;
      if (mode_ == Mode::training) {
        double sum = 0;
        double squares = 0;
        each([&](std::size_t k) { sum += x[k]; });
        mean = sum / count;
        each([&](std::size_t k) { squares += (x[k] - mean) * (x[k] - mean); });
        variance = squares / count;
        const double momentum = static_cast<double>(norm.momentum);
        moving_mean += momentum * (mean - moving_mean);
        moving_variance += momentum * (squares / (count - 1) - moving_variance);
      }
      const double scale =
          tensor(norm.weight)[c] / std::sqrt(variance + static_cast<double>(norm.epsilon));
      each([&](std::size_t k) { y[k] = (x[k] - mean) * scale + tensor(norm.bias)[c]; });
    }
    return y;
  }

  Doubles apply(const Op& op, const LayerNorm& norm, Doubles x) const {
    for_rows(op, x, [&](std::span<double> row) {
      double mean = 0;
      double variance = 0;
      for (const double value : row) mean += value / static_cast<double>(row.size());
      for (const double value : row) {
        variance += (value - mean) * (value - mean) / static_cast<double>(row.size());
      }
      const double scale = 1 / std::sqrt(variance + static_cast<double>(norm.epsilon));
      for (std::size_t i = 0; i < row.size(); ++i) {
        const double shift = norm.bias == kNoTensor ? 0.0 : tensor(norm.bias)[i];
        row[i] = (row[i] - mean) * scale * tensor(norm.weight)[i] + shift;
      }
    });
    return x;
  }

  Doubles apply(const Op& op, const RmsNorm& norm, Doubles x) const {
    for_rows(op, x, [&](std::span<double> row) {
      double squares = 0;
      for (const double value : row) squares += value * value / static_cast<double>(row.size());
      const double scale = 1 / std::sqrt(squares + static_cast<double>(norm.epsilon));
      for (std::size_t i = 0; i < row.size(); ++i) row[i] *= scale * tensor(norm.weight)[i];
    });
    return x;
  }

  Doubles apply(const Op& op, const Embedding& embedding, const Doubles& tokens) const {
    const std::size_t features = op.out[1];
    Doubles y;
    for (const double token : tokens) {
      const double* row = tensor(embedding.weight) + static_cast<std::size_t>(token) * features;
      y.insert(y.end(), row, row + features);
    }
    return y;
  }

  Doubles apply(const Op& op, const Positions& positions, Doubles x) const {
    const std::size_t size = elements(op.in);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] += tensor(positions.weight)[k % size];
    return x;
  }

  Doubles apply(const Op& op, const Attention& attention, Doubles x) const {
    const std::size_t positions = op.in[0];
    const std::size_t size = attention.head_size;
    const std::size_t features = op.in[1];
    const std::size_t keys = attention.heads * size;  // where they begin
    const std::size_t values = keys + attention.kv_heads * size;
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    Doubles y(count_ * elements(op.out));
    for (std::size_t row = 0; attention.rotary_base > 0 && row < count_ * positions; ++row) {
      for (std::size_t head = 0; head < values; head += size) {
        rotate({&x[row * features + head], size}, row % positions,
               static_cast<double>(attention.rotary_base));
      }
    }
    for (std::size_t n = 0; n < count_; ++n) {
      for (std::size_t h = 0; h < attention.heads; ++h) {
        const std::size_t group = h / (attention.heads / attention.kv_heads) * size;
        for (std::size_t t = 0; t < positions; ++t) {
          const double* query = &x[(n * positions + t) * features + h * size];
          double* out = &y[((n * positions + t) * attention.heads + h) * size];
          Doubles power;
          double sum = 0;
          for (std::size_t s = 0; s <= t; ++s) {
            const double* key = &x[(n * positions + s) * features + keys + group];
            double score = 0;
            for (std::size_t i = 0; i < size; ++i) score += query[i] * key[i];
            power.push_back(std::exp(score * scale));
            sum += power.back();
          }
          for (std::size_t s = 0; s <= t; ++s) {
            const double* value = &x[(n * positions + s) * features + values + group];
            for (std::size_t i = 0; i < size; ++i) out[i] += power[s] / sum * value[i];
          }
        }
      }
    }
    return y;
  }

  static void rotate(std::span<double> head, std::size_t position, double base) {
    const std::size_t half = head.size() / 2;
    for (std::size_t i = 0; i < half; ++i) {
      const double power = -2.0 * static_cast<double>(i) / static_cast<double>(head.size());
      const double angle = static_cast<double>(position) * std::pow(base, power);
      const double first = head[i];
      const double second = head[i + half];
      head[i] = first * std::cos(angle) - second * std::sin(angle);
      head[i + half] = second * std::cos(angle) + first * std::sin(angle);
    }
  }

  static double silu(double x) { return x / (1 + std::exp(-x)); }

  static double activate(ActivationKind kind, double x) {
    switch (kind) {
      case ActivationKind::relu:
        return std::max(x, 0.0);
      case ActivationKind::gelu:
        return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
      case ActivationKind::gelu_tanh:
        return 0.5 * x *
               (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
      case ActivationKind::silu:
        return silu(x);
    }
    return NAN;
  }

  Doubles apply(const Op&, const Activation& activation, Doubles x) const {
    for (double& value : x) value = activate(activation.kind, value);
    return x;
  }

  Doubles apply(const Op& op, const SwiGlu&, Doubles x) const {
    Doubles y;
    for_rows(op, x, [&](std::span<double> row) {
      const std::size_t half = row.size() / 2;
      for (std::size_t i = 0; i < half; ++i) y.push_back(silu(row[i]) * row[half + i]);
    });
    return y;
  }

  Doubles apply(const Op&, const Dropout& dropout, Doubles x) const {
    if (mode_ == Mode::evaluation) return x;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const bool dropped = dropout_bits(seed_, op_, k) < dropout_threshold(dropout.rate);
      x[k] = dropped ? 0.0 : x[k] / (1 - static_cast<double>(dropout.rate));
    }
    return x;
  }

  Doubles apply(const Op& op, const MaxPool2d& pool, const Doubles& x) const {
    return slide(op, pool.kernel, pool.stride, pool.padding, x,
                 [](const Doubles& window) { return *std::ranges::max_element(window); });
  }

  Doubles apply(const Op& op, const AveragePool2d& pool, const Doubles& x) const {
    return slide(op, pool.kernel, pool.stride, 0, x, mean);
  }

  Doubles apply(const Op& op, const GlobalAveragePool&, const Doubles& x) const {
    const std::size_t plane = std::size_t{op.in[1]} * op.in[2];
    Doubles y;
    for (auto at = x.begin(); at != x.end(); at += static_cast<std::ptrdiff_t>(plane)) {
      y.push_back(mean({at, at + static_cast<std::ptrdiff_t>(plane)}));
    }
    return y;
  }

  static double mean(const Doubles& window) {
    double sum = 0;
    for (const double value : window) sum += value;
    return sum / static_cast<double>(window.size());
  }

  /// `combine` of the elements of each window, without padding.
  Doubles slide(const Op& op, std::size_t kernel, std::size_t stride, std::size_t padding,
                const Doubles& x, auto combine) const {
    const auto [height, width] = std::pair{op.in[1], op.in[2]};
    Doubles y;
    for (std::size_t plane = 0; plane < count_ * op.in[0]; ++plane) {
      for (std::size_t i = 0; i < op.out[1] * stride; i += stride) {
        for (std::size_t j = 0; j < op.out[2] * stride; j += stride) {
          Doubles window;
          for (std::size_t row = i; row < i + kernel; ++row) {
            for (std::size_t column = j; column < j + kernel; ++column) {
              if (row < padding || row >= height + padding) continue;
              if (column < padding || column >= width + padding) continue;
              window.push_back(x[(plane * height + row - padding) * width + column - padding]);
            }
          }
          y.push_back(combine(window));
        }
      }
    }
    return y;
  }

  Doubles apply(const Op&, const Add&, const Doubles& x) const { return x; }
  Doubles apply(const Op&, const Flatten&, const Doubles& x) const { return x; }

  void for_rows(const Op& op, Doubles& x, auto body) const {
    const std::size_t features = op.in.back();
    for (std::size_t k = 0; k < x.size(); k += features) body(std::span(&x[k], features));
  }

  [[nodiscard]] const double* tensor(std::size_t index) const {
    return &parameters_[graph_.tensors[index].offset];
  }

  const Graph& graph_;
  const Doubles& parameters_;
  Doubles& buffers_;
  std::size_t count_;
  Mode mode_;
  std::uint64_t seed_;
  std::size_t op_ = 0;
};

/// Mean over the labels: with smoothing e, the target is 1 - e at the label plus e / classes at
/// every class. Only training smooths.
void cross_entropy(const Graph& graph, std::span<const std::int32_t> labels, Mode mode,
                   Reference& result) {
  const std::size_t classes = graph.classes;
  const double smoothing =
      mode == Mode::training ? static_cast<double>(graph.loss.label_smoothing) : 0.0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::span row(&result.outputs[i * classes], classes);
    const auto label = static_cast<std::size_t>(labels[i]);
    double sum = 0;
    for (const double output : row) sum += std::exp(output);
    double loss = 0;
    for (std::size_t j = 0; j < classes; ++j) {
      const double target =
          (j == label ? 1 - smoothing : 0.0) + smoothing / static_cast<double>(classes);
      loss += target * (std::log(sum) - row[j]);
    }
    result.loss += loss / static_cast<double>(labels.size());
    const auto largest = std::ranges::max_element(row) - row.begin();
    result.correct += static_cast<std::size_t>(largest) == label ? 1 : 0;
  }
}

void mean_squared(std::span<const float> targets, Reference& result) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const double difference = result.outputs[i] - static_cast<double>(targets[i]);
    result.loss += difference * difference / static_cast<double>(targets.size());
  }
}

}  // namespace

Reference run_reference(const Graph& graph, const Doubles& parameters, const Doubles& buffers,
                        const Batch& batch, std::size_t count, Mode mode, std::uint64_t seed) {
  Reference result;
  result.buffers = buffers;
  Doubles input(batch.samples.begin(), batch.samples.end());
  if (graph.vocabulary > 0) input.assign(batch.tokens.begin(), batch.tokens.end());
  result.outputs = Pass(graph, parameters, result.buffers, count, mode, seed).run(input);
  if (graph.loss.kind == LossKind::cross_entropy) {
    cross_entropy(graph, batch.labels, mode, result);
  } else {
    mean_squared(batch.targets, result);
  }
  return result;
}

}  // namespace starling::conformance
