// Values of a run file that are easily taken for others, or for none.
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "runfile/run_file.hpp"

using namespace starling;
using namespace starling::runfile;

namespace {

const std::string kDropoutRun =
    "[run]\nepochs = 1\n[model]\ninput = [4]\n"
    "layers = [{ type = \"dropout\", rate = 0 }, { type = \"linear\", out = 2 }]\n";

base::Result<RunFile> parse_dropout(const std::vector<std::string>& overrides,
                                    const std::string& text = kDropoutRun) {
  return parse_run_file(text, "run.toml", overrides);
}

/// The reason for which the run file is refused.
std::string error_of(const std::vector<std::string>& overrides,
                     const std::string& text = kDropoutRun) {
  const auto run_file = parse_dropout(overrides, text);
  BOOST_REQUIRE(!run_file.has_value());
  BOOST_TEST((run_file.error().code == base::ErrorCode::run_file));
  return run_file.error().text;
}

std::string key_of(std::size_t parts) {
  std::string key = "a";
  for (std::size_t i = 1; i < parts; ++i) key += ".a";
  return key;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(run_file_values)

BOOST_AUTO_TEST_CASE(an_integer_between_two_doubles_is_a_number_as_well) {
  for (const std::string integer : {"9007199254740993", "-9007199254740993"}) {
    for (const std::string key : {"run.epochs", "train.lr", "checkpoint.every",
                                  "exchange.upload_limit", "exchange.grace"}) {
      const std::string text = error_of({key + "=" + integer});
      BOOST_TEST(text.find("is out of range: ") != std::string::npos, text);
    }
    const std::string steps =
        error_of({"train.schedule=step", "train.steps=[0.5, " + integer + "]"});
    BOOST_TEST(steps.find("is out of range: 0 to 1") != std::string::npos, steps);
    const std::string rate = error_of({"model.layers=[{ type = 'dropout', rate = " + integer +
                                       " }, { type = 'linear', out = 2 }]"});
    BOOST_TEST(rate.find("model.layers[0].rate") != std::string::npos, rate);
  }
  BOOST_TEST(error_of({"train.lr=9223372036854775807"}) ==
             "--set train.lr=9223372036854775807: train.lr: 9.223372036854776e+18 is out of range: "
             "1e-12 to 100");
  BOOST_TEST(parse_dropout({"train.lr=3"})->train.lr == 3.0);
  BOOST_TEST((parse_dropout({"checkpoint.every=1000000"})->checkpoint.every ==
              std::chrono::seconds(1000000)));
}

BOOST_AUTO_TEST_CASE(a_string_that_a_written_run_file_could_not_hold_is_refused) {
  for (const std::string path : {"caf\xE9", "\xFF", "\"caf\xE9\"", "a\xED\xA0\x80z"}) {
    for (const std::string key : {"data.path", "data.test_path", "data.vocabulary", "model.init",
                                  "security.secret", "swarm.hub", "train.device"}) {
      const std::string text = error_of({key + "=" + path});
      BOOST_TEST(text.find(key + ": is not valid UTF-8") != std::string::npos, text);
      BOOST_TEST(text.find('\xE9') == std::string::npos);
    }
  }
  // Everything else is kept, whatever TOML thinks of it.
  std::string all;
  for (char c = 1; c < 0x7f; ++c) all += c;
  for (const std::string& path : {all, std::string("\x7f\u0080\u0085\u00A0\u00E9\u2028\u2029\uFEFF"
                                                   "\uFFFE\U0001F426\U0010FFFF")}) {
    const auto run_file = parse_dropout({"data.vocabulary=" + path});
    BOOST_REQUIRE_MESSAGE(run_file.has_value(), (run_file ? "" : run_file.error().text));
    const auto again = parse_dropout({}, to_toml(*run_file));
    BOOST_REQUIRE_MESSAGE(again.has_value(), (again ? "" : again.error().text));
    BOOST_TEST(again->data.vocabulary == path);
  }
}

BOOST_AUTO_TEST_CASE(a_pace_too_slow_to_be_kept_is_refused) {
  for (const std::string pace : {"1e-10", "1e-300", "9e-6"}) {
    const std::string text = error_of({"limits.steps_per_second=" + pace});
    BOOST_TEST(text.find("is too low: at least 1e-05, or 0 for no limit") != std::string::npos,
               text);
  }
  BOOST_TEST(parse_dropout({"limits.steps_per_second=0"}).has_value());
  BOOST_TEST(parse_dropout({"limits.steps_per_second=1e-5"}).has_value());
}

BOOST_AUTO_TEST_CASE(checkpoints_without_a_pause_are_refused) {
  for (const std::string pause : {"1e-9", "1e-6", "0.009"}) {
    const std::string text = error_of({"checkpoint.every=" + pause});
    BOOST_TEST(text.find("is too short: at least 0.01 s, or 0") != std::string::npos, text);
  }
  BOOST_TEST(parse_dropout({"checkpoint.every=0"}).has_value());
  BOOST_TEST(parse_dropout({"checkpoint.every=0.01"}).has_value());
}

BOOST_AUTO_TEST_CASE(what_the_optimizer_does_not_use_cannot_be_set_to_something) {
  const auto refused = [](const std::string& optimizer, const std::string& key,
                          const std::string& optimizers) {
    const std::string text = error_of({"train.optimizer=" + optimizer, "train." + key});
    const std::string expected = "is only for " + optimizers;
    BOOST_TEST(text.find(expected) != std::string::npos, text);
  };
  for (const std::string key : {"momentum=0.5", "nesterov=true"}) {
    refused("adamw", key, "optimizers sgd and muon");
  }
  for (const std::string key : {"beta1=0.8", "beta2=0.95", "epsilon=1e-6"}) {
    refused("sgd", key, "optimizers adamw and muon");
  }
  for (const std::string optimizer : {"sgd", "adamw"}) {
    refused(optimizer, "adam_lr=0.001", "optimizer muon");
  }
  for (const std::string key : {"adam_lr=0.001", "momentum=0.5", "nesterov=false", "beta1=0.8",
                                "beta2=0.9", "epsilon=1e-6"}) {
    BOOST_TEST(parse_dropout({"train.optimizer=muon", "train." + key}).has_value());
  }
}

BOOST_AUTO_TEST_CASE(another_optimizer_passes_over_what_the_file_says_of_the_first_one) {
  const std::string adamw = kDropoutRun + "[train]\noptimizer = \"adamw\"\nbeta2 = 0.95\n";
  const auto sgd = parse_dropout({"train.optimizer=sgd"}, adamw);
  BOOST_REQUIRE_MESSAGE(sgd.has_value(), (sgd ? "" : sgd.error().text));
  BOOST_TEST((*sgd == *parse_dropout({"train.optimizer=sgd"})));
  BOOST_TEST(error_of({"train.optimizer=sgd", "train.beta2=0.95"}, adamw)
                 .find("--set train.beta2=0.95: train.beta2: is only for") == 0U);
  BOOST_TEST(error_of({}, kDropoutRun + "[train]\nbeta2 = 0.95\n") ==
             "run.toml:7: train.beta2: is only for optimizers adamw and muon");
}

BOOST_AUTO_TEST_CASE(what_the_optimizer_does_not_use_may_have_its_default) {
  const std::string all =
      "[train]\nadam_lr = 0.0003\nmomentum = 0.9\nnesterov = false\nbeta1 = 0.9\nbeta2 = 0.999\n"
      "epsilon = 1e-08\n";
  for (const std::string optimizer : {"sgd", "adamw"}) {
    const auto said = parse_dropout({"train.optimizer=" + optimizer}, kDropoutRun + all);
    BOOST_REQUIRE_MESSAGE(said.has_value(), (said ? "" : said.error().text));
    BOOST_TEST((*said == *parse_dropout({"train.optimizer=" + optimizer})));
    const std::string written = to_toml(*said);
    BOOST_TEST((*parse_dropout({}, written) == *said));
    BOOST_TEST((written.find("\nmomentum = 0.9\n") != std::string::npos) == (optimizer == "sgd"));
    BOOST_TEST((written.find("beta1 = ") != std::string::npos) == (optimizer == "adamw"));
    BOOST_TEST(written.find("adam_lr") == std::string::npos);
  }
  const auto muon = parse_dropout({"train.optimizer=muon", "train.adam_lr=0.002"});
  BOOST_TEST((*parse_dropout({}, to_toml(*muon)) == *muon));
}

BOOST_AUTO_TEST_CASE(more_neighbours_than_a_peer_has_cannot_be_waited_for) {
  BOOST_TEST(parse_dropout({"swarm.degree=3", "swarm.wait_for=4"}).has_value());
  BOOST_TEST(error_of({"swarm.degree=3", "swarm.wait_for=5"}) ==
             "--set swarm.wait_for=5: swarm.wait_for: 5 is more than the 4 neighbours that a peer "
             "has at most; it seeks swarm.degree");
  // The hub of a star has more; a ring is complete or not; and membership may go without training.
  BOOST_TEST(
      parse_dropout({"swarm.degree=1", "swarm.hub=peer-1", "swarm.wait_for=33"}).has_value());
  BOOST_TEST(
      !parse_dropout({"swarm.degree=1", "swarm.hub=peer-1", "swarm.wait_for=34"}).has_value());
  BOOST_TEST(
      parse_dropout({"exchange.mode=allreduce", "swarm.peers=8", "swarm.wait_for=7"}).has_value());
  BOOST_TEST(parse_dropout({"exchange.mode=none", "swarm.wait_for=64"}).has_value());
}

BOOST_AUTO_TEST_CASE(an_accuracy_that_nobody_looks_at_is_no_target) {
  BOOST_TEST(error_of({"run.target_accuracy=0.9", "report.every=0"})
                 .find("run.target_accuracy: nobody looks at the accuracy before the end") !=
             std::string::npos);
  BOOST_TEST(parse_dropout({"report.every=0"}).has_value());
  const std::vector<std::string> apart{"run.target_accuracy=0.9", "data.split=private",
                                       "run.samples=100", "swarm.peers=2"};
  BOOST_TEST(parse_dropout(apart).has_value());
  for (const std::string mode : {"allreduce", "local"}) {
    std::vector<std::string> together = apart;
    together.push_back("exchange.mode=" + mode);
    BOOST_TEST(error_of(together).find("would not reach it together") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(a_key_of_very_many_parts_is_refused_before_it_is_parsed) {
  for (const std::size_t parts : {17UL, 1000UL, 60'000UL}) {
    const std::string key = key_of(parts);
    for (const std::string& text :
         {key + " = 1\n", "[" + key + "]\n", "[[" + key + "]]\n", "[run]\n  " + key + " = 1",
          "x = { " + key + " = 1 }\n", "x = [1, { a = \"\", " + key + " = 1 }]\n",
          "x = \"\"\"\n\"a\"\"\"\"\ny = ''\n" + key + " = 1\n"}) {
      BOOST_TEST(error_of({}, text).find("a key has more than 16 parts") != std::string::npos);
    }
    for (const std::string& value : {"{ " + key + " = 1 }", "1\n[" + key + "]"}) {
      const auto run_file = parse_dropout({"data.path=" + value});
      BOOST_REQUIRE(!run_file.has_value());
      BOOST_TEST((run_file.error().code == base::ErrorCode::usage));
      BOOST_TEST(run_file.error().text.size() < 200U);
    }
  }
  BOOST_TEST(error_of({}, "# a\n\n[run]\n" + key_of(17) + " = 1\n") ==
             "run.toml:4: a key has more than 16 parts");
  BOOST_TEST(error_of({}, key_of(16) + " = 1\n").find("unknown section") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(dots_that_are_in_no_key_are_not_counted) {
  const std::string dots(100, '.');
  const std::string many = key_of(100);
  const auto held = parse_dropout(
      {}, "# " + dots + "\n" + kDropoutRun + "[data]\npath = ['" + many + "', \"\\\"" + many +
              "\", \"\"\"\n" + many + "\"\"\"] # " + many + "\nvocabulary = \"" + dots + "\"\n");
  BOOST_REQUIRE_MESSAGE(held.has_value(), (held ? "" : held.error().text));
  BOOST_TEST(held->data.path == (std::vector<std::string>{many, '"' + many, many}));
  BOOST_TEST(parse_dropout({"data.path=" + many})->data.path == std::vector<std::string>{many});
  std::string up = "a[1]";
  for (int i = 0; i < 20; ++i) up += "/../..";
  BOOST_TEST(parse_dropout({"data.path=" + up})->data.path == std::vector<std::string>{up});
}

BOOST_AUTO_TEST_CASE(a_fabric_has_a_name_and_ports) {
  BOOST_TEST(parse_dropout({})->links.fabric == "auto");
  BOOST_TEST(parse_dropout({})->links.fabric_ports == "");
  BOOST_TEST(parse_dropout({"links.fabric=rack-7"})->links.fabric == "rack-7");
  BOOST_TEST(parse_dropout({"links.fabric_ports=47000-47015"})->links.fabric_ports ==
             "47000-47015");
  BOOST_TEST(error_of({"links.fabric=''"}).find("links.fabric: ") != std::string::npos);
  BOOST_TEST(error_of({"links.fabric='a rack'"}).find("links.fabric: ") != std::string::npos);
  BOOST_TEST(error_of({"links.fabric=Auto"}).find("did you mean \"auto\"?") != std::string::npos);
  BOOST_TEST(error_of({"links.fabric_ports=47000-47000"}).find("is too small") !=
             std::string::npos);
  BOOST_TEST(error_of({"links.fabric_ports=any"}).find("as in \"47000-47015\"") !=
             std::string::npos);
}

// Version 0.1 wrote all keys to a peer's folder.
BOOST_AUTO_TEST_CASE(keys_that_are_gone_are_passed_over_at_their_default_and_refused_otherwise) {
  const std::string defaults =
      "[exchange]\nstart_fraction = 0.1\nstart_factor = 1\ncritical_drift = 0.0\n"
      "settle_bits = 1\nstale = 0.25\n";
  BOOST_TEST(parse_dropout({}, kDropoutRun + defaults).has_value());
  const std::vector<std::string> of_train = {"train.decay_all=false", "train.slow_every=0",
                                             "train.slow_momentum=0.5"};
  BOOST_TEST(parse_dropout(of_train).has_value());
  BOOST_TEST(error_of({"exchange.critical_drift=0.1"}) ==
             "--set exchange.critical_drift=0.1: exchange.critical_drift: this key is gone: "
             "densities do not follow the drift: raise exchange.density");
  BOOST_TEST(error_of({"train.decay_all=true"}).find("this key is gone") != std::string::npos);
  std::vector<std::string> notes;
  const auto own =
      parse_run_file(kDropoutRun + "[exchange]\nstale = 0.5\n", "f", {}, false, &notes);
  BOOST_REQUIRE(own.has_value());
  BOOST_REQUIRE(notes.size() == 1U);
  BOOST_TEST(notes[0].find("exchange.stale: this key is gone") != std::string::npos, notes[0]);
}

BOOST_AUTO_TEST_SUITE_END()
