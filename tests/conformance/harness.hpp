// Common parts of the checks: running a program, and comparing its results.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compute/program.hpp"
#include "reference.hpp"
#include "samples.hpp"

namespace starling::conformance {

/// The CUDA backend's plans and kernels on the processor.
inline constexpr char kHostDevice[] = "cuda_plan_on_cpu";
/// The suffix of a device's name for Precision::bfloat16: "cpu_bf16".
inline constexpr std::string_view kRounded = "_bf16";
[[nodiscard]] bool rounds(const std::string& device);

/// compute::open_backend, or the one of tests/cuda_on_cpu; a device that is to round and does not
/// is an error.
[[nodiscard]] base::Result<std::unique_ptr<compute::Backend>> open(const std::string& device);

[[nodiscard]] std::unique_ptr<compute::Program> compile(const std::string& device,
                                                        const compute::Graph& graph,
                                                        std::uint32_t batch,
                                                        std::uint32_t threads = 1);

/// The results of a training step.
struct Step {
  float loss = 0;
  std::vector<float> gradient;
  std::vector<float> buffers;
};

[[nodiscard]] Step train(compute::Program& program, const State& state, const compute::Batch& batch,
                         std::uint64_t seed);

/// As in evaluation.
[[nodiscard]] std::vector<float> outputs(compute::Program& program, const State& state,
                                         const compute::Batch& batch);

[[nodiscard]] compute::Evaluation evaluate(compute::Program& program, const State& state,
                                           const compute::Batch& batch);
/// Of each label.
[[nodiscard]] double mean_loss(const compute::Evaluation& evaluation);

[[nodiscard]] bool same_bits(std::span<const float> a, std::span<const float> b);
[[nodiscard]] bool same_bits(const Step& a, const Step& b);

[[nodiscard]] Doubles doubles(std::span<const float> values);
/// The largest absolute value; 0 of none.
[[nodiscard]] double largest(std::span<const double> values);

/// The least scale of a tensor of a gradient, of the largest value of all its tensors: a bias
/// before a batch norm, or of attention's keys, has a gradient of zero only since terms cancel.
inline constexpr double kShareOfAll = 0.1;

/// Each value is the expected one, up to `tolerance` of `scale`.
void check_close(const Doubles& values, const Doubles& expected, double scale,
                 const std::string& what, double tolerance);
/// The same where the scale is the largest expected value.
void check_close(std::span<const float> values, std::span<const float> expected,
                 const std::string& what, double tolerance);
void check_loss(double loss, double expected, const std::string& what, double tolerance);
/// Loss, buffers and gradient, tensor by tensor.
void check_step(const compute::Graph& graph, const Step& step, const Step& expected,
                double tolerance);

}  // namespace starling::conformance
