// Messages about overrides (--set), and about run files that come from strangers.
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "runfile/run_file.hpp"

using namespace starling;
using namespace starling::runfile;

namespace {

constexpr std::string_view kCnnRun = "[run]\nepochs = 1\n[model]\npreset = \"cnn\"\n";

base::Error error_of(const std::string& text, const std::vector<std::string>& overrides) {
  const auto run_file = parse_run_file(text, "run.toml", overrides);
  BOOST_REQUIRE(!run_file.has_value());
  return run_file.error();
}

std::string refusal_of_override(const std::string& override) {
  return error_of(std::string(kCnnRun), {override}).text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(run_file_overrides)

BOOST_AUTO_TEST_CASE(a_wrong_name_is_blamed_on_the_override) {
  for (const char* override : {"train..lr=1", "train.lr.x=1", "train. lr=1", "a b.lr=1"}) {
    BOOST_TEST_CONTEXT(override) {
      const base::Error error = error_of(std::string(kCnnRun), {override});
      BOOST_TEST((error.code == base::ErrorCode::usage));
      BOOST_TEST(error.text.find("--set " + std::string(override) +
                                 ": must have the form section.key=value: '") == 0U);
    }
  }
  BOOST_TEST(refusal_of_override("TRAIN.lr=1").find("--set TRAIN.lr=1: [TRAIN]: unknown section") ==
             0U);
}

BOOST_AUTO_TEST_CASE(what_is_no_toml_is_not_called_a_string) {
  BOOST_TEST(refusal_of_override("run.seed=9223372036854775808") ==
             "--set run.seed=9223372036854775808: run.seed: is not valid TOML, must be an integer "
             "from 0 to 9223372036854775807");
  BOOST_TEST(refusal_of_override("train.steps=[0.5").find("is not valid TOML, must be an array") !=
             std::string::npos);
  BOOST_TEST(refusal_of_override("train.lr=fast").find("is a string") != std::string::npos);
  BOOST_TEST(refusal_of_override("train.lr=\"1\"").find("is a string") != std::string::npos);
  const auto later = error_of(std::string(kCnnRun), {"train.lr=[", "train.lr=fast"});
  BOOST_TEST(later.text.find("is a string") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_strangers_run_file_says_nothing_to_the_terminal) {
  const std::string loud = "\\u001b[2J" + std::string(5000, 'x');
  const std::vector<std::string> texts{
      "[run]\nname = \"\\u001b[2J\"\n",
      "[run]\n\"" + loud + "\" = 1\n",
      "[\"" + loud + "\"]\n",
      "[model]\npreset = \"" + loud + "\"\n",
      "[model]\nblocks.\"" + loud + "\" = []\n",
      "[model]\nlayers = [{ type = \"relu\", name = \"\\u001b[2J\" }]\n",
      "[model]\nlayers = [{ type = \"relu\", \"" + loud + "\" = 1 }]\n"};
  for (const std::string& text : texts) {
    const std::string said = error_of(text, {}).text;
    BOOST_TEST_CONTEXT(said) {
      BOOST_TEST(said.find("?[2J") != std::string::npos);
      BOOST_TEST(said.find('\x1b') == std::string::npos);
      BOOST_TEST(said.size() < 500U);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_run_without_accuracy_cannot_aim_at_one) {
  const auto error =
      error_of(std::string(kCnnRun), {"model.loss=mean_squared", "run.target_accuracy=0.9"});
  BOOST_TEST(error.text.find("run.target_accuracy: there is none") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(only_a_pool_has_a_stride_of_zero) {
  const auto with = [](const std::string& layer) {
    return parse_run_file(std::string("[run]\nepochs = 1\n"), "run.toml",
                          std::vector<std::string>{"model.layers=[" + layer + "]"});
  };
  BOOST_TEST(with("{ type = 'max_pool2d', kernel = 2, stride = 0 }").has_value());
  const auto refused = with("{ type = 'conv2d', out = 1, kernel = 2, stride = 0 }");
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text.find("stride: 0 is out of range: 1 to") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
