// libFuzzer: any bytes as a scenario of the simulator. One that is taken comes out the same when it
// is written and read again.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "sim/language/scenario.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::Input(data, size).text();
  const auto scenario = sim::parse_scenario(text, "scenario.toml");
  if (!scenario) {
    ASSERT(!scenario.error().text.empty());
    return 0;
  }
  const std::string written = sim::to_toml(*scenario);
  const auto again = sim::parse_scenario(written, "scenario.toml");
  ASSERT(again.has_value() && sim::to_toml(*again) == written);
  return 0;
}
