#include "runfile/build_model.hpp"

#include <vector>

#include <fmt/format.h>

#include "train/optimizer.hpp"
#include "train/safetensors.hpp"

namespace starling::runfile {

using base::ErrorCode;
using base::fail;

namespace {

base::Status check_input(const RunFile& run_file, const data::SampleFormat& format) {
  const auto& input = run_file.model.input;
  if (input.empty() || input == format.shape) return {};
  if (format.vocabulary == 0 && input.size() == 1 && input[0] == format.values()) return {};
  return fail(ErrorCode::run_file, "model.input is [{}], but samples of {} have the shape [{}]",
              fmt::join(input, ", "), run_file.data.source, fmt::join(format.shape, ", "));
}

base::Status check_loss(const RunFile& run_file, const data::SampleFormat& format) {
  const bool labels = run_file.model.loss == compute::LossKind::cross_entropy;
  if (labels == (format.classes != 0)) return {};
  return fail(ErrorCode::run_file,
              "model.loss compares outputs with {}, but samples of {} have {}: use model.loss = {}",
              labels ? "labels" : "targets", run_file.data.source, labels ? "targets" : "labels",
              labels ? "\"mean_squared\"" : "\"cross_entropy\"");
}

/// Whether the files of a checkpoint can hold them: better refused now than when the first is
/// written.
base::Status check_checkpoint(const RunFile& run_file, const compute::Graph& graph) {
  std::vector<train::TensorView> views;
  for (const auto* tensors : {&graph.tensors, &graph.buffers}) {
    for (const compute::Tensor& tensor : *tensors) {
      views.push_back({tensor.name, tensor.shape, std::span<const float>()});
    }
  }
  auto checked = train::check_tensors(views);
  if (checked) checked = train::check_state(run_file.train, graph);
  if (checked) return {};
  return fail(ErrorCode::run_file, "model: cannot be saved: {}", checked.error().text);
}

}  // namespace

base::Result<model::Model> build_model(const RunFile& run_file, const data::SampleFormat& format) {
  if (auto status = check_input(run_file, format); !status) return fail(status.error());
  if (auto status = check_loss(run_file, format); !status) return fail(status.error());
  const std::size_t outputs = format.classes != 0 ? format.classes : format.targets();
  auto model = model::build(run_file.model, {.input = format.shape,
                                             .vocabulary = format.vocabulary,
                                             .outputs = static_cast<std::uint32_t>(outputs)});
  if (!model) return model;
  if (auto status = check_checkpoint(run_file, model->graph); !status) return fail(status.error());
  return model;
}

}  // namespace starling::runfile
