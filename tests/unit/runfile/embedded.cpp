// Run files of programs that embed a peer.
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "runfile/run_file.hpp"

using namespace starling;
using namespace starling::runfile;

namespace {

const std::string kText = "[run]\nepochs = 1\n";

RunFile parse_embedded(const std::vector<std::string>& overrides) {
  const auto run_file = parse_run_file(kText, "run.toml", overrides, true);
  BOOST_REQUIRE_MESSAGE(run_file.has_value(), (run_file ? "" : run_file.error().text));
  return *run_file;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(run_file_embedded)

BOOST_AUTO_TEST_CASE(who_embeds_a_peer_says_nothing_of_model_and_data) {
  const RunFile f = parse_embedded({"train.lr=0.5", "train.schedule=cosine", "train.batch=8",
                                    "train.batch_min=2", "data.shards=16"});
  BOOST_TEST(f.embedded);
  BOOST_TEST(f.train.batch_min == 2U);
  const auto again = parse_run_file(to_toml(f), "again.toml", {}, true);
  BOOST_REQUIRE_MESSAGE(again.has_value(), (again ? "" : again.error().text));
  BOOST_TEST((*again == f));
}

BOOST_AUTO_TEST_CASE(what_only_the_own_trainer_knows_is_refused) {
  for (const char* key : {"model.preset=mlp", "model.input=[2]", "model.init=x", "data.source=idx",
                          "data.split=dirichlet", "data.flip=true", "train.optimizer=adamw",
                          "train.momentum=0.5", "train.device=auto", "train.accumulate=2"}) {
    BOOST_TEST_CONTEXT(key) {
      const auto run_file = parse_run_file(kText, "run.toml", std::vector<std::string>{key}, true);
      BOOST_REQUIRE(!run_file.has_value());
      BOOST_TEST((run_file.error().code == base::ErrorCode::run_file));
      BOOST_TEST(run_file.error().text.find("is only for runs that") != std::string::npos,
                 run_file.error().text);
    }
  }
  for (const char* mode : {"allreduce", "local"}) {
    const auto run_file = parse_run_file(
        kText, "run.toml",
        std::vector<std::string>{std::string("exchange.mode=") + mode, "swarm.peers=2"}, true);
    BOOST_REQUIRE(!run_file.has_value());
    BOOST_TEST(run_file.error().text.find("is only for runs that") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(its_canonical_form_is_another_one) {
  const std::string text = canonical(parse_embedded({}), {});
  BOOST_TEST(text.find("run.trainer = another program\n") != std::string::npos);
  BOOST_TEST(text.find("model.layers") == std::string::npos);
  BOOST_TEST(text.find("data.source") == std::string::npos);
  BOOST_TEST(text.find("exchange.mode") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
