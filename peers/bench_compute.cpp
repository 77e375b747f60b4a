// `starling bench compute`: how fast presets train. On the processor, compared with how fast
// matrices are multiplied; on a GPU, where replicas are in its memory, without a reference:
// tools/bench/compute --gpu compares it with PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/assert.hpp"
#include "base/rng.hpp"
#include "commands.hpp"
#include "complain.hpp"
#include "compute/cpu/gemm.hpp"
#include "compute/cpu/peak.hpp"
#include "compute/program.hpp"
#include "model/model.hpp"
#include "train/trainer.hpp"

namespace starling::peers {

namespace {

using Clock = std::chrono::steady_clock;

/// A figure is the best of this many stretches: other load on the machine only slows a stretch.
constexpr int kStretches = 5;

/// A preset with the data that it is measured on.
struct Subject {
  const char* name;
  model::Spec spec;
  model::InputOutput in_out;
  std::uint32_t batch;
  train::Optimizer optimizer;
};

std::vector<Subject> subjects(bool large) {
  using model::Preset;
  using train::Optimizer;
  const auto preset = [](Preset chosen) {
    model::Spec spec;
    spec.preset = chosen;
    return spec;
  };
  std::vector<Subject> all{
      {"cnn", preset(Preset::cnn), {.input = {1, 28, 28}, .outputs = 10}, 64, Optimizer::sgd},
      {"mlp", preset(Preset::mlp), {.input = {784}, .outputs = 10}, 64, Optimizer::sgd},
      {"resnet18",
       preset(Preset::resnet18),
       {.input = {3, 32, 32}, .outputs = 10},
       32,
       Optimizer::sgd},
      {"gpt",
       preset(Preset::gpt),
       {.input = {}, .vocabulary = 256, .outputs = 256},
       8,
       Optimizer::adamw}};
  if (!large) return all;
  all.push_back({"resnet50",
                 preset(Preset::resnet50),
                 {.input = {3, 224, 224}, .outputs = 1000},
                 128,
                 Optimizer::sgd});
  model::Spec gpt2 = preset(Preset::gpt);  // of 124M parameters
  gpt2.sizes.width = 768;
  gpt2.sizes.depth = 12;
  gpt2.sizes.heads = 12;
  gpt2.sizes.context = 1024;
  all.push_back(
      {"gpt2", gpt2, {.input = {}, .vocabulary = 50257, .outputs = 50257}, 16, Optimizer::adamw});
  return all;
}

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Calls `work` for about `seconds` in kStretches stretches; returns the best stretch's calls a
/// second.
template <class Work>
double best_rate(double seconds, Work&& work) {
  double best = 0;
  for (int stretch = 0; stretch < kStretches; ++stretch) {
    const auto start = Clock::now();
    int calls = 0;
    do {
      work();
      ++calls;
    } while (since(start) < seconds / kStretches);
    best = std::max(best, calls / since(start));
  }
  return best;
}

struct ComputeFigure {
  std::string name;
  double value;
  const char* unit;
  double reference;  ///< in the same unit; 0: none
};

void print(const ComputeFigure& figure, bool json) {
  if (figure.reference == 0 && json) {
    fmt::print("{{\"name\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\"}}\n", figure.name,
               figure.value, figure.unit);
    return;
  }
  if (figure.reference == 0) {
    fmt::print("{:<22} {:>12.1f} {:<10}\n", figure.name, figure.value, figure.unit);
    return;
  }
  const double ratio = figure.value / figure.reference;
  if (json) {
    fmt::print(
        "{{\"name\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\", \"reference\": {:.6g}, "
        "\"ratio\": {:.4g}}}\n",
        figure.name, figure.value, figure.unit, figure.reference, ratio);
  } else {
    fmt::print("{:<22} {:>12.1f} {:<10} {:>12.1f} {:>7.3f}\n", figure.name, figure.value,
               figure.unit, figure.reference, ratio);
  }
  std::fflush(stdout);
}

/// A batch of random samples, tokens and labels.
struct RandomBatch {
  std::vector<float> samples;
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> labels;

  RandomBatch(const compute::Graph& graph, std::uint32_t count) {
    base::Rng rng(1);
    const std::size_t inputs = count * compute::elements(graph.input);
    if (graph.vocabulary > 0) {
      tokens.resize(inputs);
      for (auto& token : tokens) token = static_cast<std::int32_t>(rng.below(graph.vocabulary));
    } else {
      samples.resize(inputs);
      for (float& value : samples) value = static_cast<float>(rng.uniform());
    }
    labels.resize(std::size_t{count} * graph.positions);
    for (auto& label : labels) label = static_cast<std::int32_t>(rng.below(graph.classes));
  }

  [[nodiscard]] compute::Batch view() const {
    return {.samples = samples, .tokens = tokens, .labels = labels, .targets = {}};
  }
};

base::Status measure(const Subject& subject, double peak_gflops, const BenchOptions& options) {
  const bool on_gpu = options.device != "cpu";
  auto model = model::build(subject.spec, subject.in_out);
  if (!model) return base::fail(model.error());
  const compute::Graph& graph = model->graph;
  auto trainer = train::Trainer::create(
      graph,
      {.optimizer = subject.optimizer,
       .batch = subject.batch,
       .device = options.device,
       .threads = options.threads,
       .precision = options.bfloat16 ? compute::Precision::bfloat16 : compute::Precision::float32});
  if (!trainer) return base::fail(trainer.error());

  std::vector<float> parameters = model->initial_parameters(1);
  std::vector<float> buffers = model->initial_buffers();
  const RandomBatch random(graph, subject.batch);
  const compute::Batch batch = random.view();
  base::Status status;
  if (on_gpu) {
    const auto memory = trainer->move_to_device(delta::MirrorType::float32);
    if (!memory) return base::fail(memory.error());
    ASSERT(*memory != nullptr);
    status = (*memory)->write(parameters);
  }
  std::uint64_t seed = 0;
  const double steps = best_rate(options.seconds, [&] {
    const std::span<float> here = on_gpu ? std::span<float>{} : parameters;
    const auto loss = trainer->step(here, buffers, batch, 1e-4F, ++seed, &batch);
    if (!loss) status = base::fail(loss.error());
  });
  const auto read = [&](std::span<float> x) { std::ranges::copy(parameters, x.begin()); };
  if (status) status = trainer->snapshot(parameters.size(), read);
  const double sweeps = best_rate(options.seconds, [&] {
    const auto sums = trainer->evaluate(buffers, batch);
    if (!sums) status = base::fail(sums.error());
  });
  if (!status) return status;

  const double flops = compute::training_flops(graph);
  const std::string name = subject.name;
  const double labels = graph.positions;
  const char* const unit = graph.vocabulary > 0 ? "tokens/s" : "samples/s";
  print({name + "_train", steps * subject.batch * labels, unit, peak_gflops * 1e9 / flops * labels},
        options.json);
  print({name + "_train_flops", steps * subject.batch * flops * 1e-9, "GFLOP/s", peak_gflops},
        options.json);
  print({name + "_evaluate", sweeps * subject.batch * labels, unit,
         peak_gflops * 1e9 / compute::forward_flops(graph) * labels},
        options.json);
  return {};
}

}  // namespace

int bench_compute(const BenchOptions& asked) {
  const auto device = compute::open_device(asked.device);
  if (!device) return complain("bench compute", device.error().in("--device " + asked.device));
  BenchOptions options = asked;
  options.device = device->name;  // the choice for "auto"
  const bool on_gpu = options.device != "cpu";
  if (options.bfloat16 && !device->backend->has_bfloat16()) {
    return complain("bench compute",
                    {base::ErrorCode::device, "this processor gains nothing from bf16"});
  }
  // The reference multiplies in float32, on processors.
  const bool compares = !on_gpu && !options.bfloat16;
  const double peak = compares ? compute::cpu::peak_gflops(options.seconds, options.threads) : 0;
  if (!options.json && !compares) fmt::print("{} ({})\n\n", device->name, device->about);
  if (!options.json && compares) {
    fmt::print(
        "{} thread{}; reference: the rate at which oneDNN multiplies two matrices "
        "of 1024 x 1024, {:.1f} GFLOP/s\n\n{:<22} {:>12} {:<10} {:>12} {:>7}\n",
        options.threads, options.threads == 1 ? "" : "s", peak, "figure", "value", "unit",
        "reference", "ratio");
  }
  bool known = options.only.empty();
  for (const Subject& subject : subjects(on_gpu)) {
    if (!options.only.empty() && options.only != subject.name) continue;
    known = true;
    if (auto status = measure(subject, peak, options); !status) {
      return complain("bench compute", status.error());
    }
  }
  if (known) return 0;
  std::string names;
  for (const Subject& subject : subjects(on_gpu)) names += fmt::format(" {}", subject.name);
  return complain("bench compute",
                  {base::ErrorCode::usage,
                   fmt::format("there is no model '{}'; there are:{}", options.only, names)});
}

}  // namespace starling::peers
