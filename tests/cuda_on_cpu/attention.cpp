#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cuda/kernels/shared.hpp"

namespace starling::cuda_on_cpu {

using namespace compute::cuda;

namespace {

float as_rounded(float value) { return widened(rounded(value)); }

/// One head of one sample.
class Head {
 public:
  Head(const FusedAttention& attention, std::size_t sample, std::size_t head)
      : a_(attention), s_(attention.sizes), sample_(sample), head_(head) {}

  void forward() const {
    for (std::size_t q = 0; q < s_.positions; ++q) {
      std::vector<float> weights = scores(q);
      const float log_sum = log_sum_of(weights);
      log_sum_at(q) = log_sum;
      for (float& weight : weights) weight = as_rounded(std::exp(weight - log_sum));
      for (std::size_t i = 0; i < s_.size; ++i) {
        float sum = 0;
        for (std::size_t k = 0; k <= q; ++k) sum += weights[k] * widened(a_.x[value(k) + i]);
        a_.y[result(q) + i] = rounded(sum);
      }
    }
  }

  /// Adds to the gradients of all of the sample's queries, keys and values.
  void backward(std::vector<float>& gradient) const {
    const std::size_t first = sample_ * s_.positions * s_.in();
    for (std::size_t q = 0; q < s_.positions; ++q) {
      const std::vector<float> scores_of_q = scores(q);
      const float before = product(a_.dy + result(q), a_.y + result(q));
      for (std::size_t k = 0; k <= q; ++k) {
        const float weight = std::exp(scores_of_q[k] - log_sum_at(q));
        const float above = product(a_.dy + result(q), a_.x + value(k));
        const float dscore = as_rounded(weight * (above - before) * s_.scale());
        for (std::size_t i = 0; i < s_.size; ++i) {
          gradient[query(q) + i - first] += dscore * widened(a_.x[key(k) + i]);
          gradient[key(k) + i - first] += dscore * widened(a_.x[query(q) + i]);
          gradient[value(k) + i - first] += as_rounded(weight) * widened(a_.dy[result(q) + i]);
        }
      }
    }
  }

 private:
  [[nodiscard]] std::size_t in_x(std::size_t position, std::size_t head) const {
    return (sample_ * s_.positions + position) * s_.in() + head * s_.size;
  }
  [[nodiscard]] std::size_t shared() const { return head_ / (s_.heads / s_.kv_heads); }
  [[nodiscard]] std::size_t query(std::size_t position) const { return in_x(position, head_); }
  [[nodiscard]] std::size_t key(std::size_t position) const {
    return in_x(position, s_.heads + shared());
  }
  [[nodiscard]] std::size_t value(std::size_t position) const {
    return in_x(position, s_.heads + s_.kv_heads + shared());
  }
  [[nodiscard]] std::size_t result(std::size_t position) const {
    return (sample_ * s_.positions + position) * s_.out() + head_ * s_.size;
  }
  [[nodiscard]] float& log_sum_at(std::size_t position) const {
    return a_.log_sums[(sample_ * s_.heads + head_) * s_.positions + position];
  }

  [[nodiscard]] float product(const std::uint16_t* left, const std::uint16_t* right) const {
    float sum = 0;
    for (std::size_t i = 0; i < s_.size; ++i) sum += widened(left[i]) * widened(right[i]);
    return sum;
  }
  /// Of the keys that a query sees.
  [[nodiscard]] std::vector<float> scores(std::size_t q) const {
    std::vector<float> made;
    for (std::size_t k = 0; k <= q; ++k) {
      made.push_back(s_.scale() * product(a_.x + query(q), a_.x + key(k)));
    }
    return made;
  }
  static float log_sum_of(const std::vector<float>& scores) {
    float most = scores.front();
    for (const float score : scores) most = std::max(most, score);
    float sum = 0;
    for (const float score : scores) sum += std::exp(score - most);
    return most + std::log(sum);
  }

  const FusedAttention& a_;
  const AttentionSizes& s_;
  const std::size_t sample_;
  const std::size_t head_;
};

}  // namespace

void attend(const FusedAttention& attention) {
  const AttentionSizes& sizes = attention.sizes;
  for (std::size_t sample = 0; sample < sizes.samples; ++sample) {
    std::vector<float> gradient(sizes.positions * sizes.in());
    for (std::size_t head = 0; head < sizes.heads; ++head) {
      const Head one(attention, sample, head);
      if (attention.kind == FusedAttention::Kind::forward) {
        one.forward();
      } else {
        one.backward(gradient);
      }
    }
    if (attention.kind == FusedAttention::Kind::forward) continue;
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      attention.dx[sample * gradient.size() + i] = rounded(gradient[i]);
    }
  }
}

}  // namespace starling::cuda_on_cpu
