#include "peer/config.hpp"

#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "runfile/run_file.hpp"

using namespace starling;
using namespace starling::peer;

namespace {

std::uint64_t evaluate_every(const std::string& epochs, std::uint64_t training_set) {
  const auto run_file = runfile::parse_run_file(
      "[run]\nepochs = 1\n[model]\ninput = [4]\nlayers = [{ type = \"linear\", out = 2 }]\n",
      "run.toml", std::vector{"report.every=" + epochs});
  BOOST_REQUIRE_MESSAGE(run_file.has_value(), (run_file ? "" : run_file.error().text));
  return core_config(*run_file, "", {.parameters = 1, .training_set = training_set}).evaluate_every;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(config)

BOOST_AUTO_TEST_CASE(a_small_part_of_an_epoch_is_one_sample_and_not_never) {
  BOOST_TEST(evaluate_every("0", 1000) == 0U);
  BOOST_TEST(evaluate_every("1e-9", 1000) == 1U);
  BOOST_TEST(evaluate_every("0.0019", 1000) == 1U);
  BOOST_TEST(evaluate_every("0.5", 1000) == 500U);
  BOOST_TEST(evaluate_every("2", 1000) == 2000U);
}

BOOST_AUTO_TEST_SUITE_END()
