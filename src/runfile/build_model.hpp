// A run file's model for the samples that its data gives.
#pragma once

#include "base/result.hpp"
#include "data/batch_buffer.hpp"
#include "model/model.hpp"
#include "runfile/run_file.hpp"

namespace starling::runfile {

/// The model for samples of that format. model.input must be their shape, or one number, their
/// values; the last layer must give an output a class, or a target's shape. A checkpoint must have
/// room for the names of the model's tensors, and of the optimizer's. Errors (ErrorCode::run_file)
/// name model.input, the layer or the model.
[[nodiscard]] base::Result<model::Model> build_model(const RunFile& run_file,
                                                     const data::SampleFormat& format);

}  // namespace starling::runfile
