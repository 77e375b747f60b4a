// starling sample: text from a language model, a token at a time.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "commands.hpp"
#include "complain.hpp"
#include "compute/program.hpp"
#include "compute/resident.hpp"
#include "data/vocabulary.hpp"
#include "model/model.hpp"
#include "model/sampling.hpp"
#include "report/utf8.hpp"
#include "runtime/open_checkpoint.hpp"
#include "train/weights.hpp"

namespace starling::peers {
namespace {

using base::ErrorCode;
using base::fail;

/// The text before a sample without a prompt.
constexpr std::string_view kBeginning = "\n";

/// A language model that continues a text.
class Speaker {
 public:
  [[nodiscard]] static base::Result<Speaker> open(const runtime::CheckpointOptions& options);

  /// The next piece of the text; it becomes part of the text.
  [[nodiscard]] base::Result<std::string_view> next(model::TokenSampler& sampler);
  void hear(std::string_view text);

 private:
  Speaker(data::Vocabulary vocabulary, const model::Model& model, train::Weights weights,
          std::unique_ptr<compute::Program> program, compute::Resident* resident)
      : vocabulary_(std::move(vocabulary)),
        weights_(std::move(weights)),
        program_(std::move(program)),
        resident_(resident),
        context_(model.graph.positions),
        classes_(model.graph.classes) {}

  void append(std::int32_t token);

  data::Vocabulary vocabulary_;
  train::Weights weights_;
  std::unique_ptr<compute::Program> program_;
  compute::Resident* resident_;  ///< holds the parameters; null: they come with each call
  std::size_t context_;          ///< tokens that it sees at once
  std::size_t classes_;
  std::vector<std::int32_t> text_;  ///< the last `context_` tokens at most
};

base::Result<Speaker> Speaker::open(const runtime::CheckpointOptions& options) {
  auto found = runtime::find_weights(options);
  if (!found) return fail(found.error());
  const auto run_file = runtime::read_run_file_of(*found, options);
  for (const std::string& note : found->notes) say("starling sample: {}\n", note);
  if (!run_file) return fail(run_file.error());
  const std::uint32_t context = model::context_of(run_file->model);
  if (context == 0 || run_file->model.loss != compute::LossKind::cross_entropy) {
    return fail(ErrorCode::usage,
                "{}: only language models write text, and its model is another kind",
                found->run_file);
  }
  auto vocabulary = data::load_vocabulary(run_file->data);
  if (!vocabulary) return fail(vocabulary.error());
  // Of the data, only the vocabulary is used: the text that it was trained on may be elsewhere.
  const model::InputOutput in_out{
      .input = {context}, .vocabulary = vocabulary->size(), .outputs = vocabulary->size()};
  const auto model = model::build(run_file->model, in_out);
  if (!model) return fail(model.error().in(found->run_file));
  auto weights = train::read_weights(found->file, model->graph);
  if (!weights) return fail(weights.error());
  auto backend = compute::open_backend(run_file->train.device);
  if (!backend) return fail(backend.error());
  auto program =
      (*backend)->compile(model->graph, {.batch = 1, .threads = run_file->train.threads});
  if (!program) return fail(program.error());
  const auto resident = runtime::hold_weights(**program, model->graph, weights->parameters);
  if (!resident) return fail(resident.error());
  return Speaker(std::move(*vocabulary), *model, std::move(*weights), std::move(*program),
                 *resident);
}

void Speaker::append(std::int32_t token) {
  if (text_.size() == context_) text_.erase(text_.begin());
  text_.push_back(token);
}

void Speaker::hear(std::string_view text) {
  for (const std::int32_t token : vocabulary_.encode(text)) append(token);
}

base::Result<std::string_view> Speaker::next(model::TokenSampler& sampler) {
  std::vector<std::int32_t> tokens = text_;
  tokens.resize(context_);  // later tokens have no influence on earlier ones
  const compute::Batch batch{.samples = {}, .tokens = tokens, .labels = {}, .targets = {}};
  const auto outputs = resident_ != nullptr
                           ? resident_->outputs(weights_.buffers, batch)
                           : program_->outputs(weights_.parameters, weights_.buffers, batch);
  if (!outputs) return fail(outputs.error());
  // A model may have room for more tokens than there are.
  const auto logits = outputs->subspan((text_.size() - 1) * classes_, vocabulary_.size());
  const std::int32_t token = sampler.next(logits);
  append(token);
  return vocabulary_.text(token);
}

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

base::Status sample(const SampleOptions& options) {
  auto speaker = Speaker::open(options.checkpoint);
  if (!speaker) return fail(speaker.error());
  model::TokenSampler sampler({.temperature = options.temperature, .top_k = options.top_k},
                              options.seed);
  report::Utf8Stream stream;
  speaker->hear(options.prompt.empty() ? kBeginning : options.prompt);
  put(stream.push(options.prompt));
  for (std::uint32_t i = 0; i < options.tokens; ++i) {
    const auto token = speaker->next(sampler);
    if (!token) return fail(token.error());
    put(stream.push(*token));
  }
  put(stream.finish() + "\n");
  return {};
}

}  // namespace

int run_sample(const SampleOptions& options) {
  const auto sampled = sample(options);
  if (sampled) return 0;
  return complain("sample", sampled.error());
}

}  // namespace starling::peers
