#include "compute/cpu/backend.hpp"

#include "compute/program.hpp"

namespace starling::compute {

base::Result<std::unique_ptr<Backend>> open_backend(std::string_view device) {
  if (device == "cpu") return cpu::make_backend();
  return base::fail(base::ErrorCode::device,
                    "device '{}' is not known to this build: set train.device to \"cpu\"", device);
}

}  // namespace starling::compute
