// A program that embeds a peer, with only the headers of include/: it fits a plane to samples of
// one, so that the right result is known.
//
//     embedded_peer RUN.toml DIR JOIN DATASET [STEP: throws there]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "starling/peer.hpp"

namespace {

constexpr std::uint32_t kSamples = 20'000;
constexpr std::size_t kInputs = 256;
constexpr float kNoise = 0.1F;

struct Sample {
  std::vector<float> inputs;
  float target = 0;
};

/// Weights of the plane.
float truth(std::size_t input) { return std::sin(static_cast<float>(input)); }

Sample sample(std::uint32_t index) {
  std::minstd_rand random(index + 1);
  std::normal_distribution<float> normal;
  Sample made;
  for (std::size_t i = 0; i < kInputs; ++i) {
    made.inputs.push_back(normal(random));
    made.target += truth(i) * made.inputs.back();
  }
  made.target += kNoise * normal(random);
  return made;
}

/// Half the squared error, and its gradient added to `gradient`.
float add_gradient(const Sample& sample, std::span<const float> weights,
                   std::span<float> gradient) {
  float error = -sample.target;
  for (std::size_t i = 0; i < kInputs; ++i) error += weights[i] * sample.inputs[i];
  for (std::size_t i = 0; i < kInputs; ++i) gradient[i] += error * sample.inputs[i];
  return error * error / 2;
}

/// One step of gradient descent; returns the mean loss before it. `counter`: a buffer that becomes
/// the mean of all targets.
float train(const starling::Step& step, std::span<float> weights, std::span<float> counter) {
  std::vector<float> gradient(kInputs);
  float loss = 0;
  const auto count = static_cast<float>(step.samples.size());
  for (const std::uint32_t index : step.samples) {
    const Sample one = sample(index);
    loss += add_gradient(one, weights, gradient) / count;
    counter[0] += 0.001F * (one.target - counter[0]);
  }
  for (std::size_t i = 0; i < kInputs; ++i) {
    weights[i] -= step.learning_rate * gradient[i] / count;
  }
  return loss;
}

starling::Evaluation evaluate(std::span<const float> weights, std::span<const float>,
                              std::uint32_t samples) {
  const std::uint32_t count = samples == 0 ? 2'000 : samples;
  starling::Evaluation made;
  std::vector<float> gradient(kInputs);
  for (std::uint32_t i = 0; i < count; ++i) {
    made.loss += static_cast<double>(add_gradient(sample(kSamples + i), weights, gradient));
  }
  made.loss /= count;
  return made;
}

int run(std::span<char*> arguments) {
  const std::string join = arguments[3];
  const std::uint64_t fails_at =
      arguments.size() > 5 ? std::strtoull(arguments[5], nullptr, 10) : 0;
  starling::PeerOptions options{
      .run_file = arguments[1], .listen = "127.0.0.1:0", .dir = arguments[2]};
  options.name = options.dir.substr(options.dir.rfind('/') + 1);
  if (!join.empty()) options.join.push_back(join);
  options.parameters.assign(kInputs, 0.0F);
  options.tensors = {{"plane.weight", {1, kInputs}}};
  options.buffers = {{{"plane.mean", {1}}, {0.0F}}};
  options.samples = kSamples;
  options.dataset = arguments[4];
  options.evaluate = evaluate;

  starling::Peer peer(options);
  while (const auto step = peer.next_step()) {
    if (step->number == fails_at) throw std::runtime_error("there is no such sample");
    peer.step_done(train(*step, peer.parameters(), peer.buffers()));
  }
  std::vector<float> weights(kInputs);
  peer.read(weights);
  double away = 0;
  for (std::size_t i = 0; i < kInputs; ++i) {
    away += std::pow(static_cast<double>(weights[i] - truth(i)), 2);
  }
  const starling::Summary summary = peer.summary();
  std::printf("%s %s %llu %.4f\n", summary.left ? "left" : "done",
              peer.resumed() ? "resumed" : "fresh", static_cast<unsigned long long>(summary.steps),
              std::sqrt(away));
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 5) return 2;
  try {
    return run({arguments, static_cast<std::size_t>(count)});
  } catch (const starling::Error& error) {
    std::fprintf(stderr, "embedded_peer: %s\n", error.what());
    return 10 + static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "embedded_peer: %s\n", error.what());
    return 1;
  }
}
