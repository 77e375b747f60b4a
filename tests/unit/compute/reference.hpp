// A plain network in double precision, straight from the definitions: what backends must agree
// with.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>
#include <vector>

#include "compute/batch.hpp"
#include "compute/graph.hpp"

namespace starling::compute::testing {

using Doubles = std::vector<double>;

inline Doubles conv2d(const Graph& graph, const Op& op, const Conv2d& conv, const Doubles& p,
                      const Doubles& x) {
  const auto [channels, height, width] = std::tuple{op.in[0], op.in[1], op.in[2]};
  const std::size_t weight = graph.tensors[conv.weight].offset;
  const std::size_t bias = graph.tensors[conv.bias].offset;
  Doubles y;
  for (std::size_t o = 0; o < op.out[0]; ++o) {
    for (std::size_t i = 0; i < op.out[1]; ++i) {
      for (std::size_t j = 0; j < op.out[2]; ++j) {
        double sum = p[bias + o];
        for (std::size_t c = 0; c < channels; ++c) {
          for (std::size_t u = 0; u < conv.kernel; ++u) {
            for (std::size_t v = 0; v < conv.kernel; ++v) {
              const std::size_t row = i * conv.stride + u;
              const std::size_t column = j * conv.stride + v;
              if (row < conv.padding || row >= height + conv.padding) continue;
              if (column < conv.padding || column >= width + conv.padding) continue;
              const std::size_t w = ((o * channels + c) * conv.kernel + u) * conv.kernel + v;
              sum += p[weight + w] *
                     x[(c * height + row - conv.padding) * width + column - conv.padding];
            }
          }
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

inline Doubles linear(const Graph& graph, const Linear& layer, const Doubles& p, const Doubles& x) {
  const Tensor& weight = graph.tensors[layer.weight];
  Doubles y;
  for (std::size_t o = 0; o < weight.shape[0]; ++o) {
    double sum = p[graph.tensors[layer.bias].offset + o];
    for (std::size_t i = 0; i < x.size(); ++i) sum += p[weight.offset + o * x.size() + i] * x[i];
    y.push_back(sum);
  }
  return y;
}

inline Doubles max_pool2d(const Op& op, const MaxPool2d& pool, const Doubles& x) {
  Doubles y;
  for (std::size_t c = 0; c < op.out[0]; ++c) {
    for (std::size_t i = 0; i < op.out[1]; ++i) {
      for (std::size_t j = 0; j < op.out[2]; ++j) {
        double largest = -INFINITY;
        for (std::size_t u = 0; u < pool.kernel; ++u) {
          for (std::size_t v = 0; v < pool.kernel; ++v) {
            const std::size_t row = i * pool.stride + u;
            largest = std::max(largest, x[(c * op.in[1] + row) * op.in[2] + j * pool.stride + v]);
          }
        }
        y.push_back(largest);
      }
    }
  }
  return y;
}

/// Softmax cross-entropy of one sample, nats.
inline double sample_loss(const Graph& graph, const Doubles& parameters, Doubles x,
                          std::int32_t label) {
  for (const Op& op : graph.ops) {
    if (const auto* conv = std::get_if<Conv2d>(&op.kind)) {
      x = conv2d(graph, op, *conv, parameters, x);
    } else if (const auto* layer = std::get_if<Linear>(&op.kind)) {
      x = linear(graph, *layer, parameters, x);
    } else if (const auto* pool = std::get_if<MaxPool2d>(&op.kind)) {
      x = max_pool2d(op, *pool, x);
    } else {
      for (double& value : x) value = std::max(value, 0.0);
    }
  }
  double sum = 0;
  for (const double value : x) sum += std::exp(value);
  return std::log(sum) - x[static_cast<std::size_t>(label)];
}

/// Mean loss of a batch.
inline double mean_loss(const Graph& graph, const Doubles& parameters, const Batch& batch) {
  const std::size_t size = elements(graph.input);
  double sum = 0;
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    const auto sample = batch.samples.subspan(i * size, size);
    sum += sample_loss(graph, parameters, Doubles(sample.begin(), sample.end()), batch.labels[i]);
  }
  return sum / static_cast<double>(batch.labels.size());
}

}  // namespace starling::compute::testing
