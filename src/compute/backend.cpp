#include "compute/cpu/backend.hpp"

#include <optional>
#include <string>
#include <utility>

#include "base/parse_number.hpp"
#include "compute/module_loader.hpp"
#include "compute/program.hpp"

namespace starling::compute {

namespace {

/// The number of "cuda:N".
std::optional<unsigned> gpu_of(std::string_view device) {
  constexpr std::string_view kPrefix = "cuda:";
  if (!device.starts_with(kPrefix)) return {};
  return base::parse_number<unsigned>(device.substr(kPrefix.size()));
}

Device cpu_device(std::string about) { return {"cpu", std::move(about), cpu::make_backend()}; }

base::Result<Device> gpu_device(unsigned index) {
  auto gpu = open_gpu(index);
  if (!gpu) return base::fail(gpu.error());
  return Device{fmt::format("cuda:{}", index), std::move(gpu->about), std::move(gpu->backend)};
}

}  // namespace

base::Result<Device> open_device(std::string_view device) {
  if (device == "cpu") return cpu_device({});
  if (device == "auto") {
    auto gpu = gpu_device(0);
    if (gpu) return gpu;
    return cpu_device(gpu.error().text);
  }
  if (const auto index = gpu_of(device)) return gpu_device(*index);
  return base::fail(base::ErrorCode::run_file,
                    "device '{}' is not known: set train.device to \"auto\", \"cpu\" or "
                    "\"cuda:N\" (\"cuda:0\" is the first GPU)",
                    device);
}

base::Result<std::unique_ptr<Backend>> open_backend(std::string_view device) {
  auto opened = open_device(device);
  if (!opened) return base::fail(opened.error());
  return std::move(opened->backend);
}

}  // namespace starling::compute
