// The processor as a device: oneDNN. No type of oneDNN leaves this folder.
#pragma once

#include <memory>

#include "compute/program.hpp"

namespace starling::compute::cpu {

[[nodiscard]] std::unique_ptr<Backend> make_backend();

}  // namespace starling::compute::cpu
