// The uses of trained weights: eval and export.
#include <filesystem>
#include <fstream>
#include <string>

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "harness.hpp"

namespace starling::integration {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

/// A peer that has trained for 100 steps, with checkpoints of its last two moments.
struct Trained {
  Trained() {
    const Ended ended = run(folder, {"up", mlp_run_file(), "--name", "peer", "--dir", dir,
                                     "--listen", "127.0.0.1:0", "--set", "run.samples=6400"});
    BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
    const auto steps = checkpoints_of(dir);
    BOOST_TEST_REQUIRE(!steps.empty());
    checkpoint = dir + "/checkpoints/step-" + std::to_string(steps.back());
  }

  [[nodiscard]] Json eval(const Arguments& arguments) const {
    Arguments all{"eval", "--json"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Ended ended = run(folder, all);
    BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
    return Json::parse(ended.out);
  }

  /// A run file whose text has one part replaced.
  [[nodiscard]] std::string changed_run_file(const std::string& part, const std::string& by) const {
    std::string text = text_of(dir + "/run.toml");
    BOOST_TEST_REQUIRE(has(text, part), text);
    text.replace(text.find(part), part.size(), by);
    const std::string path = folder / "changed.toml";
    std::ofstream(path) << text;
    return path;
  }

  testing::TemporaryFolder folder;
  std::string dir = folder / "runs/peer";
  std::string checkpoint;
};

BOOST_FIXTURE_TEST_SUITE(weights, Trained)

BOOST_AUTO_TEST_CASE(eval_finds_what_the_peer_reported_and_so_does_eval_of_the_export) {
  const auto summary = report::read_peer_summary(dir);
  BOOST_TEST_REQUIRE(summary.has_value());
  const std::string file = folder / "mlp.safetensors";
  const Ended exported = run(folder, {"export", dir, "--out", file});
  BOOST_TEST_REQUIRE(exported.code.value_or(-1) == 0, exported.err);
  BOOST_TEST(has(exported.out, file), exported.out);
  const Arguments named[] = {{dir}, {checkpoint}, {file, "--run", dir + "/run.toml"}};
  for (const Arguments& arguments : named) {
    const Json figures = eval(arguments);
    BOOST_TEST_CONTEXT(figures.dump(2)) {
      BOOST_TEST(figures.at("test_samples") == 10'000U);
      BOOST_TEST(figures.at("accuracy").get<double>() == summary->accuracy.value());
      BOOST_TEST(figures.at("loss").get<double>() == summary->loss.value(),
                 boost::test_tools::tolerance(1e-6));
    }
  }
  BOOST_TEST(eval({dir}).at("run_id") == summary->run);
  BOOST_TEST(eval({dir}).at("samples") == 6400U);
}

BOOST_AUTO_TEST_CASE(a_torn_checkpoint_is_refused_and_the_older_one_is_used) {
  const std::string older = dir + "/checkpoints/step-1";
  const std::string file = checkpoint + "/model.safetensors";
  fs::copy(checkpoint, older);
  fs::resize_file(file, fs::file_size(file) / 2);
  for (const Arguments& command :
       {Arguments{"eval", checkpoint}, {"export", checkpoint, "--out", folder / "out"}}) {
    const Ended refused = run(folder, command);
    BOOST_TEST(refused.code.value_or(-1) == 3);
    BOOST_TEST(has(refused.err, file + ": is damaged"), refused.err);
  }
  BOOST_TEST(!fs::exists(folder / "out"));
  const Ended used = run(folder, {"eval", dir});
  BOOST_TEST(used.code.value_or(-1) == 0, used.err);
  BOOST_TEST(has(used.out, older), used.out);
  BOOST_TEST(has(used.err, file + ": is damaged"), used.err);
  fs::remove_all(older);
  const Ended none = run(folder, {"eval", dir});
  BOOST_TEST(none.code.value_or(-1) == 3);
  BOOST_TEST(has(none.err, "no usable checkpoint"), none.err);
}

BOOST_AUTO_TEST_CASE(a_loss_that_is_not_finite_is_an_error_of_eval) {
  const std::string file = folder / "mlp.safetensors";
  BOOST_TEST_REQUIRE(run(folder, {"export", dir, "--out", file}).code.value_or(-1) == 0);
  {
    std::fstream stream(file, std::ios::binary | std::ios::in | std::ios::out);
    std::uint64_t header = 0;
    stream.read(reinterpret_cast<char*>(&header), sizeof header);
    const float large = 1e30F;  // a replica takes it, a sum of its products is beyond float32
    stream.seekp(static_cast<std::streamoff>(sizeof header + header));
    for (std::uint64_t at = sizeof header + header; at < fs::file_size(file); at += sizeof large) {
      stream.write(reinterpret_cast<const char*>(&large), sizeof large);
    }
  }
  for (const Arguments& arguments : {Arguments{"eval", file}, {"eval", "--json", file}}) {
    Arguments all = arguments;
    all.insert(all.end(), {"--run", dir + "/run.toml"});
    const Ended ended = run(folder, all);
    BOOST_TEST(ended.code.value_or(-1) == 5, ended.err);
    BOOST_TEST(has(ended.err, file + ": the loss on the test set is "), ended.err);
    BOOST_TEST(ended.out == "");
  }
}

BOOST_AUTO_TEST_CASE(metrics_of_another_version_are_an_error_that_says_what_to_do) {
  std::ofstream(dir + "/metrics.csv") << "seconds,loss\n";
  const Ended ended = run(folder, {"up", mlp_run_file(), "--name", "peer", "--dir", dir, "--listen",
                                   "127.0.0.1:0", "--set", "run.samples=6400"});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, "metrics.csv: has other columns"), ended.err);
}

BOOST_AUTO_TEST_CASE(a_run_whose_layers_got_other_names_does_not_go_on_and_its_run_file_stays) {
  const std::string before = text_of(dir + "/run.toml");
  const std::string renamed = changed_run_file("out = 256", "out = 256, name = \"stem\"");
  const Ended ended =
      run(folder, {"up", renamed, "--name", "peer", "--dir", dir, "--listen", "127.0.0.1:0"});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err,
                 "lacks tensors of the model: 'stem.weight', 'stem.bias'; give the "
                 "layers (model.layers: name) the names that they had"),
             ended.err);
  BOOST_TEST(text_of(dir + "/run.toml") == before);
}

BOOST_AUTO_TEST_CASE(weights_of_another_model_are_refused_with_the_tensor_and_both_shapes) {
  const std::string other = changed_run_file("out = 256", "out = 128");
  const Ended ended = run(folder, {"eval", dir, "--run", other});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, "'layers.0.weight' has shape [256, 784], the model needs [128, 784]"),
             ended.err);
}

BOOST_AUTO_TEST_CASE(what_is_no_checkpoint_is_an_error_that_says_what_is_accepted) {
  const Ended nothing = run(folder, {"eval", folder / "nothing"});
  BOOST_TEST(nothing.code.value_or(-1) == 3);
  BOOST_TEST(has(nothing.err, "is not a checkpoint"), nothing.err);
  const Ended no_run_file = run(folder, {"eval", checkpoint + "/model.safetensors"});
  BOOST_TEST(no_run_file.code.value_or(-1) == 2);
  BOOST_TEST(has(no_run_file.err, "--run"), no_run_file.err);
  const Ended again =
      run(folder, {"export", checkpoint + "/model.safetensors", "--out", folder / "out"});
  BOOST_TEST(again.code.value_or(-1) == 2);
  BOOST_TEST(has(again.err, "safetensors file already"), again.err);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_was_copied_elsewhere_leaves_folders_around_it_alone) {
  const std::string copy = folder / "kept/models/step-100";
  fs::create_directories(copy);
  fs::copy(checkpoint, copy);
  std::ofstream(folder / "kept/run.toml") << "of something else\n";
  const Ended none = run(folder, {"eval", copy});
  BOOST_TEST(none.code.value_or(-1) == 2);
  BOOST_TEST(has(none.err, "say with --run which run file does"), none.err);
  BOOST_TEST(eval({copy, "--run", dir + "/run.toml"}).at("samples") == 6400U);
  BOOST_TEST(!fs::exists(folder / ".cache"));
  // A checkpoint under another name is still where it was.
  fs::create_directory_symlink(checkpoint, folder / "newest");
  BOOST_TEST(eval({folder / "newest"}).at("samples") == 6400U);
}

BOOST_AUTO_TEST_CASE(weights_are_exported_though_their_run_file_can_no_longer_be_read) {
  std::ofstream(dir + "/run.toml") << "[run]\nname = 1\n";
  const Ended ended = run(folder, {"export", dir, "--out", folder / "out"});
  BOOST_TEST(ended.code.value_or(-1) == 0, ended.err);
  BOOST_TEST(has(ended.err, "run_name is left out"), ended.err);
  BOOST_TEST(fs::exists(folder / "out"));
}

BOOST_AUTO_TEST_CASE(checkpoints_of_two_runs_are_told_apart) {
  const std::string other = folder / "runs/other";
  const Ended ended = run(folder, {"up", mlp_run_file(), "--name", "peer", "--dir", other,
                                   "--listen", "127.0.0.1:0", "--set", "run.samples=640"});
  BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
  const std::string step = "/checkpoints/step-10";
  fs::copy(other + step, dir + step);
  const Ended unclear = run(folder, {"eval", dir});
  BOOST_TEST(unclear.code.value_or(-1) == 3);
  BOOST_TEST(has(unclear.err, "checkpoints of 2 runs"), unclear.err);
  BOOST_TEST(eval({dir + step}).at("samples") == 640U);
}

/// A run that starts from a file ends where it started if it learns nothing.
BOOST_AUTO_TEST_CASE(a_run_starts_from_exported_weights) {
  const std::string file = folder / "mlp.safetensors";
  BOOST_TEST_REQUIRE(run(folder, {"export", dir, "--out", file}).code.value_or(-1) == 0);
  const Arguments idle{"run.samples=64", "train.lr=1e-12", "model.init=" + file};
  Peer tuned(folder, "tuned", "", idle);
  BOOST_TEST(tuned.process().wait().value_or(-1) == 0);
  const report::PeerSummary summary = tuned.summary();
  const auto before = report::read_peer_summary(dir);
  BOOST_TEST(summary.accuracy.value() == before->accuracy.value());
  BOOST_TEST(summary.run != before->run);
}

BOOST_AUTO_TEST_CASE(a_peer_that_starts_from_elsewhere_is_refused_and_told_why) {
  const std::string file = folder / "mlp.safetensors";
  BOOST_TEST_REQUIRE(run(folder, {"export", dir, "--out", file}).code.value_or(-1) == 0);
  Peer first(folder, "first", "", {"run.samples=1000000000", "model.init=" + file});
  BOOST_TEST_REQUIRE(!first.address().empty(), first.process().err());
  Peer other(folder, "other", first.address(), {"run.samples=1000000000"});
  BOOST_TEST(eventually([&] { return has(other.process().err(), "model.init: nothing here"); }),
             other.process().err());
  const Ended missing =
      run(folder, {"up", mlp_run_file(), "--dir", folder / "missing", "--join", first.address(),
                   "--set", "model.init=" + (folder / "nothing.safetensors")});
  BOOST_TEST(missing.code.value_or(-1) == 3);
  BOOST_TEST(has(missing.err, "every peer of the run needs this file"), missing.err);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::integration
