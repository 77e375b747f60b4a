// libFuzzer: any lines as the log of a run with real peers. One that is taken can be judged.
#include "sim/judge/observations.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "sim/judge/real_run.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

namespace {

/// Its events: 0 and 1 start the peers; then come a kill, a restart, a stop and a partition.
const std::string kRun =
    R"({"kind":"run","format":1,"file":"t.toml","seed":1,"undisturbed":false,"scenario":")"
    R"([scenario]\nname = \"t\"\nduration = 600\n[sim]\nproblem = \"none\"\n[peers]\ncount = 4\n)"
    R"([[timeline]]\nkind = \"kill\"\nat = 10\nfor = 10\npeers = [3]\n)"
    R"([[timeline]]\nkind = \"stop\"\nat = 30\nfor = 10\npeers = [1]\n)"
    R"([[timeline]]\nkind = \"partition\"\nat = 50\nfor = 10\n)"
    R"([expect]\npaths_within_s = 5\npairs_linked_within_s = 5\ndirect = [[0, 1]]\n"})"
    "\n";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = kRun + fuzz::Input(data, size).text();
  const auto log = sim::parse_observations(text, "log");
  if (!log) {
    ASSERT(!log.error().text.empty());
    return 0;
  }
  const sim::Measured measured = sim::RealRun(log->run).measured();
  ASSERT(measured[sim::Measure::false_deaths_max].has_value());
  return 0;
}
