// starling eval: a trained model on the whole held-out set.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "complain.hpp"
#include "compute/program.hpp"
#include "compute/resident.hpp"
#include "report/bytes_json.hpp"
#include "report/format.hpp"
#include "report/language.hpp"
#include "runtime/open_checkpoint.hpp"
#include "train/trainer.hpp"

namespace starling::peers {
namespace {

using base::ErrorCode;
using base::fail;
using Json = nlohmann::ordered_json;

/// Figures over the whole test set.
struct Figures {
  std::optional<double> accuracy;  ///< if samples have labels
  double loss = 0;
  std::optional<report::LanguageQuality> language;
};

base::Result<Figures> evaluate(const runtime::OpenedModel& opened) {
  const train::Config& config = opened.run_file.train;
  auto backend = compute::open_backend(config.device);
  if (!backend) return fail(backend.error());
  const compute::CompileOptions compiled = train::compile_options(config);
  auto program = (*backend)->compile(opened.problem.model.graph, compiled);
  if (!program) return fail(program.error());
  const auto resident =
      runtime::hold_weights(**program, opened.problem.model.graph, opened.weights.parameters);
  if (!resident) return fail(resident.error());
  const data::SampleSet& test = *opened.problem.dataset.test;
  data::BatchBuffer batch;
  compute::Evaluation sum;
  for (std::uint32_t done = 0; done < test.size();) {
    const std::uint32_t count = std::min(compiled.batch, test.size() - done);
    test.fill_range(done, count, batch);
    const auto part =
        *resident != nullptr
            ? (*resident)->evaluate(opened.weights.buffers, batch.view())
            : (*program)->evaluate(opened.weights.parameters, opened.weights.buffers, batch.view());
    if (!part) return fail(part.error());
    sum += *part;
    done += count;
  }
  const auto count = static_cast<double>(sum.count);
  Figures figures{.accuracy = {}, .loss = sum.loss_sum / count, .language = {}};
  if (!std::isfinite(figures.loss)) {
    return fail(ErrorCode::diverged,
                "{}: the loss on the test set is {}: weights, or values of samples, are too large",
                opened.found.path, figures.loss);
  }
  if (test.format().classes != 0) figures.accuracy = static_cast<double>(sum.correct) / count;
  figures.language = report::language_quality(figures.loss, opened.problem.dataset.bytes_per_label);
  return figures;
}

void print_text(const runtime::OpenedModel& opened, const Figures& figures) {
  const auto line = [](const char* name, const std::string& value) {
    fmt::print("{:<12} {}\n", name, value);
  };
  line("weights", opened.found.path);
  if (const auto& state = opened.found.state) {
    line("run", fmt::format("{} ({})", opened.run_file.run.name, state->run.hex().substr(0, 8)));
    line("trained", fmt::format("{} samples by this peer, {} of the swarm's run",
                                report::format_count(state->samples),
                                report::format_percent(state->progress, 1)));
  }
  line("test set",
       fmt::format("{} samples of {}", report::format_count(opened.problem.dataset.test->size()),
                   opened.run_file.data.source));
  if (figures.accuracy) line("accuracy", report::format_percent(*figures.accuracy, 2));
  line("loss", fmt::format("{:.4f}{}", figures.loss, figures.accuracy ? " nats" : ""));
  if (figures.language) {
    line("perplexity", fmt::format("{:.2f}", figures.language->perplexity));
    line("bits a byte", fmt::format("{:.4f}", figures.language->bits_per_byte));
  }
}

void print_json(const runtime::OpenedModel& opened, const Figures& figures) {
  using report::number_json;
  const auto& language = figures.language;
  const auto& state = opened.found.state;
  const Json out{{"weights", opened.found.path},
                 {"run", opened.run_file.run.name},
                 {"run_id", state ? Json(state->run.hex()) : Json()},
                 {"samples", state ? Json(state->samples) : Json()},
                 {"progress", state ? Json(state->progress) : Json()},
                 {"test_samples", opened.problem.dataset.test->size()},
                 {"accuracy", number_json(figures.accuracy)},
                 {"loss", number_json(figures.loss)},
                 {"perplexity", language ? number_json(language->perplexity) : Json()},
                 {"bits_per_byte", language ? number_json(language->bits_per_byte) : Json()}};
  fmt::print("{}\n", out.dump(2, ' ', false, Json::error_handler_t::replace));
}

base::Status eval(const EvalOptions& options) {
  const auto opened = runtime::open_model(options.checkpoint, tell_of_long_read);
  if (!opened) return fail(opened.error());
  for (const std::string& note : opened->found.notes) {
    say("starling eval: {}\n", note);
  }
  const auto figures = evaluate(*opened);
  if (!figures) return fail(figures.error());
  if (options.json) {
    print_json(*opened, *figures);
  } else {
    print_text(*opened, *figures);
  }
  return {};
}

}  // namespace

int run_eval(const EvalOptions& options) {
  const auto evaluated = eval(options);
  if (evaluated) return 0;
  return complain("eval", evaluated.error());
}

}  // namespace starling::peers
