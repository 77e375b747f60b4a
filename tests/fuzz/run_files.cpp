// libFuzzer: any bytes as a run file. One that is taken comes out the same when it is written and
// read again, and can be handed to another machine, which takes it, too.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/assert.hpp"
#include "runfile/invite.hpp"
#include "runfile/run_file.hpp"
#include "tests/fuzz/input.hpp"

using namespace starling;

namespace {

void read(const std::string& text, bool embedded) {
  const auto run_file = runfile::parse_run_file(text, "run.toml", {}, embedded);
  if (!run_file) return ASSERT(!run_file.error().text.empty());
  const std::string written = runfile::to_toml(*run_file);
  const auto again = runfile::parse_run_file(written, "run.toml", {}, embedded);
  ASSERT(again.has_value() && *again == *run_file && runfile::to_toml(*again) == written);
  ASSERT(runfile::target_samples(*run_file, 1000) > 0);
  static_cast<void>(runfile::named_files(*run_file));
  if (embedded) return;  // its run file is not given out
  const std::string shared = runfile::shared_toml(*run_file);
  ASSERT(runfile::parse_run_file(shared, "run.toml").has_value());
  const std::string canonical = runfile::canonical(*run_file, {});
  ASSERT(runfile::diff(canonical, canonical).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text = fuzz::Input(data, size).text();
  read(text, false);
  read(text, true);
  static_cast<void>(runfile::diff("run.name = x\n", text));
  return 0;
}
