// Data of other kinds than the usual images, from files to a trained peer.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "harness.hpp"

namespace starling::integration {
namespace {

/// A text that is easy to guess: a pangram with numbers in between.
std::string some_text() {
  std::string text;
  for (int i = 0; i < 600; ++i) {
    text += "the quick brown fox jumps over the lazy dog " + std::to_string(i % 7) + "\n";
  }
  return text;
}

void write_floats(const std::string& path, std::string shape, const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  const auto size = static_cast<std::uint16_t>(header.size());
  file.write(reinterpret_cast<const char*>(&size), sizeof size);
  file << header;
  const auto bytes = std::as_bytes(std::span(values));
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

struct Data {
  void ran(const Arguments& arguments) {
    const Ended ended = run(folder, arguments);
    BOOST_TEST_REQUIRE(ended.code.value_or(-1) == 0, ended.err);
  }
  /// The loss of a peer that trains with this file.
  double trained(const std::string& run_file) {
    ran({"up", run_file, "--name", "peer", "--dir", folder / "peer", "--listen", "127.0.0.1:0"});
    return report::read_peer_summary(folder / "peer").value().loss.value();
  }

  testing::TemporaryFolder folder;
};

BOOST_FIXTURE_TEST_SUITE(data, Data)

BOOST_AUTO_TEST_CASE(a_language_model_learns_a_text_that_was_encoded_before) {
  folder.write("text.txt", some_text());
  ran({"data", "train-vocabulary", folder / "text.txt", "--size", "300", "--out",
       folder / "v.json"});
  ran({"data", "encode", folder / "text.txt", "--vocabulary", folder / "v.json", "--out",
       folder / "tokens"});
  folder.write("run.toml", R"([run]
name = "text"
epochs = 10
[model]
preset = "gpt"
depth = 1
width = 32
heads = 2
context = 16
[data]
source = "tokens"
path = ")" + folder / "tokens" +
                               R"("
vocabulary = ")" + folder / "v.json" +
                               R"("
[train]
optimizer = "adamw"
lr = 0.01
batch = 8
)");
  const double loss = trained(folder / "run.toml");
  BOOST_TEST(loss < 1.0);  // 5.7 nats at first
  const Ended other = run(folder, {"check", folder / "run.toml", "--set", "data.vocabulary="});
  BOOST_TEST(other.code.value_or(-1) == 3);
  BOOST_TEST(has(other.err, "was encoded with another vocabulary"), other.err);
}

BOOST_AUTO_TEST_CASE(a_vocabulary_is_not_learned_from_nothing) {
  folder.write("empty.txt", "");
  const Ended ended = run(folder, {"data", "train-vocabulary", folder / "empty.txt", "--size",
                                   "300", "--out", folder / "v.json"});
  BOOST_TEST(ended.code.value_or(-1) == 3);
  BOOST_TEST(has(ended.err, "empty.txt: the text is empty"), ended.err);
  BOOST_TEST(!std::filesystem::exists(folder / "v.json"));
  // The target is checked before the text.
  const Ended nowhere = run(folder, {"data", "train-vocabulary", folder / "empty.txt", "--size",
                                     "300", "--out", folder / "none/v.json"});
  BOOST_TEST(nowhere.code.value_or(-1) == 3);
  BOOST_TEST(has(nowhere.err, "none/v.json: cannot be written"), nowhere.err);
}

BOOST_AUTO_TEST_CASE(an_mlp_learns_a_function_from_numpy_arrays) {
  std::vector<float> x;
  std::vector<float> y;
  for (int i = 0; i < 4000; ++i) {
    const float a = static_cast<float>(i * 37 % 101) / 50 - 1;
    const float b = static_cast<float>(i * 53 % 97) / 48 - 1;
    x.insert(x.end(), {a, b});
    y.push_back(a * b);
  }
  write_floats(folder / "x_train.npy", "(4000, 2)", x);
  write_floats(folder / "y_train.npy", "(4000,)", y);
  folder.write("run.toml", R"([run]
name = "npy"
epochs = 20
[model]
preset = "mlp"
widths = [32]
loss = "mean_squared"
[data]
source = "npy"
path = ")" + folder.path() + R"("
[train]
lr = 0.05
)");
  BOOST_TEST(trained(folder / "run.toml") < 0.01);  // the mean of y squared is 0.11
  // Targets are not labels: nothing is right or wrong.
  const auto summary = report::read_peer_summary(folder / "peer").value();
  BOOST_TEST(!summary.accuracy.has_value());
  BOOST_TEST_REQUIRE(!summary.history.empty());
  BOOST_TEST(!summary.history.back().accuracy.has_value());
  const Ended evaluated = run(folder, {"eval", folder / "peer"});
  BOOST_TEST(evaluated.code.value_or(-1) == 0, evaluated.err);
  BOOST_TEST(has(evaluated.out, "loss  "), evaluated.out);
  BOOST_TEST(!has(evaluated.out, "accuracy"), evaluated.out);
  const Ended again = run(folder, {"up", folder / "run.toml", "--dir", folder / "other", "--listen",
                                   "127.0.0.1:0", "--set", "run.epochs=1"});
  BOOST_TEST(has(again.out, " samples, loss 0."), again.out);
  BOOST_TEST(!has(again.out, "accuracy"), again.out);
}

BOOST_AUTO_TEST_CASE(a_file_that_becomes_shorter_in_use_ends_a_peer_with_a_word_on_why) {
  const std::vector<float> zeros(40'000);
  for (const char* name : {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"}) {
    write_floats(folder / name, "(10000, 4)", zeros);
  }
  folder.write("run.toml", R"([run]
name = "zeros"
samples = 1000000000
[model]
input = [4]
loss = "mean_squared"
layers = [{ type = "linear", out = 4 }]
[data]
source = "npy"
path = ")" + folder.path() + "\"\n");
  Peer peer(program(),
            {"up", folder / "run.toml", "--name", "peer", "--dir", folder / "peer", "--listen",
             "127.0.0.1:0"},
            folder, "peer");
  BOOST_TEST_REQUIRE(eventually([&] { return peer.status().has_value() || !peer.runs(); }));
  std::filesystem::resize_file(folder / "x_train.npy", 4096);
  BOOST_TEST(peer.process().wait().value_or(-1) == 3);
  BOOST_TEST(has(peer.process().err(), "became shorter while it was in use"), peer.process().err());
}

// Each peer has seen one half of a function, and is evaluated on the other.
BOOST_AUTO_TEST_CASE(peers_learn_from_each_other_s_private_data) {
  const char* const names[] = {"below", "above"};
  for (int peer = 0; peer < 2; ++peer) {
    const std::string dir = folder / names[peer];
    std::filesystem::create_directories(dir);
    for (const bool test : {false, true}) {
      const int count = test ? 500 : 4000 - 1000 * peer;
      const float side = (peer == 0) != test ? -1.0F : 1.0F;
      std::vector<float> x;
      std::vector<float> y;
      for (int i = 0; i < count; ++i) {
        x.push_back(side * static_cast<float>(i) / static_cast<float>(count));
        y.push_back(std::abs(x.back()));
      }
      const std::string size = std::to_string(count);
      const std::string set = test ? "_test.npy" : "_train.npy";
      write_floats(dir + "/x" + set, "(" + size + ", 1)", x);
      write_floats(dir + "/y" + set, "(" + size + ",)", y);
    }
  }
  folder.write("run.toml", R"([run]
name = "private"
samples = 400000
[model]
preset = "mlp"
widths = [32]
loss = "mean_squared"
[data]
source = "npy"
split = "private"
[train]
lr = 0.05
schedule = "cosine"
[exchange]
density = 0.1
[swarm]
wait_for = 1
[limits]
steps_per_second = 2000
)");
  const auto start = [&](const char* name, const std::string& join) {
    Arguments arguments{"up",       folder / "run.toml",
                        "--dir",    folder / (std::string("peer-") + name),
                        "--name",   name,
                        "--set",    "data.path=" + (folder / name),
                        "--listen", "127.0.0.1:0"};
    if (!join.empty()) arguments.insert(arguments.end(), {"--join", join});
    return std::make_unique<Peer>(program(), arguments, folder, std::string("peer-") + name);
  };
  const auto below = start(names[0], "");
  const auto above = start(names[1], below->address());
  for (Peer* peer : {below.get(), above.get()}) {
    BOOST_TEST_REQUIRE(peer->process().wait().value_or(-1) == 0, peer->process().err());
    // The mean of y squared is 0.33; continuing only the seen half is 1.3 off.
    BOOST_TEST(peer->summary().loss.value() < 0.01);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace starling::integration
