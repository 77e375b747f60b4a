// `starling bench compute`: how fast one thread trains, against how fast it multiplies matrices.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/rng.hpp"
#include "commands.hpp"
#include "compute/cpu/peak.hpp"
#include "model/model.hpp"
#include "train/trainer.hpp"

namespace starling::peers {

namespace {

using model::LayerKind;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kBatch = 64;
constexpr std::uint32_t kClasses = 10;
/// A figure is the best of this many stretches: what else runs on the machine only slows it.
constexpr int kStretches = 5;

struct Subject {
  const char* name;
  model::Spec spec;
};

std::vector<Subject> subjects() {
  return {{"cnn",
           {{1, 28, 28},
            {{.kind = LayerKind::conv2d, .out = 32, .kernel = 3},
             {.kind = LayerKind::relu},
             {.kind = LayerKind::conv2d, .out = 64, .kernel = 3},
             {.kind = LayerKind::relu},
             {.kind = LayerKind::max_pool2d, .kernel = 2},
             {.kind = LayerKind::linear, .out = 128},
             {.kind = LayerKind::relu},
             {.kind = LayerKind::linear, .out = kClasses}}}},
          {"mlp",
           {{784},
            {{.kind = LayerKind::linear, .out = 256},
             {.kind = LayerKind::relu},
             {.kind = LayerKind::linear, .out = kClasses}}}}};
}

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Calls `work` for about `seconds` in kStretches stretches; the best stretch's calls a second.
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
  double reference;  ///< in the same unit
};

void print(const ComputeFigure& figure, bool json) {
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

base::Status measure(const Subject& subject, double peak_gflops, const BenchOptions& options) {
  auto model = model::build(subject.spec, kClasses);
  if (!model) return base::fail(model.error());
  auto trainer = train::Trainer::create(model->graph, {.batch = kBatch, .threads = 1});
  if (!trainer) return base::fail(trainer.error());

  base::Rng rng(1);
  std::vector<float> parameters = model->initial_parameters(1);
  std::vector<float> samples(kBatch * compute::elements(model->graph.input));
  std::vector<std::int32_t> labels(kBatch);
  for (float& value : samples) value = static_cast<float>(rng.uniform());
  for (auto& label : labels) label = static_cast<std::int32_t>(rng.below(kClasses));
  const compute::Batch batch{.samples = samples, .tokens = {}, .labels = labels, .targets = {}};

  base::Status status;
  const double steps = best_rate(options.seconds, [&] {
    if (auto loss = trainer->step(parameters, {}, batch, 1e-3F, 0); !loss)
      status = base::fail(loss.error());
  });
  const double sweeps = best_rate(options.seconds, [&] {
    if (auto sums = trainer->evaluate(parameters, {}, batch); !sums)
      status = base::fail(sums.error());
  });
  if (!status) return status;

  const double flops = compute::training_flops(model->graph);
  const std::string name = subject.name;
  print({name + "_train", steps * kBatch, "samples/s", peak_gflops * 1e9 / flops}, options.json);
  print({name + "_train_flops", steps * kBatch * flops * 1e-9, "GFLOP/s", peak_gflops},
        options.json);
  print({name + "_evaluate", sweeps * kBatch, "samples/s",
         peak_gflops * 1e9 / compute::forward_flops(model->graph)},
        options.json);
  return {};
}

}  // namespace

int bench_compute(const BenchOptions& options) {
  const double peak = compute::cpu::peak_gflops(options.seconds, 1);
  if (!options.json) {
    fmt::print(
        "one thread, batch {}; reference: the rate at which oneDNN multiplies two matrices "
        "of 1024 x 1024, {:.1f} GFLOP/s\n\n{:<22} {:>12} {:<10} {:>12} {:>7}\n",
        kBatch, peak, "figure", "value", "unit", "reference", "ratio");
  }
  for (const Subject& subject : subjects()) {
    if (auto status = measure(subject, peak, options); !status) {
      fmt::print(stderr, "starling: bench compute: {}\n", status.error().text);
      return base::exit_code(status.error().code);
    }
  }
  return 0;
}

}  // namespace starling::peers
